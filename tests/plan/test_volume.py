"""Bytes that instructions move."""

from etalstm.plan.program.fold import Instruction
from etalstm.plan.program.volume import Volume
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode, Traffic


def test_each_lane_of_a_square_is_written_as_whole_beats():
    config = preset("bench")
    volume = Volume(config, density=1.0)
    square = {"kind": Traffic.WEIGHTS, "outer": 4, "rows": config.beat_words + 1, "lanes": 10}
    volume.count(Instruction(Opcode.TRANSPOSE, (0, 0, 0, 0), 0, square, ()))
    assert volume.write_bytes[Traffic.WEIGHTS] == 4 * 10 * 2 * config.beat_bytes * config.channels
