"""Building and reporting from the command line, with a stand-in for Vivado."""

import json
from dataclasses import replace

import pytest
from amaranth.build.run import BuildPlan

from etalstm.cli.hw import build as command
from etalstm.cli.main import run
from etalstm_hw import config as configurations

TIMING = """
| Design Timing Summary
| ---------------------

    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)      THS(ns)
    -------      -------  ---------------------  -------------------      -------      -------
      0.031        0.000                      0              1834567        0.010        0.000
"""
UTILIZATION = """
|          Site Type         |  Used  | Fixed | Prohibited | Available | Util% |
| CLB LUTs*                  | 651840 |     0 |          0 |   1303680 | 50.00 |
| CLB Registers              | 700000 |     0 |          0 |   2607360 | 26.85 |
| Block RAM Tile             | 1814.5 |     0 |          0 |      2016 | 90.00 |
| URAM                       |    600 |     0 |          0 |       960 | 62.50 |
| DSPs                       |   2880 |     0 |          0 |      9024 | 31.91 |
"""
POWER = "| Total On-Chip Power (W)  | 61.250       |"
MANIFEST = {"board": "vcu128", "build": "0x12345678", "accelerator": {"preset": "vcu128"}}
FAKE = """#!/bin/sh
if [ "$1" = -version ]; then echo "vivado v{version} (64-bit)"; exit 0; fi
[ {code} = 0 ] && echo bits > vcu128.bit
exit {code}
"""


@pytest.fixture
def plan(monkeypatch):
    """Instead of the whole design: a script that calls Vivado as Amaranth's does, and a manifest."""
    small = BuildPlan("build_vcu128")
    small.add_file("build_vcu128.sh", 'set -e\n: ${VIVADO:=vivado}\n"$VIVADO" -mode batch -source vcu128.tcl\n')
    small.add_file("manifest.json", json.dumps(MANIFEST))
    monkeypatch.setattr(command, "prepare", lambda options: small)


def vivado(directory, version="2023.2", code=0):
    program = directory / "vivado"
    program.write_text(FAKE.format(version=version, code=code))
    program.chmod(0o755)
    return program


