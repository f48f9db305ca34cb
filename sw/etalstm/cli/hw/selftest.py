"""``eta-lstm hw selftest``: tests whether a machine works, and names what is broken."""

import json
from collections.abc import Iterator
from typing import Annotated

import typer
from typer import Option

from etalstm.cli import options
from etalstm.cli.devices import open_machine, tell_instructions
from etalstm.cli.options import trace_options
from etalstm.device.machine.hardware import is_hardware, is_simulation
from etalstm.device.selftest import MEMORY_BYTES
from etalstm.device.selftest import selftest as run_selftest
from etalstm.device.selftest.bench import Finding, Outcome
from etalstm.errors import DeviceError


def selftest(
    device: Annotated[str, Option(help="Machine to test: sim, xdma:N or xdma:sim")] = "sim",
    preset: options.PresetName = "sim",
    memory: Annotated[int, Option(help="Bytes of memory that the host tests, spread over all of it")] = MEMORY_BYTES,
    trace: options.Trace = None,
    trace_first: options.TraceFirst = None,
    trace_last: options.TraceLast = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per check")] = False,
) -> None:
    """Test a machine from its registers to a training run; exit code 1 if anything is wrong."""
    if not is_hardware(device):
        raise ValueError(f"a self-test needs a machine: sim, xdma:N or xdma:sim, got {device!r}")
    waveform = trace_options(trace, trace_first, trace_last)
    if waveform and not is_simulation(device):
        raise ValueError(f"--trace needs a simulated machine, sim or xdma:sim, got {device!r}")
    failed, show = 0, _show_json if as_json else _show
    for outcome in _outcomes(device, preset, memory, waveform):
        show(outcome)
        failed += not outcome.passed
    tell_instructions(trace)
    if not as_json:
        print(f"{failed} checks failed; begin with the first: others may follow from it" if failed else "all is well")
    if failed:
        raise typer.Exit(1)


def _outcomes(device: str, preset: str, memory: int, waveform: dict) -> Iterator[Outcome]:
    """Run the checks; a machine that cannot be opened fails the first one."""
    try:
        opened = open_machine(preset, device, **waveform)
    except DeviceError as error:
        yield Outcome("identification", device, [Finding(str(error), "the message says what to do")])
        return
    with opened:
        yield from run_selftest(opened, memory)


def _show(outcome: Outcome) -> None:
    print(f"{'ok  ' if outcome.passed else 'FAIL'}  {outcome.name:18s}  {outcome.detail}  ({outcome.seconds:.1f} s)")
    for finding in outcome.findings:
        print(f"        {finding.what}\n        suspect: {finding.suspect}")


def _show_json(outcome: Outcome) -> None:
    findings = [{"what": finding.what, "suspect": finding.suspect} for finding in outcome.findings]
    seconds = round(outcome.seconds, 3)
    print(json.dumps({"check": outcome.name, "passed": outcome.passed, "detail": outcome.detail, "seconds": seconds,
                      "findings": findings}))  # fmt: skip
