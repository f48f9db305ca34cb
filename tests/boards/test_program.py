"""Programming a card: what Vivado is told, and what is refused before it is."""

import re

import pytest

from etalstm.cli.main import run
from etalstm.errors import BuildError
from etalstm_boards.bitstream import check_bitstream, read_bitstream
from etalstm_boards.build import platform
from etalstm_boards.program import run as run_vivado
from etalstm_boards.program import script
from etalstm_hw import contract
from tests.boards import vivado
from tests.boards.vivado import Answers


def bit_file(part="xcvu37p-fsvh2892-2L-e", data=bytes(100), size=None):
    fields = [(b"a", b"card;UserID=0XFFFFFFFF;Version=2023.2"), (b"b", part.encode()), (b"c", b"2024/01/02"),
              (b"d", b"03:04:05")]  # fmt: skip
    content = bytes.fromhex("0009 0ff00ff00ff00ff000 0001")
    for key, text in fields:
        content += key + (len(text) + 1).to_bytes(2, "big") + text + b"\0"
    return content + b"e" + (len(data) if size is None else size).to_bytes(4, "big") + data


@pytest.fixture
def bitstream(tmp_path):
    path = tmp_path / "a card.bit"
    path.write_bytes(bit_file())
    return path


def calls(folder, text, **answers):
    (folder / "program.tcl").write_text(text)
    return vivado.run(folder, "program.tcl", Answers(**answers))


def test_a_bitstream_is_loaded_by_jtag(tmp_path, bitstream):
    assert calls(tmp_path, script(platform("vcu128"), bitstream)) == [
        ["open_hw_manager"],
        ["connect_hw_server", "-url", "localhost:3121"],
        ["get_hw_targets", "*"],
        ["open_hw_target", "cable"],
        ["current_hw_device", "xcvu37p_0"],
        ["refresh_hw_device", "-update_hw_probes", "false", "xcvu37p_0"],
        ["set_property", "PROGRAM.FILE", str(bitstream), "xcvu37p_0"],
        ["program_hw_devices", "xcvu37p_0"],
        ["refresh_hw_device", "xcvu37p_0"],
        ["close_hw_target"],
        ["disconnect_hw_server"],
        ["close_hw_manager"],
    ]


@pytest.mark.parametrize(
    ("board", "device", "part", "megabytes"),
    [
        ("vcu128", "xcvu37p_0", "mt25qu02g-spi-x1_x2_x4", "256"),
        ("u280", "xcu280_0", "mt25qu01g-spi-x1_x2_x4", "128"),
    ],
)
def test_a_bitstream_is_written_to_the_flash(tmp_path, bitstream, board, device, part, megabytes):
    text = script(platform(board), bitstream, flash=True, server="lab:3121", target="*/xilinx_tcf/*")
    recorded = calls(tmp_path, text, devices=device)
    image, flash = str(bitstream.with_suffix(".mcs")), "PROGRAM.HW_CFGMEM"
    settings = {
        "PROGRAM.ADDRESS_RANGE": "use_file", "PROGRAM.UNUSED_PIN_TERMINATION": "pull-none", "PROGRAM.ERASE": "1",
        "PROGRAM.BLANK_CHECK": "0", "PROGRAM.CFG_PROGRAM": "1", "PROGRAM.VERIFY": "1",
    }  # fmt: skip
    assert recorded[1:3] == [["connect_hw_server", "-url", "lab:3121"], ["get_hw_targets", "*/xilinx_tcf/*"]]
    assert recorded[6:-3] == [
        ["write_cfgmem", "-force", "-format", "mcs", "-size", megabytes, "-interface", "SPIx4",
         "-loadbit", f'up 0x00000000 "{bitstream}"', "-file", image],
        ["create_hw_cfgmem", "-hw_device", device, part],
        ["set_property", "PROGRAM.FILES", f"{{{image}}}", flash],
        *(["set_property", name, value, flash] for name, value in settings.items()),
        ["create_hw_bitstream", "-hw_device", device, "PROGRAM.HW_CFGMEM_BITFILE"],
        ["program_hw_devices", device],
        ["refresh_hw_device", "-update_hw_probes", "false", device],
        ["program_hw_cfgmem", "-hw_cfgmem", flash],
        ["boot_hw_device", device],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"cables": ""}, r"0 JTAG cables fit \*, not 1"),
        ({"cables": "one two"}, r"2 JTAG cables fit \*, not 1; there are: one two"),
        ({"devices": ""}, "no xcvu37p_0 on the cable"),
    ],
)
def test_a_missing_cable_or_part_is_named(tmp_path, bitstream, found, message):
    with pytest.raises(RuntimeError, match=message):
        calls(tmp_path, script(platform("vcu128"), bitstream), **found)


