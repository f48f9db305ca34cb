"""Programs with compressed streams leave the machine's memory as the interpreter leaves its own."""

import random

import numpy as np
import pytest

from etalstm.device import open_device
from etalstm.device.machine.faults import BadStreamError, LogFullError
from etalstm_hw.config import preset
from etalstm_hw.contract import PARAMETER_THRESHOLDS, PARAMETERS, Memory, Opcode, Traffic, encode
from etalstm_hw.contract.image import image_of
from tests.plan.machine import InterpretedAccelerator

WINDOW, WINDOW_BYTES, PROGRAM = 1 << 20, 1 << 16, 1 << 16
HALT = encode(Opcode.HALT)
THRESHOLD = 0.3
FILLED, VECTORS = 128, 64  # vectors of the scratch memory; streams are read back behind the latter


def words_of(rng, config):
    """Sparse values for all windows."""
    size = config.channels * WINDOW_BYTES // 4
    values = np.random.default_rng(rng.randrange(1 << 30)).normal(size=size).astype(np.float32)
    values[np.abs(values) < 0.2] = 0
    return values


def streams(rng, config, count=8):
    """Fill the scratch memory, compress parts of it into two logs, read them back, store what was read."""
    beats = WINDOW_BYTES // config.beat_bytes
    outside = FILLED * config.vector_beats
    index, log = 2 * outside, beats // 2
    yield dict(opcode=Opcode.LOAD, kind=Traffic.ACTIVATIONS, memory=Memory.SCRATCH, outer=1, inner=FILLED)
    shapes = [(rng.randrange(1, 4), rng.randrange(1, 9), rng.random() < 0.5, rng.random() < 0.5) for _ in range(count)]
    for n, (outer, inner, bf16, number) in enumerate(shapes):
        first = n == [shape[3] for shape in shapes].index(number)
        yield dict(
            opcode=Opcode.STORE, kind=Traffic.INTERMEDIATES, memory=Memory.SCRATCH, outer=outer, inner=inner,
            outer_stride=11, inner_stride=rng.choice([1, 2]), lane_address=rng.randrange(20), address=index + n,
            compressed=1, bf16=bf16, threshold=PARAMETER_THRESHOLDS + n % 6, log=number, first=first,
            start=log + 300 * number, end=log + 300 * (1 + number), wait_load=1,
        )  # fmt: skip
    for n, (outer, inner, bf16, _) in enumerate(shapes):
        yield dict(
            opcode=Opcode.LOAD, kind=Traffic.INTERMEDIATES, memory=Memory.SCRATCH, outer=outer, inner=inner,
            outer_stride=inner, inner_stride=1, lane_address=VECTORS + (4 * n) % 32, address=index + n, compressed=1,
            bf16=bf16, wait_store=count - n,
        )  # fmt: skip
    yield dict(
        opcode=Opcode.STORE, kind=Traffic.ACTIVATIONS, memory=Memory.SCRATCH, outer=1, inner=32 + 8,
        lane_address=VECTORS, address=outside, inner_stride=1, wait_load=1,
    )  # fmt: skip


def program(instructions):
    words = [encode(**{"inner_stride": 1} | instruction) for instruction in instructions]
    return image_of([*words, HALT])


def run(accelerator, image, values):
    """Memory of the windows after a program."""
    accelerator.set_windows(WINDOW, WINDOW_BYTES)
    for n in range(PARAMETER_THRESHOLDS, PARAMETERS):
        accelerator.set_parameter(n, THRESHOLD * (n - PARAMETER_THRESHOLDS))
    accelerator.transport.write_memory(WINDOW, values)
    accelerator.run(accelerator.load(image, PROGRAM))
    return accelerator.transport.read_memory(WINDOW, values.nbytes).view(np.uint32)


@pytest.fixture(params=[0.0, 0.5], ids=["", "stalled"])
def accelerator(request):
    with open_device("sim", "test", stall=request.param, seed=3) as device:
        device.accelerator.watchdog_cycles = 5000
        yield device.accelerator


@pytest.mark.parametrize("seed", range(4))
def test_memory_is_that_of_the_interpreter(accelerator, seed):
    rng, config = random.Random(seed), preset("test")
    instructions = list(streams(rng, config))
    image, values = program(instructions), words_of(rng, config)
    got = run(accelerator, image, values)
    expected = run(InterpretedAccelerator(config), image, values)
    wrong = np.flatnonzero(got != expected)
    assert not wrong.size, f"seed {seed}, word {wrong[0]}: {got[wrong[0]]:#x}, expected {expected[wrong[0]]:#x}"

    windows = expected.reshape(config.channels, -1, config.beat_words)
    indices = [n["address"] for n in instructions if n["opcode"] == Opcode.STORE and "compressed" in n]
    beats = config.channels * len(indices) + int(windows[:, indices, 1].sum())
    counters = accelerator.counters()
    counted = [counters[name]["intermediates"] for name in ("write_bytes", "read_bytes")]
    assert counted == [beats * config.beat_bytes] * 2


def test_a_full_log_is_named(accelerator):
    rng, config = random.Random(1), preset("test")
    first, store, *_ = streams(rng, config)
    store |= {"end": store["start"] + 1, "outer": 3, "inner": 8}
    with pytest.raises(LogFullError, match=r"OVERFLOW: .* STORE, instruction 1: STORE"):
        run(accelerator, program([first, store]), words_of(rng, config))
    test_memory_is_that_of_the_interpreter(accelerator, 2)


def test_a_damaged_index_is_named(accelerator):
    rng, config = random.Random(1), preset("test")
    load = dict(opcode=Opcode.LOAD, memory=Memory.SCRATCH, outer=1, inner=4, address=5, compressed=1)
    with pytest.raises(BadStreamError, match=r"BAD_STREAM: .* LOAD, instruction 0: LOAD"):
        run(accelerator, program([load]), words_of(rng, config))
    test_memory_is_that_of_the_interpreter(accelerator, 3)
