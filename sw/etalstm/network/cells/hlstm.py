"""The H-LSTM: an LSTM each of whose gates sees x and h through a hidden layer with ReLU.

With ``v_n = relu(U_n [x, h] + a_n)`` and ``z_n = W_n v_n + b_n`` for n in i, f, g, o: ``c = f*c' + i*g``,
``h = o*tanh(c)``. Hidden layers are as wide as h. The first product has the matrices U_n, a row of each for every unit;
each W_n is a product of its own.

The hidden layers store nothing for the backward pass: the derivative of ReLU follows from v_n, which is in memory
anyway, for dW.

Source: Dai, Yin, Jha, "Grow and Prune Compact, Fast, and Accurate LSTMs", and Yin et al., "Hardware-Guided Symbiotic
Training for Compact, Accurate, yet Execution-Efficient LSTM", with one hidden layer for each gate. Where v_n is 0 its
derivative is taken to be 0, as PyTorch does.
"""

from dataclasses import replace

from etalstm.network.cells.cell import Cell, Product, Stage, arrays
from etalstm.network.cells.lstm import LSTM
from etalstm.network.cells.operation import equations

GATES = LSTM.stages[0].gates
_OUTPUTS = tuple(f"v_{gate}" for gate in GATES)

_HIDDEN_LAYERS = Stage(
    products=(Product(gates=_OUTPUTS, operands=("x", "h")),),
    outputs=_OUTPUTS,
    forward=equations("""
        v_i = relu(z_v_i)
        v_f = relu(z_v_f)
        v_g = relu(z_v_g)
        v_o = relu(z_v_o)
    """),
    local=(),
    kept={},
    rebuild=(),
    backward=equations("""
        delta_v_i = dv_i where v_i
        delta_v_f = dv_f where v_f
        delta_v_g = dv_g where v_g
        delta_v_o = dv_o where v_o
    """),
    forward_arrays=arrays("v_i", "v_f", "v_g", "v_o"),
    local_arrays=(),
    backward_arrays=arrays(
        "v_i v_f v_g v_o", "delta_v_i delta_v_f delta_v_g delta_v_o", "dv_i", "dv_f", "dv_g", "dv_o"
    ),
)  # fmt: skip

_STATE = replace(
    LSTM.stages[0],
    products=tuple(Product((gate,), (output,)) for gate, output in zip(GATES, _OUTPUTS, strict=True)),
    backward_arrays=arrays(
        "i f g o", "P_i=delta_i", "P_f=delta_f", "P_g=delta_g", "P_o=delta_o",
        "c=tanh_c=P_s", "c_before=dc_before", "dy", "product=dc", "dh", "dc_next",
    ),
)  # fmt: skip

HLSTM = Cell("hlstm", (_HIDDEN_LAYERS, _STATE), state="c")
