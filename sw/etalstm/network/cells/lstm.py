"""The LSTM: ``c = f*c' + i*g``, ``h = o*tanh(c)``.

Source of the local gradients: η-LSTM, cell-level reduction (MS1); the product rule on the two equations, each product
left to right.
"""

from etalstm.network.cells.cell import Cell, Product, Stage, arrays
from etalstm.network.cells.operation import equations

_STEP = Stage(
    products=(Product(gates=("i", "f", "g", "o"), operands=("x", "h")),),
    outputs=("h",),
    forward=equations("""
        i = sigmoid(z_i)
        f = sigmoid(z_f)
        g = tanh(z_g)
        o = sigmoid(z_o)
        c = f * c_before
        product = i * g
        c = c + product
        tanh_c = tanh(c)
        h = o * tanh_c
    """),
    local=equations("""
        P_i = g * i
        product = 1 - i
        P_i = P_i * product
        P_f = c_before * f
        product = 1 - f
        P_f = P_f * product
        product = g * g
        product = 1 - product
        P_g = i * product
        P_o = tanh_c * o
        product = 1 - o
        P_o = P_o * product
        product = tanh_c * tanh_c
        product = 1 - product
        P_s = o * product
    """),
    kept={"i": "P_i", "f": "P_f", "g": "P_g", "o": "P_o", "s": "P_s", "r": "f"},
    rebuild=equations("""
        tanh_c = tanh(c)
    """),
    backward=equations("""
        dc = dh * P_s
        dc = dc_next + dc
        delta_i = dc * P_i
        delta_f = dc * P_f
        delta_g = dc * P_g
        delta_o = dh * P_o
        dc_before = dc * f
    """),
    forward_arrays=arrays("i f g o", "c_before", "c", "tanh_c=P_s", "h", "product"),
    local_arrays=arrays("P_i P_f P_g P_o"),
    backward_arrays=arrays(
        "i f g o", "P_i=delta_i P_f=delta_f P_g=delta_g P_o=delta_o",
        "c=tanh_c=P_s", "c_before=dc_before", "dy", "product=dc", "dh", "dc_next",
    ),
)  # fmt: skip

LSTM = Cell("lstm", (_STEP,), state="c")