@pytest.mark.parametrize("wrong", [{"server": "a b"}, {"target": "[exec rm]"}, {"server": ""}])
def test_words_that_tcl_would_read_otherwise_are_refused(bitstream, wrong):
    with pytest.raises(ValueError, match="cannot be used in a script"):
        script(platform("vcu128"), bitstream, **wrong)
    with pytest.raises(ValueError, match="the bitstream's path cannot be used"):
        script(platform("vcu128"), bitstream.with_name("a{b.bit"))


def test_a_header_is_read(bitstream):
    read = read_bitstream(bitstream)
    assert (read.design, read.part, read.date) == ("card", "xcvu37p-fsvh2892-2L-e", "2024/01/02 03:04:05")
    check_bitstream(read, platform("vcu128"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no bitstream with a header"),
        (b"\x00\x09 something else", "no bitstream with a header"),
        (bit_file(size=101), "is damaged: 100 bytes follow its header, which tells 101"),
        (bit_file()[:40], "is damaged"),
    ],
)
def test_what_is_no_whole_bitstream_is_refused(bitstream, content, message):
    bitstream.write_bytes(content)
    with pytest.raises(BuildError, match=message):
        read_bitstream(bitstream)


def test_a_bitstream_for_another_part_or_contract_is_refused(bitstream):
    bitstream.write_bytes(bit_file("xcu280-fsvh2892-2L-e"))
    with pytest.raises(BuildError, match=r"is for the part xcu280-\S+, the vcu128 has xcvu37p"):
        check_bitstream(read_bitstream(bitstream), platform("vcu128"))
    bitstream.write_bytes(bit_file())
    manifest = bitstream.with_name("manifest.json")
    for version in (contract.VERSION, contract.VERSION - 1):
        manifest.write_text(f'{{"accelerator": {{"contract_version": {version}}}}}')
        if version == contract.VERSION:
            check_bitstream(read_bitstream(bitstream), platform("vcu128"))
        else:
            with pytest.raises(BuildError, match=f"has contract version {version}, this host has {contract.VERSION}"):
                check_bitstream(read_bitstream(bitstream), platform("vcu128"))
    manifest.write_text("[]")
    with pytest.raises(BuildError, match="is no manifest of a build"):
        check_bitstream(read_bitstream(bitstream), platform("vcu128"))


def tool(folder, body):
    """A program that plays Vivado; it tells its version, otherwise does as the test says."""
    path = folder / "vivado"
    path.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo "vivado v2023.2 (64-bit)" && exit 0\n{body}\n')
    path.chmod(0o755)
    return path


def test_the_command_runs_vivado_on_the_script(tmp_path, bitstream, capsys):
    program = tool(tmp_path, 'echo "$@" > "$(dirname "$0")/arguments"; exit 0')
    arguments = ["hw", "program", "--board", "vcu128", "--bitstream", str(bitstream), "--vivado", str(program)]
    assert run(arguments) == 0
    source = tmp_path / "vcu128_program.tcl"
    assert f"-source {source}" in (tmp_path / "arguments").read_text()
    assert source.read_text() == script(platform("vcu128"), bitstream)
    assert "now rescan PCIe (eta-lstm hw program --only-rescan)" in capsys.readouterr().out


def test_the_command_can_only_write_the_script(tmp_path, bitstream, capsys):
    target = tmp_path / "p.tcl"
    assert run(["hw", "program", "--board", "u280", "--bitstream", str(bitstream), "--flash", "-o", str(target)]) == 0
    assert capsys.readouterr().out == f"vivado -mode batch -source {target}\n"
    assert "program_hw_cfgmem" in target.read_text()


def test_vivados_errors_are_told(tmp_path, monkeypatch):
    source = tmp_path / "p.tcl"
    failing = tool(tmp_path, "echo 'INFO: x'; echo 'ERROR: [Labtoolstcl 44-469] no cable'; exit 1")
    with pytest.raises(BuildError, match=re.escape("programming failed: ERROR: [Labtoolstcl 44-469] no cable; see")):
        run_vivado(failing, source)
    monkeypatch.setattr("etalstm_boards.program.TIMEOUT_SECONDS", 0.1)
    with pytest.raises(BuildError, match=r"did not end within 0\.1 seconds"):
        run_vivado(tool(tmp_path, "exec sleep 20"), source)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--board", "zedboard"], "unknown board 'zedboard', expected one of: vcu128, u280"),
        (["--board", "vcu128"], "cannot read the bitstream build/vcu128/vcu128.bit: No such file"),
        (["--board", "vcu128", "--vivado", "/nowhere/vivado", "--bitstream", "BITSTREAM"], "there is no Vivado at"),
    ],
)
def test_bad_input_is_refused(tmp_path, monkeypatch, capsys, bitstream, arguments, message):
    monkeypatch.chdir(tmp_path)
    arguments = [str(bitstream) if word == "BITSTREAM" else word for word in arguments]
    assert run(["hw", "program", *arguments]) == 2
    assert message in capsys.readouterr().err
