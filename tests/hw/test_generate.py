import json

import pytest

from etalstm_hw import contract, generate
from etalstm_hw.config import PRESETS, preset
from etalstm_hw.contract import BINARY32
from etalstm_hw.fp.activation import Activation
from etalstm_hw.fp.multiply import Multiplier
from etalstm_hw.machine.top import top_signature
from etalstm_sim.compiled.library import design, repeated_modules
from etalstm_sim.compiled.lint import lint


def verilog(name):
    """Give a preset's Verilog; what a simulator of it is made of, so that both are elaborated once."""
    return design(preset(name), apart=False).verilog


# A slice stands for the board's presets, as the linter takes a minute for all 1,280 lanes.
@pytest.mark.parametrize("name", ["test", "sim", "slice", "slice-int8"])
def test_lints(name):
    lint(verilog(name))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_elaborates(name, monkeypatch, tmp_path):
    if name == "u280" and preset(name) == preset("vcu128"):
        pytest.skip("the same as vcu128")
    text = verilog(name)
    monkeypatch.setattr(generate, "verilog", lambda _, source_lines: text)
    paths = generate.write(name, tmp_path / "made")
    manifest = json.loads((tmp_path / "made" / "manifest.json").read_text())
    assert [path.name for path in paths] == ["top.v", "manifest.json"]
    assert manifest["preset"] == name
    assert manifest["contract_version"] == contract.VERSION
    assert manifest["configuration"]["channels"] == preset(name).channels
    comments, _, rest = (tmp_path / "made" / "top.v").read_text(encoding="utf-8").partition("module top(")
    assert f"preset {name}: " in comments.splitlines()[0]
    assert f"{preset(name).digest:#010x}" in comments
    named = [word.strip(" )\n") for word in rest.split(";")[0].split(",")]
    assert named == [port["name"] for port in manifest["ports"]]


def test_what_there_are_many_of_is_written_once():
    often = {"channel", "products", "weights2", "sender", "integer_pe", "pe", "activation"}
    assert set(repeated_modules(verilog("slice-int8"))) == often


def test_equal_configurations_give_equal_text():
    assert generate.verilog(preset("test")) == verilog("test")


def test_a_port_whose_name_is_a_word_of_verilog_stays_in_its_place():
    text = generate.component_verilog(Activation(BINARY32), "activation")
    header = text[text.index("module activation") : text.index(");")]
    order = [port["name"] for port in generate.ports(Activation(BINARY32).signature)]
    assert [name.strip("\\ \n") for name in header.split("(")[1].split(",")] == order
    assert "\\function " in header


def test_source_lines_name_files_from_the_package_on():
    text = generate.component_verilog(Multiplier(BINARY32), "multiplier", source_lines=True)
    assert 'src = "etalstm_hw/fp/multiply.py:' in text
    assert 'src = "/' not in text and "|/" not in text
    assert "src =" not in generate.component_verilog(Multiplier(BINARY32), "multiplier")


def test_an_unknown_preset_is_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown preset 'abacus', expected one of: test, sim"):
        generate.write("abacus", tmp_path)


def test_ports_are_those_of_the_component():
    config = preset("test")
    ports = {port["name"]: port for port in generate.ports(top_signature(config))}
    assert ports["clk"] == {"name": "clk", "direction": "input", "width": 1}
    assert ports["port0__rdata"] == {"name": "port0__rdata", "direction": "input", "width": config.beat_bits}
    assert ports["port0__araddr"]["direction"] == "output"
    assert f"port{config.ports - 1}__awaddr" not in ports  # the sequencer only reads
