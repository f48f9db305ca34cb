"""Checks of what the host reaches first: identification, registers, the interrupt."""

from etalstm.device.selftest.bench import Bench
from etalstm.device.selftest.finding import Finding, Outcome
from etalstm_hw import contract
from etalstm_hw.contract import Register, Status

EVENT_SECONDS = 5.0
_WALKING = [word for bit in range(32) for word in (1 << bit, 0xFFFFFFFF ^ 1 << bit)]


def identification(bench: Bench) -> Outcome:
    """Say what the machine is; that it is the expected one was checked when it was opened."""
    config, build = bench.config, bench.transport.read_register(Register.BUILD)
    parts = [
        f"{config.channels} channels of {config.lanes} lanes",
        f"contract version {contract.VERSION}",
        f"build {build:#010x}" if build else "simulated",
        bench.transport.condition(),
    ]
    return Outcome("identification", ", ".join(part for part in parts if part))


def registers(bench: Bench) -> Outcome:
    """Walk a one and a zero through every register that keeps what is written, all others holding something else."""
    transport, kept = bench.transport, contract.kept_words()
    outcome = Outcome("registers", f"{len(kept)} registers, {len(_WALKING)} words each")
    for word in _WALKING:
        values = {register: word ^ 0x01000193 * n & 0xFFFFFFFF for n, register in enumerate(kept)}
        for register, value in values.items():
            transport.write_register(register, value)
        for register, value in values.items():
            got = transport.read_register(register)
            if got != value:
                what = f"{kept[register]} reads {got:#010x} after {value:#010x} was written"
                outcome.findings.append(Finding(what, "the AXI4-Lite path from PCIe to the registers"))
                return outcome
    for register in kept:
        transport.write_register(register, 0)
    return outcome


def interrupt(bench: Bench) -> Outcome:
    """Run an empty program and wait for its event, with none left over from before."""
    transport, accelerator = bench.transport, bench.accelerator
    outcome = Outcome("interrupt", "the end of a program is an event")
    transport.wait(0)
    accelerator.start(bench.load(lambda _: None))
    if not transport.wait(EVENT_SECONDS):
        state = "still runs" if transport.read_register(Register.STATUS) == Status.RUNNING else "has ended"
        what = f"no event within {EVENT_SECONDS:g} seconds, the program {state}"
        outcome.findings.append(Finding(what, "the interrupt's wire to the PCIe core, or its interrupts on the host"))
    accelerator.abort()
    return outcome
