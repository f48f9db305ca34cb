from dataclasses import replace

import pytest

from etalstm.errors import ToolchainError
from etalstm_hw.config import preset
from etalstm_hw.contract import Register
from etalstm_sim.compiled import library
from etalstm_sim.compiled.glue import glue
from etalstm_sim.compiled.library import build_library, design, repeated_modules
from etalstm_sim.simulation import Simulation


def test_builds_once(echo_design, echo_library):
    assert build_library(echo_design).path == echo_library.path
    assert build_library(echo_design).seconds == 0


def test_repeated_modules_are_those_written_once_for_many():
    assert set(repeated_modules(design(preset("test")).verilog)) == {"broadcaster", "channel", "pe"}
    assert repeated_modules("module one (a);\n  two two (\n);\nendmodule\nmodule two (b);\nendmodule\n") == []


def test_writes_a_waveform(echo_design, tmp_path):
    built = build_library(echo_design, waveform="vcd")
    simulation = Simulation(built, 1 << 20, waveform=tmp_path / "echo.vcd")
    simulation.read(Register.MAGIC)
    simulation.close()
    text = (tmp_path / "echo.vcd").read_text()
    assert "control__araddr" in text
    assert text.count("\n#") > 10


@pytest.mark.parametrize(("cycles", "message"), [((5, 4), "last"), ((-1, 4), "first"), (("a", 4), "first")], ids=str)
def test_refuses_cycles_that_cannot_be(echo_design, tmp_path, cycles, message):
    built = build_library(echo_design, waveform="vcd")
    with pytest.raises(ValueError, match=f"the {message} cycle of a waveform must be an integer"):
        Simulation(built, 1 << 20, waveform=tmp_path / "echo.vcd", waveform_cycles=cycles)


def test_names_what_fst_needs(monkeypatch, echo_design):
    monkeypatch.setattr(library, "_FST_HEADERS", ("surely_not_installed.h",))
    with pytest.raises(ToolchainError, match="apt-get install liblz4-dev zlib1g-dev"):
        build_library(echo_design, waveform="fst")


def test_refuses_an_unknown_waveform(echo_design):
    with pytest.raises(ValueError, match="waveform must be one of fst, vcd, got 'png'"):
        build_library(echo_design, waveform="png")


def test_refuses_an_input_that_nothing_drives(echo_design):
    ports = [*echo_design.ports, {"name": "loose", "direction": "input", "width": 1}]
    with pytest.raises(ValueError, match="does not know these inputs of the design: loose"):
        build_library(replace(echo_design, ports=ports))


def test_refuses_a_design_without_registers(echo_design):
    ports = [port for port in echo_design.ports if port["name"] != "control__awaddr"]
    with pytest.raises(ValueError, match="lacks these ports: control__awaddr"):
        glue(ports)


def test_refuses_a_design_without_memory():
    with pytest.raises(ValueError, match="port0__rdata must have 8 to 512 bits, got 0"):
        glue([])