def refused(capsys, *arguments):
    """Expect one line on standard error and exit code 2; give the line."""
    assert run([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "Traceback" not in error
    return error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--board", "kc705"], "unknown board 'kc705', expected one of: vcu128, u280"),
        (["--preset", "huge"], "unknown preset 'huge'"),
        (["--pcie", "x2"], "unknown PCIe width 'x2', expected one of: x16, x8, x4"),
        (["--preset", "test"], "ports have 256 bits of data and 33 of address, the accelerator's 128 and 33"),
        (["--preset", "double"], "2560 PEs do not fit the xcvu37p-fsvh2892-2L-e: they need about"),
        (["--preset", "eager"], "clock_mhz must be"),
        (["--do-build"], "no vivado on PATH"),
        (["--do-build", "--vivado", "/nowhere"], "there is no Vivado at /nowhere"),
        (["--vivado", "/nowhere"], "--vivado is only for --do-build"),
        (["--do-build", "--docker", "image", "--ssh", "host"], "only one of --docker and --ssh"),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, monkeypatch, arguments, message):
    board = configurations.preset("vcu128")
    monkeypatch.setitem(configurations.PRESETS, "double", replace(board, channels=80, channels_per_port=4))
    monkeypatch.setitem(configurations.PRESETS, "eager", replace(board, clock_mhz=2000.0))
    monkeypatch.setenv("PATH", str(tmp_path))
    given = arguments if "--board" in arguments else ["--board", "vcu128", *arguments]
    assert message in refused(capsys, "hw", "build", *given, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_preset_that_does_not_fit_says_by_how_much(tmp_path, capsys, monkeypatch):
    board = configurations.preset("vcu128")
    monkeypatch.setitem(configurations.PRESETS, "double", replace(board, channels=80, channels_per_port=4))
    error = refused(capsys, "hw", "build", "--board", "vcu128", "--preset", "double", "-o", tmp_path)
    assert "ultra RAMs of 960" in error or "block RAMs of 2016" in error


def test_vivado_is_run_in_the_folder(tmp_path, capsys, plan):
    out = tmp_path / "out"
    assert (
        run(["hw", "build", "--board", "vcu128", "--do-build", "--vivado", str(vivado(tmp_path)), "-o", str(out)]) == 0
    )
    assert (out / "vcu128.bit").read_text() == "bits\n"
    assert str(out / "vcu128.bit") in capsys.readouterr().out.splitlines()


def test_an_old_vivado_is_refused_before_anything_is_written(tmp_path, capsys):
    program = vivado(tmp_path, version="2019.1")
    error = refused(
        capsys, "hw", "build", "--board", "vcu128", "--do-build", "--vivado", program, "-o", tmp_path / "out"
    )
    assert f"Vivado 2020.2 or later is needed, {program} is 2019.1" in error
    assert not (tmp_path / "out").exists()


def test_a_vivado_that_fails_says_where_its_log_is(tmp_path, capsys, plan):
    program, out = vivado(tmp_path, code=3), tmp_path / "out"
    error = refused(capsys, "hw", "build", "--board", "vcu128", "--do-build", "--vivado", program, "-o", out)
    assert f"exit code 3; see the log in {out}" in error


def test_something_else_than_vivado_is_refused(tmp_path, capsys):
    (tmp_path / "vivado").write_text("#!/bin/sh\n")
    (tmp_path / "vivado").chmod(0o755)
    error = refused(
        capsys, "hw", "build", "--board", "vcu128", "--do-build", "--vivado", tmp_path / "vivado", "-o", tmp_path
    )
    assert "does not say which version of Vivado it is" in error


@pytest.fixture
def built(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps(MANIFEST))
    texts = {"timing": TIMING, "utilization_place": UTILIZATION, "power": POWER}
    for name, text in texts.items():
        (tmp_path / f"vcu128_{name}.rpt").write_text(text)
    return tmp_path


def test_reports_are_read_back(built, capsys):
    assert run(["hw", "report", "--vivado", str(built), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["met"] and (found["wns_ns"], found["whs_ns"], found["power_watts"]) == (0.031, 0.010, 61.25)
    assert found["utilization"]["bram"] == {"used": 1814.5, "available": 2016, "share": 1814.5 / 2016}
    used = {kind: usage["used"] for kind, usage in found["utilization"].items()}
    assert used == {"lut": 651840, "ff": 700000, "dsp": 2880, "bram": 1814.5, "uram": 600}
    assert (found["board"], found["preset"], found["build"]) == ("vcu128", "vcu128", "0x12345678")


def test_missed_timing_is_shown(built, capsys):
    path = built / "vcu128_timing.rpt"
    path.write_text(TIMING.replace(" 0.031 ", "-0.250 "))
    assert run(["hw", "report", "--vivado", str(built)]) == 0
    shown = capsys.readouterr().out
    assert "timing MISSED: worst setup slack -0.25 ns, hold 0.01 ns" in shown and "50.0%" in shown


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("vcu128_timing.rpt", None, "has Vivado run there?"),
        ("vcu128_timing.rpt", "", "is not the report that it should be"),
        ("vcu128_timing.rpt", TIMING.replace("0.031", "   NA"), "has no worst slacks"),
        ("vcu128_power.rpt", "", "is not the report that it should be"),
        ("manifest.json", "{", "manifest.json"),
    ],
)
def test_a_damaged_folder_is_named(built, capsys, name, text, message):
    if text is None:
        (built / name).unlink()
    else:
        (built / name).write_text(text)
    error = refused(capsys, "hw", "report", "--vivado", built)
    assert message in error and name in error


def test_a_report_must_be_asked_for(capsys):
    assert "--vivado" in refused(capsys, "hw", "report")
