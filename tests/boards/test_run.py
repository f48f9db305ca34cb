"""Vivado in a container and on another machine: stand-ins for ``docker``, ``ssh`` and ``vivado`` record and obey."""

import os
from types import SimpleNamespace

import pytest
from amaranth.build.run import BuildPlan

from etalstm.errors import BuildError
from etalstm_boards.run import run_here, run_in_container, run_remotely

RESULTS = ("card.bit", "card.log", "card timing.rpt")

# Writes what the environment tells it to, in the folder where it runs.
VIVADO = """#!/bin/sh
echo "$PWD vivado $*" >> "$RECORD"
echo log > card.log
[ -z "$WRITES" ] || echo bits > card.bit
exit ${VIVADO_CODE:-0}
"""
# Runs the command of the container in the folder that is mounted.
DOCKER = """#!/bin/sh
echo "docker $*" >> "$RECORD"
[ "$1" = run ] || exit 1
[ -z "$NO_IMAGE" ] || { echo "Unable to find image" >&2; exit 125; }
while [ "$1" != image:2023.2 ]; do
    case "$1" in type=bind,source=*,target=/build) folder=${1#type=bind,source=}; folder=${folder%,target=/build};; esac
    shift
done
shift
cd "$folder" && exec "$@"
"""
# Runs the command in the home of the other machine; loses the connection at a call that the environment names.
SSH = """#!/bin/sh
echo "ssh $1" >> "$RECORD"
calls=$(grep -c "^ssh " "$RECORD")
[ "$calls" != "${LOST_AT:-0}" ] || { echo "Connection closed" >&2; exit 255; }
cd "$HOME" && exec sh -c "$2"
"""


@pytest.fixture
def plan():
    plan = BuildPlan("build_card")
    plan.add_file("build_card.sh", 'set -e\n: ${VIVADO:=vivado}\n"$VIVADO" -mode batch -source card.tcl\n')
    plan.add_file("card.tcl", "puts hello\n")
    plan.add_file("blob.bin", bytes(range(256)))
    return plan


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Stand-ins first on PATH, and the other machine's home."""
    tools, home = tmp_path / "tools", tmp_path / "home"
    for directory in (tools, home):
        directory.mkdir()
    for name, text in (("vivado", VIVADO), ("docker", DOCKER), ("ssh", SSH)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    for name, value in (("HOME", home), ("RECORD", tmp_path / "record"), ("WRITES", "yes")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("VIVADO", raising=False)
    return SimpleNamespace(
        tools=tools, home=home, out=tmp_path / "out", record=lambda: (tmp_path / "record").read_text().splitlines()
    )


def in_container(plan, machine):
    run_in_container(plan, machine.out, "image:2023.2", RESULTS)


def remotely(plan, machine):
    run_remotely(plan, machine.out, "user@host:builds/a card", RESULTS)


def here(plan, machine):
    run_here(plan, machine.out, machine.tools / "vivado", RESULTS)


WAYS = pytest.mark.parametrize("way", [here, in_container, remotely])


@WAYS
def test_vivado_runs_where_the_files_are_and_its_results_come_here(plan, machine, way):
    way(plan, machine)
    assert (machine.out / "card.bit").read_text() == "bits\n" and (machine.out / "card.log").exists()
    where = machine.home / "builds/a card" if way is remotely else machine.out
    assert machine.record()[-1 if way is not remotely else 2] == f"{where} vivado -mode batch -source card.tcl"
    for directory in {where, machine.out}:
        assert (directory / "blob.bin").read_bytes() == bytes(range(256))


@WAYS
def test_a_vivado_that_fails_is_told_with_its_code_and_leaves_its_log(plan, machine, way, monkeypatch):
    monkeypatch.setenv("VIVADO_CODE", "3")
    with pytest.raises(BuildError, match=r"Vivado failed with exit code 3.*; see the log in .*out"):
        way(plan, machine)
    assert (machine.out / "card.log").read_text() == "log\n"


@WAYS
def test_a_bitstream_of_an_earlier_run_is_not_taken_for_one_of_this(plan, machine, way, monkeypatch):
    way(plan, machine)
    monkeypatch.setenv("WRITES", "")
    with pytest.raises(BuildError, match=r"Vivado ended without a card\.bit"):
        way(plan, machine)
    assert not (machine.out / "card.bit").exists()


def test_the_container_has_the_folder_and_is_removed(plan, machine):
    in_container(plan, machine)
    command = machine.record()[0].split()
    assert command[:3] == ["docker", "run", "--rm"] and command[-3:] == ["image:2023.2", "sh", "build_card.sh"]
    assert command[command.index("--mount") + 1] == f"type=bind,source={machine.out},target=/build"
    assert command[command.index("--workdir") + 1] == "/build"


def test_an_image_that_is_not_there_is_dockers_fault(plan, machine, monkeypatch):
    monkeypatch.setenv("NO_IMAGE", "yes")
    with pytest.raises(BuildError, match=r"docker cannot run the image 'image:2023\.2'"):
        in_container(plan, machine)


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_lost_connection_is_told(plan, machine, monkeypatch, call):
    """When the files go there, while Vivado runs, when the results come back."""
    monkeypatch.setenv("LOST_AT", str(call))
    with pytest.raises(BuildError, match="the connection to user@host failed or was lost"):
        remotely(plan, machine)
    assert not (machine.out / "card.bit").exists()
    assert sum(line.startswith("ssh") for line in machine.record()) == call


def test_vivado_of_the_login_profile_is_found(plan, machine, monkeypatch):
    elsewhere = machine.home / "vivado"
    elsewhere.mkdir()
    (machine.tools / "vivado").rename(elsewhere / "vivado")
    (machine.home / ".profile").write_text(f"PATH={elsewhere}:$PATH\n")
    run_remotely(plan, machine.out, "host", RESULTS)
    assert machine.record()[0] == "ssh host"
    assert (machine.home / "eta-lstm-build" / "card.bit").exists()


def test_a_folder_there_that_cannot_be_written_is_told(plan, machine):
    (machine.home / "builds").write_text("a file")
    with pytest.raises(BuildError, match="cannot write to the folder builds/a card on user@host"):
        remotely(plan, machine)


@pytest.mark.parametrize("host", ["", "@host", "user@", "-oProxyCommand=reboot", "user@-x", "host:"])
def test_a_host_that_is_none_is_refused(plan, machine, host):
    with pytest.raises(BuildError, match=r"--ssh must be \[user@\]host\[:folder\], got"):
        run_remotely(plan, machine.out, host, RESULTS)
    assert not machine.out.exists()


@pytest.mark.parametrize(("way", "tool"), [(in_container, "docker"), (remotely, "ssh")])
def test_a_tool_that_is_missing_is_named(plan, machine, monkeypatch, way, tool):
    monkeypatch.setenv("PATH", str(machine.home))
    with pytest.raises(BuildError, match=f"no {tool} on PATH"):
        way(plan, machine)
    assert not machine.out.exists()
