"""The error of a program that comes to no end."""

import pytest

from etalstm.model.iteration import ModelError, count_program
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode, encode


@pytest.mark.parametrize("repeats", [True, False])
def test_the_error_names_what_waits_for_what(repeats):
    program = [
        encode(Opcode.MAC, tiles=1),
        encode(Opcode.VECTOR, wait_mac=1, inner=1, outer=1),
        encode(Opcode.HALT),
    ]
    with pytest.raises(ModelError) as error:
        count_program(preset("test"), program, operands=None, repeats=repeats)
    assert "MAC has not taken its MAC, with 0 scalars waiting" in str(error.value)
    assert "VECTOR holds a VECTOR back, which waits for MAC number 1, of which 0 are completed" in str(error.value)
