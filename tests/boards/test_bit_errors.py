"""The counters of the memory controllers: each is read once in a round, and the sums are theirs."""

import random

import pytest
from amaranth.sim import Simulator

from etalstm_boards.bit_errors import REGISTERS, BitErrors
from etalstm_hw.contract import BIT_ERRORS_KNOWN, BIT_ERRORS_SHIFT

REGIONS = (0b01000, 0b01100, 0b01001, 0b01101, 0b01010, 0b01110, 0b01011, 0b01111)  # of controllers 0 to 7, PG276
ADDRESSES = [region << 17 | register for region in REGIONS for register in REGISTERS]


class Stack:
    """The registers of a memory stack on APB, which checks how it is asked.

    Parameters
    ----------
    bus : the requester's side
    counts : dict from an address to a count
    draw : random.Random
        Of the time until an answer, at most four cycles.
    """

    def __init__(self, bus, counts, draw):
        self._bus, self.counts, self._draw = bus, counts, draw
        self.read, self.failing = [], set()

    async def serve(self, context):
        bus = self._bus
        while True:
            await context.tick()
            if not context.get(bus.psel):
                continue
            assert not context.get(bus.penable), "an access without its first cycle"
            address = context.get(bus.paddr)
            assert not context.get(bus.pwrite)
            for wait in reversed(range(self._draw.randrange(4) + 1)):
                await context.tick()
                held = context.get(bus.psel), context.get(bus.penable), context.get(bus.paddr)
                assert held == (1, 1, address), "an access changed before it was answered"
                context.set(bus.pready, wait == 0)
                context.set(bus.prdata, self.counts[address] | 0xABC00 if wait == 0 else 0xFFFFFFFF)
                context.set(bus.pslverr, wait == 0 and address in self.failing)
            self.read.append(address)
            await context.tick()
            context.set(bus.pready, 0)


def simulate(dut, bench, *servers):
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    for serve in servers:
        simulator.add_testbench(serve, background=True)
    simulator.add_testbench(bench)
    simulator.run()


async def until(context, met):
    """Wait for a condition, at most for two rounds."""
    for _ in range(1000):
        if met():
            return
        await context.tick()
    raise AssertionError("what was waited for did not come")


def stacks(dut, seed):
    draw = random.Random(seed)
    return [
        Stack(bus, {address: draw.randrange(256) for address in ADDRESSES}, draw) for bus in (dut.stack0, dut.stack1)
    ]


def shown(both):
    """What the board's register must be."""
    corrected, uncorrectable = (
        sum(count for stack in both for address, count in stack.counts.items() if (address & 0x1FFFF) in registers)
        for registers in (REGISTERS[:2], REGISTERS[2:])
    )
    return BIT_ERRORS_KNOWN | uncorrectable << BIT_ERRORS_SHIFT | corrected


@pytest.mark.parametrize("seed", range(3))
def test_every_counter_is_read_once_in_a_round(seed):
    dut = BitErrors()
    both = stacks(dut, seed)

    async def bench(context):
        await context.tick().repeat(20)
        assert not both[0].read, "registers of controllers that are not set up were read"
        context.set(dut.calibrated, 1)
        await until(context, lambda: context.get(dut.found))
        assert [stack.read for stack in both] == [ADDRESSES, ADDRESSES]
        assert context.get(dut.found) == shown(both)
        both[1].counts[ADDRESSES[-1]] ^= 7
        await until(context, lambda: context.get(dut.found) == shown(both))
        assert both[0].read == 2 * ADDRESSES

    simulate(dut, bench, *(stack.serve for stack in both))


def test_a_register_that_cannot_be_read_leaves_no_sums():
    dut = BitErrors()
    both = stacks(dut, 0)

    async def bench(context):
        context.set(dut.calibrated, 1)
        await until(context, lambda: context.get(dut.found) == shown(both))
        both[1].failing.add(ADDRESSES[5])
        await until(context, lambda: context.get(dut.found) == 0)
        both[1].failing.clear()
        await until(context, lambda: context.get(dut.found) == shown(both))

    simulate(dut, bench, *(stack.serve for stack in both))


def test_controllers_that_are_set_up_anew_are_read_from_the_first_counter_on():
    dut = BitErrors()
    both = stacks(dut, 1)

    async def bench(context):
        context.set(dut.calibrated, 1)
        await until(context, lambda: context.get(dut.found) == shown(both))
        await context.tick().repeat(30)
        context.set(dut.calibrated, 0)
        await context.tick().repeat(20)
        assert context.get(dut.found) == 0
        for stack in both:
            stack.read.clear()
        context.set(dut.calibrated, 1)
        await until(context, lambda: context.get(dut.found) == shown(both))
        assert [stack.read for stack in both] == [ADDRESSES, ADDRESSES]

    simulate(dut, bench, *(stack.serve for stack in both))
