"""Finds out whether a machine works, and which part of it does not: checks that build on each other, in order."""

import time
from collections.abc import Callable, Iterator
from functools import partial

from etalstm.device import TrainingShape, open_device
from etalstm.device.comparison import RandomRun, compare
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.selftest import arithmetic, integers, memory
from etalstm.device.selftest.bench import Bench, Finding, Outcome
from etalstm.errors import DeviceError
from etalstm.network.arithmetic import FLOAT32, INT8
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage

MEMORY_BYTES = 8 << 20
# By whether products are integers
PRODUCTS: dict[bool, dict[str, Callable[[Bench], Outcome]]] = {
    False: {"lane memories": arithmetic.lane_memories, "broadcast and sums": arithmetic.sums},
    True: {"conversions": integers.conversions, "products of integers": integers.products},
}
_NETWORK = NetworkShape(input_size=5, hidden_size=9, layers=2)


def training(device: HardwareDevice) -> Outcome:
    """Train a small network, dense and with compressed gradients, on the device and on golden."""
    outcome = Outcome("training", "every word as golden's")
    words = 0
    for storage in (Storage(), Storage("ms1", 0.1)):
        how = INT8 if device.accelerator.config.integers else FLOAT32
        shape = TrainingShape(_NETWORK, execution=Execution(storage=storage, arithmetic=how), batch=3, steps=3)
        sessions = {"golden": open_device("golden").create(shape), device.name: device.create(shape)}
        found = compare(sessions, shape, RandomRun(iterations=2, loss="per-step", seed=0))
        words += found.words
        if found.first_mismatch:
            first = ", ".join(f"{key} {value}" for key, value in found.first_mismatch.items())
            what = f"{found.mismatched_words} of {found.words} words differ ({storage.policy}), the first: {first}"
            outcome.findings.append(Finding(what, "what the checks before could not see: timing, or the codec"))
    outcome.detail = f"{words:,} words compared with golden's"
    return outcome


def selftest(device: HardwareDevice, memory_bytes: int = MEMORY_BYTES) -> Iterator[Outcome]:
    """Run every check, and give each outcome when it is there.

    A check that the device stops, by an error or a time-out, has failed; the others are run all the same. The host
    tests `memory_bytes` of the memory: 128 KiB to all of it, or ``ValueError``.
    """
    least, most = memory.BLOCKS * 4096, device.accelerator.transport.memory_bytes
    if not least <= memory_bytes <= most:
        raise ValueError(f"the memory to test must be {least} to {most} bytes, got {memory_bytes}")
    bench = Bench(device.accelerator)
    checks: list[tuple[str, Callable[[], Outcome]]] = [
        ("identification", lambda: memory.identification(bench)),
        ("registers", lambda: memory.registers(bench)),
        ("address lines", lambda: memory.address_lines(bench)),
        ("memory", lambda: memory.march(bench, memory_bytes)),
        ("bandwidth", lambda: memory.bandwidth(bench, memory_bytes)),
        ("interrupt", lambda: memory.interrupt(bench)),
        ("port mapping", lambda: memory.mapping(bench)),
        ("port data", lambda: memory.data(bench)),
        ("arithmetic", lambda: arithmetic.vectors(bench)),
        ("parameters", lambda: arithmetic.parameters(bench)),
        *((name, partial(product, bench)) for name, product in PRODUCTS[bench.config.integers].items()),
        ("training", lambda: training(device)),
    ]
    for name, check in checks:
        started = time.perf_counter()
        try:
            outcome = check()
        except DeviceError as error:
            outcome = Outcome(name, "stopped", [Finding(str(error), "see the check before, or the message itself")])
        outcome.seconds = time.perf_counter() - started
        yield outcome
