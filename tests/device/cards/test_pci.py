"""The PCIe bus, played by a folder: what is written where, and what is told when it cannot be."""

import importlib
import os

import pytest

from etalstm.cli.main import run
from etalstm.device.cards.nodes import CharacterNodes, PciBus, PciError

command = importlib.import_module("etalstm.cli.hw.program")
ADDRESS, OTHER, BRIDGE = "0000:65:00.0", "0000:b3:00.0", "0000:00:00.0"
XILINX, IDS = 0x10EE, {0x903F}


def add(root, address, vendor=XILINX, device=0x903F, card=None):
    folder = root / "devices" / address
    folder.mkdir(parents=True)
    for name, number in (("vendor", vendor), ("device", device)):
        (folder / name).write_text(f"{number:#06x}\n")
    (folder / "remove").write_text("")
    if card is not None:
        (folder / "xdma" / f"xdma{card}_user").mkdir(parents=True)


@pytest.fixture
def root(tmp_path):
    add(tmp_path, BRIDGE, 0x8086, 0x1234)
    add(tmp_path, ADDRESS, card=0)
    (tmp_path / "rescan").write_text("")
    return tmp_path


@pytest.fixture
def bus(root, monkeypatch):
    monkeypatch.setattr("etalstm.device.cards.nodes._APPEAR_SECONDS", 0.1)
    return PciBus(root)


def test_cards_are_found_by_identity(root, bus):
    add(root, OTHER, device=0x1111)
    assert bus.find(XILINX, IDS) == [ADDRESS]
    assert bus.cards(ADDRESS) == ["xdma:0"] and bus.cards(OTHER) == []


def test_a_card_is_removed_and_found_again(root, bus):
    bus.check_writable()
    bus.remove(ADDRESS)
    assert bus.rescan(XILINX, IDS) == [ADDRESS]
    assert (root / "devices" / ADDRESS / "remove").read_text() == (root / "rescan").read_text() == "1"


def test_a_card_that_does_not_come_back_is_an_error(bus):
    with pytest.raises(PciError, match=r"1 of 2 cards appeared within 0\.1 seconds of the rescan; restart the host"):
        bus.rescan(XILINX, IDS, 2)


def test_a_machine_without_the_bus_is_named(tmp_path):
    with pytest.raises(PciError, match="this machine shows no PCIe bus"):
        PciBus(tmp_path / "none").check_writable()


def test_missing_permission_is_named(root, bus, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PciError, match=r"rescanning PCIe needs root: no permission to write .*rescan; use sudo"):
        bus.check_writable()


def test_what_the_kernel_refuses_is_named(root, bus):
    (root / "rescan").unlink()
    (root / "rescan").mkdir()
    with pytest.raises(PciError, match=r"cannot write .*rescan: Is a directory"):
        bus.rescan(XILINX, IDS)


@pytest.fixture
def machine(root, monkeypatch, tmp_path):
    """The command on that bus; its cards' nodes are files."""
    nodes = tmp_path / "dev"
    nodes.mkdir()
    (nodes / "xdma0_user").touch()
    monkeypatch.setattr("etalstm.device.cards.nodes._APPEAR_SECONDS", 0.1)
    monkeypatch.setattr(command, "PciBus", lambda: PciBus(root))
    monkeypatch.setattr("etalstm.device.cards.xdma.CharacterNodes", lambda: CharacterNodes(nodes))
    return nodes


RESCAN = ["hw", "program", "--board", "vcu128", "--only-rescan"]


def test_the_command_rescans(root, machine, capsys):
    assert run(RESCAN) == 0
    assert capsys.readouterr().out == f"{ADDRESS}: xdma:0\n"
    assert (root / "devices" / ADDRESS / "remove").read_text() == "1"


def test_the_command_leaves_a_card_alone_that_is_in_use(root, machine, capsys):
    user = CharacterNodes(machine).open("xdma0_user")
    user.lock()
    assert run(RESCAN) == 2
    assert f"xdma:0 is in use by process {os.getpid()}" in capsys.readouterr().err
    assert (root / "devices" / ADDRESS / "remove").read_text() == ""
    user.close()


def test_the_command_asks_which_of_several_cards(root, machine, capsys):
    add(root, OTHER)
    assert run(RESCAN) == 2
    assert f"there are several cards, choose one with --pci: {ADDRESS}, {OTHER}" in capsys.readouterr().err
    assert run([*RESCAN, "--pci", "0000:01:00.0"]) == 2
    assert f"there is no card at 0000:01:00.0; there are: {ADDRESS}, {OTHER}" in capsys.readouterr().err
    assert run([*RESCAN, "--pci", OTHER]) == 0
    assert "no driver has it (modprobe xdma)" in capsys.readouterr().out
    assert (root / "devices" / ADDRESS / "remove").read_text() == ""


def test_a_failed_load_puts_the_card_back(root, machine, capsys, monkeypatch):
    def failing(*_):
        raise OSError("no cable")

    monkeypatch.setattr(command.programming, "run", failing)
    monkeypatch.setattr(command, "find_vivado", lambda path: path)
    monkeypatch.setattr(command, "read_bitstream", lambda path: path)
    monkeypatch.setattr(command, "check_bitstream", lambda *_: None)
    arguments = ["hw", "program", "--board", "vcu128", "--rescan", "--bitstream", str(root / "a.bit")]
    assert run(arguments) == 2
    assert "no cable" in capsys.readouterr().err
    assert (root / "rescan").read_text() == "1"
