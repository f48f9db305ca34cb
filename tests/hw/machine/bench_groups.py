"""cocotb bench of a machine whose channels are divided into groups: memory holds what the interpreter expects."""

import cocotb
import numpy as np
import pytest
from cocotb.task import bridge

from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.faults import BadFieldError, ProgramError
from etalstm_hw.contract import Opcode, Traffic, encode
from etalstm_hw.contract.image import image_of
from etalstm_sim.benches.cocotb_transport import CocotbTransport
from tests.hw.machine.grouped import CONFIG, HALT, WINDOW_BYTES, program, words_of, wrong_programs
from tests.plan.interpreter import Interpreter

PROGRAM, WINDOW = 1 << 16, 1 << 17
SEED = 6


async def on_machine(dut, stall, work):
    """Do blocking work on an accelerator while the simulation runs."""
    cocotb.log.info("seed %d", SEED)
    transport = await CocotbTransport.open(dut, CONFIG, memory_bytes=1 << 20, stall=stall, seed=SEED)

    def drive():
        accelerator = Accelerator(transport, CONFIG)
        accelerator.watchdog_cycles = 20000
        accelerator.set_windows(WINDOW, WINDOW_BYTES)
        work(accelerator)

    await bridge(drive)()


def load(accelerator, words):
    return accelerator.load(image_of(words), PROGRAM)


def check(accelerator, groups, seed=SEED):
    """Run the program on random windows; compare all of them, but for rows that nobody has a use for."""
    initial, words = words_of(seed), program(groups)
    expected = Interpreter(CONFIG, WINDOW_BYTES, groups)
    expected.windows = initial.view(np.float32).copy()
    expected.run(words)
    accelerator.transport.write_memory(WINDOW, initial)
    accelerator.set_groups(groups)
    accelerator.run(load(accelerator, words))
    got = accelerator.transport.read_memory(WINDOW, initial.nbytes).view(np.uint32).reshape(initial.shape)
    wrong = (got != expected.windows.view(np.uint32)) & ~np.isnan(expected.windows)
    assert not wrong.any(), f"{groups} groups: first of {wrong.sum()} words at {np.argwhere(wrong)[0]}"
    counters = accelerator.counters()
    assert counters["rows_seen"] == expected.rows_seen
    assert counters["rows_skipped"] == expected.rows_left_out > 0
    assert sum(counters["channel_cycles"].values()) == counters["cycles"] * CONFIG.channels


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(groups=[1, 2, 4], stall=[0.0, 0.9])
async def does_what_the_interpreter_does(dut, groups, stall):
    """Products, squares, rows and an exchange between groups; then on other windows."""

    def work(accelerator):
        check(accelerator, groups)
        check(accelerator, groups, SEED + 1)

    await on_machine(dut, stall, work)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def changes_the_number_of_groups_between_programs(dut):
    """Nothing stays of the groups before."""

    def work(accelerator):
        for groups in (4, 1, 2, 4, 2, 1):
            check(accelerator, groups)

    await on_machine(dut, 0.0, work)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def refuses_a_number_of_groups_that_cannot_be(dut):
    """It begins no instruction, and says what is wrong; 0 counts as 1."""

    def work(accelerator):
        start = program(1)
        for groups in (3, 5, 1 << 31):
            accelerator._groups = groups
            with pytest.raises(BadFieldError, match=r"BAD_FIELD: .* SEQUENCER"):
                accelerator.run(load(accelerator, start))
        accelerator._groups = 0
        accelerator.run(load(accelerator, start))
        check(accelerator, 2)

    await on_machine(dut, 0.0, work)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(groups=[1, 2, 4])
async def refuses_what_is_no_channel_or_no_group(dut, groups):
    """A position beyond the group, a group beyond the last; the machine goes on."""

    def work(accelerator):
        accelerator.set_groups(groups)
        for engine, status, word in wrong_programs(groups):
            with pytest.raises(ProgramError, match=f"{status}: .*{engine}"):
                accelerator.run(load(accelerator, [word, HALT]))
        check(accelerator, groups)

    await on_machine(dut, 0.0, work)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(groups=[1, 4])
async def sends_a_scalar_in_every_cycle(dut, groups):
    """However long the way to the channels is: a block more costs as many cycles as it has scalars."""
    batch, words = 32, 32 * CONFIG.lanes

    def cycles(accelerator, blocks):
        ones = np.ones((CONFIG.channels, WINDOW_BYTES // 4), np.float32)
        accelerator.transport.write_memory(WINDOW, ones)
        cast = encode(
            Opcode.CAST, kind=Traffic.ACTIVATIONS, tiles_per_channel=8, blocks=blocks, gates=1, batch=batch,
            lanes=CONFIG.lanes, last_lanes=CONFIG.lanes, tiles=1, start=1, finish=1,
        )  # fmt: skip
        accelerator.run(load(accelerator, [cast, encode(Opcode.MAC, tiles=1), HALT]))
        counters = accelerator.counters()
        assert counters["channel_cycles"]["mac"] == blocks * words * CONFIG.channels
        return counters["cycles"]

    def work(accelerator):
        accelerator.set_groups(groups)
        found = [cycles(accelerator, blocks) for blocks in (3, 4, 7)]
        assert found[1] - found[0] == words and found[2] - found[1] == 3 * words, found

    await on_machine(dut, 0.0, work)
