"""A made-up cell whose gates see x and h through a hidden layer: two matrices in a step, five kept tensors."""

from etalstm.network.cells.cell import Cell, Product, Stage, arrays
from etalstm.network.cells.operation import equations

_HIDDEN_LAYER = Stage(
    products=(Product(gates=("u",), operands=("x", "h")),),
    outputs=("v",),
    forward=equations("""
        u = sigmoid(z_u)
        v = u * u
    """),
    local=equations("""
        P_u = 1 - u
        P_u = v * P_u
        P_u = P_u + P_u
    """),
    kept={"u": "P_u"},
    rebuild=equations("v = u * u"),
    backward=equations("delta_u = dv * P_u"),
    forward_arrays=arrays("u", "v"),
    local_arrays=arrays("P_u"),
    backward_arrays=arrays("u", "v", "P_u=delta_u", "dv"),
)

_STATE = Stage(
    products=(Product(gates=("q", "r", "o"), operands=("v",)),),
    outputs=("h",),
    forward=equations("""
        q = sigmoid(z_q)
        r = tanh(z_r)
        o = sigmoid(z_o)
        product = q * r
        c = c_before + product
        tanh_c = tanh(c)
        h = o * tanh_c
    """),
    local=equations("""
        P_q = r * q
        product = 1 - q
        P_q = P_q * product
        product = r * r
        product = 1 - product
        P_r = q * product
        P_o = tanh_c * o
        product = 1 - o
        P_o = P_o * product
        product = tanh_c * tanh_c
        product = 1 - product
        P_s = o * product
    """),
    kept={"q": "P_q", "r": "P_r", "o": "P_o", "s": "P_s"},
    rebuild=equations("tanh_c = tanh(c)"),
    backward=equations("""
        dc = dh * P_s
        dc = dc_next + dc
        delta_q = dc * P_q
        delta_r = dc * P_r
        delta_o = dh * P_o
        dc_before = dc + 0
    """),
    forward_arrays=arrays("q r o", "c_before", "c", "tanh_c", "h", "product"),
    local_arrays=arrays("P_q P_r P_o", "P_s"),
    backward_arrays=arrays(
        "q r o", "P_q=delta_q P_r=delta_r P_o=delta_o", "c=tanh_c=P_s", "dy", "product=dc=dc_before", "dh", "dc_next"
    ),
)

TWO_STAGES = Cell("two stages", (_HIDDEN_LAYER, _STATE), state="c")
