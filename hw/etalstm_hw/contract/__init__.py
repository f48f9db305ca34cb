"""What hardware and software agree on, declared once, in plain Python.

Every name of the parts is a name of this package, too: ``contract.Opcode``, ``contract.FIELDS``.

PARTS : tuple of modules
    The modules whose sources are the contract, in the order in which a reader wants them.
"""

from etalstm_hw.contract import board, counters, fields, floats, instruction, opcodes, parameters, registers, streams
from etalstm_hw.contract.board import *  # noqa: F403
from etalstm_hw.contract.counters import *  # noqa: F403
from etalstm_hw.contract.fields import *  # noqa: F403
from etalstm_hw.contract.floats import *  # noqa: F403
from etalstm_hw.contract.instruction import *  # noqa: F403
from etalstm_hw.contract.opcodes import *  # noqa: F403
from etalstm_hw.contract.parameters import *  # noqa: F403
from etalstm_hw.contract.registers import *  # noqa: F403
from etalstm_hw.contract.streams import *  # noqa: F403

PARTS = floats, opcodes, fields, streams, instruction, registers, parameters, counters, board
