"""Instructions in words beside their signals, in a small waveform as Verilator writes one."""

import pytest

from etalstm.plan.program.walk import line_of
from etalstm_hw.contract import Opcode, encode
from etalstm_sim.waveform import name_instructions

DECLARED = """$timescale 1ps $end
$scope module top $end
$var wire 1 ! clk $end
$var wire 256 "# o__payload.word [255:0] $end
$var wire 256 $ beat [255:0] $end
$upscope $end
$enddefinitions $end
"""


def binary(word):
    return f"b{word:0256b}"


def test_each_word_has_its_text_beside_it(tmp_path):
    path = tmp_path / "machine.vcd"
    loaded, unknown = encode(Opcode.LOAD, address=24, outer=2, inner=3), (1 << 256) - 1
    changes = ["#0", "0!", f'{binary(loaded)} "#', f"{binary(loaded)} $", "#2", "1!", f'{binary(unknown)} "#']
    path.write_text(DECLARED + "\n".join(changes) + "\n")
    assert name_instructions(path, lambda word: line_of(word, {24: "h0[2]"}.get)) == 1
    declared, _, rest = path.read_text().partition("$enddefinitions $end\n")
    text = "LOAD\\x20address=24\\x20kind=weights\\x20memory=weights\\x20outer=2\\x20inner=3\\x20;\\x20h0[2]"
    assert '[255:0] $end\n$var string 1 ~"# o__payload.word_text $end\n' in declared
    assert rest.splitlines() == [*changes[:3], f's{text} ~"#', *changes[3:], 's? ~"#']


def test_a_waveform_without_words_stays_as_it_is(tmp_path):
    path = tmp_path / "machine.vcd"
    path.write_text(text := "$var wire 1 ! clk $end\n$enddefinitions $end\n#0\n0!\n")
    assert name_instructions(path, line_of) == 0 and path.read_text() == text


def test_a_waveform_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.vcd"):
        name_instructions(tmp_path / "none.vcd", line_of)
    assert not list(tmp_path.iterdir())
