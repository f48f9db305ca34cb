"""The self-test passes a good machine, and names what is wrong with a bad one."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from etalstm.cli.main import run
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.selftest import selftest
from etalstm_hw.config import preset
from etalstm_hw.contract import Register
from etalstm_hw.generate import modules_verilog, ports
from etalstm_sim.compiled.library import Design, build_library
from etalstm_sim.simulation import Fault
from etalstm_sim.transport import SimTransport
from tests.device.selftest.sabotage import STUCK_BIT, SWAPPED_PORTS, SWITCHES, WRONG_MULTIPLIER, Sabotaged

CONFIG = preset("test")
MEMORY = 1 << 18


@pytest.fixture(scope="module")
def sabotaged():
    machine = Sabotaged(CONFIG)
    return build_library(Design(modules_verilog(machine.units | {"top": machine}), ports(machine.signature)))


def failures(transport):
    """Give what failed: check, what was seen, suspect."""
    device = HardwareDevice("sim", "test", Accelerator(transport, CONFIG))
    device.accelerator.watchdog_cycles = 5000
    outcomes = list(selftest(device, MEMORY))
    return [(outcome.name, each.what, each.suspect) for outcome in outcomes for each in outcome.findings]


def with_fault(library, fault):
    with SimTransport(CONFIG, library=library) as transport:
        transport.write_register(SWITCHES, fault)
        return failures(transport)


def test_a_memory_that_stalls_is_no_fault():
    with SimTransport(CONFIG, stall=0.5, seed=3) as transport:
        assert failures(transport) == []


def test_a_machine_without_a_fault_passes(sabotaged):
    assert with_fault(sabotaged, 0) == []


def test_a_stuck_data_bit_of_a_port_is_named(sabotaged):
    found = with_fault(sabotaged, STUCK_BIT)
    assert (
        "port data",
        "channel 0 (port0): bit 37 is stuck at 1 of a beat of 128 bits",
        "a data line of port0",
    ) in found
    assert not any("channel 1" in what for check, what, _ in found if check == "port data")


def test_a_swapped_port_mapping_is_named_first(sabotaged):
    found = with_fault(sabotaged, SWAPPED_PORTS)
    suspect = "the mapping of the channels' ports on memory ports"
    assert found[:2] == [
        ("port mapping", "channel 0 (port0) works on the memory of channel 1 (port1)", suspect),
        ("port mapping", "channel 1 (port1) works on the memory of channel 0 (port0)", suspect),
    ]


def test_a_wrong_multiplier_is_named_with_its_channel(sabotaged):
    found = with_fault(sabotaged, WRONG_MULTIPLIER)
    check, what, suspect = found[0]
    assert check == "arithmetic" and what.startswith("MULTIPLY is wrong in channel 1, lanes 0-3: 0x")
    assert suspect == "the multiplier of channel 1, lanes 0-3"
    assert [suspect for check, _, suspect in found if check == "arithmetic"] == [suspect], "nothing else is suspected"
    assert "training" in [check for check, _, _ in found]


class StuckHostLine(SimTransport):
    """Bit 100 of the host's 512-bit path reads as 0."""

    def _read_memory(self, address, size):
        data = super()._read_memory(address, size)
        bits = np.arange(address, address + size) % 64 == 12
        data[bits] &= 0xEF
        return data


class DeadAddressLine(SimTransport):
    """Address line 24 of the host's path is 0."""

    def _read_memory(self, address, size):
        return super()._read_memory(address & ~(1 << 24), size)

    def _write_memory(self, address, data):
        super()._write_memory(address & ~(1 << 24), data)


class StuckRegister(SimTransport):
    """Bit 20 of the register bus reads as 1."""

    def read_register(self, register):
        value = super().read_register(register)
        return value | 1 << 20 if register == Register.WINDOW_LOW else value


class Eventless(SimTransport):
    """The interrupt does not reach the host."""

    def wait(self, seconds):
        super().wait(min(seconds, 0.01))
        return False


@pytest.mark.parametrize(
    ("transport", "check", "what", "suspect"),
    [
        (StuckHostLine, "memory", "bit 100 is stuck at 0 of a beat of 512 bits", "a data line of the host path"),
        (DeadAddressLine, "address lines", "address 0x0 reads what was written to 0x1000000", "the host path"),
        (StuckRegister, "registers", "WINDOW_LOW reads 0x", "the AXI4-Lite path"),
        (Eventless, "interrupt", "no event within 0.1 seconds, the program has ended", "the interrupt's wire"),
    ],
)
def test_a_fault_of_the_host_path_is_named_first(monkeypatch, transport, check, what, suspect):
    monkeypatch.setattr("etalstm.device.selftest.memory.EVENT_SECONDS", 0.1)
    with transport(CONFIG) as faulty:
        first = failures(faulty)[0]
    assert first[0] == check and what in first[1] and first[2].startswith(suspect), first


def test_a_memory_that_does_not_answer_fails_what_needs_it_and_the_rest_is_run():
    with SimTransport(CONFIG) as transport:
        transport.simulation.inject(0, 64, Fault.SUBORDINATE_ERROR)
        found = failures(transport)
    assert found[0][0] == "port mapping" and "READ_ERROR" in found[0][1]
    assert "training" in [check for check, _, _ in found]


@pytest.mark.parametrize("device", ["sim", "xdma:sim"])
def test_the_command_passes_a_simulated_machine(capsys, device):
    assert run(["hw", "selftest", "--device", device, "--preset", "test"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("ok  ") == 13 and "FAIL" not in shown and shown.endswith("all is well\n")
    if device == "xdma:sim":
        page = (Path(__file__).parents[3] / "docs" / "vcu128.md").read_text()
        lines = re.sub(r"[\d,]+(?= MB/s)", "…", re.sub(r"  \([\d.]+ s\)", "", shown)).splitlines()
        missing = [line for line in lines if f"    {line}\n" not in page]
        assert not missing, f"docs/vcu128.md does not show {missing}"


def test_the_command_reports_a_failure_with_exit_code_1(capsys, monkeypatch):
    monkeypatch.setattr("etalstm_sim.transport.SimTransport", Eventless)
    monkeypatch.setattr("etalstm.device.selftest.memory.EVENT_SECONDS", 0.1)
    assert run(["hw", "selftest", "--preset", "test", "--memory", str(MEMORY), "--json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert next(line["check"] for line in lines if not line["passed"]) == "interrupt"


def test_a_machine_that_cannot_be_opened_has_failed(capsys):
    assert run(["hw", "selftest", "--device", "xdma:9", "--preset", "vcu128"]) == 1
    assert "FAIL  identification" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "golden"], "a self-test needs a machine: sim, xdma:N or xdma:sim, got 'golden'"),
        (["--preset", "none"], "unknown preset 'none'"),
        (["--preset", "test", "--memory", "100"], "the memory to test must be 131072 to 1073741824 bytes, got 100"),
    ],
)
def test_bad_input_is_refused(capsys, arguments, message):
    assert run(["hw", "selftest", *arguments]) == 2
    assert message in capsys.readouterr().err
