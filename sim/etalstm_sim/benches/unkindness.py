"""Makes cocotbext-axi's models as unkind as AXI allows."""

import random
from collections.abc import Callable, Iterator
from enum import Enum

import cocotb
from cocotb.triggers import RisingEdge

from etalstm_hw.axi.axi import BURST_BEATS

_MOOD_CYCLES = 64  # at most
_MOODS = {"steady": 8, "open": 3, "late": 4, "shut": 1}  # with their weights, as in memory.cpp


def pauses(probability: float, seed, waiting: Callable[[], bool] = lambda: True) -> Iterator[bool]:
    """Give an endless pattern of pauses: for each cycle whether it is one.

    A channel is in one mood for some cycles, then in another: steady (random pauses), open (no pauses), late (pauses
    until the other side waits), shut (pauses throughout).

    Parameters
    ----------
    probability : float
        Of a pause in a steady cycle; 0: no cycle is a pause, in no mood.
    seed : int or str
    waiting : function
        Whether the other side shows VALID.
    """
    generator = random.Random(seed)
    while not probability:
        yield False
    while True:
        (mood,) = generator.choices(list(_MOODS), list(_MOODS.values()))
        for _ in range(generator.randint(1, _MOOD_CYCLES)):
            if mood == "steady":
                yield generator.random() < probability
            else:
                yield mood == "shut" or (mood == "late" and not waiting())


def make_unkind(dut, port: str, read, write, *, stall: float, seed, clock, reset) -> None:
    """Stall a port's channels, and accept addresses and data in every order.

    Parameters
    ----------
    dut : cocotb's handle of the design
    port : str
        Name of the port.
    read, write : cocotbext-axi's AxiRamRead and AxiRamWrite behind the port
        ``write`` is None for a port that only reads.
    stall : float
        Probability of a pause of a steady channel; 0 to less than 1. Without stalls nothing is paused.
    seed : int or str
        Of the stalls and of the orders.
    clock, reset : cocotb's handles
    """
    if not stall:
        return

    def shows(name):
        valid = getattr(dut, f"{port}__{name}valid")
        return lambda: valid.value == 1

    channels = [read.ar_channel, read.r_channel]
    stalls, waits = {}, {0: shows("ar")}
    if write is not None:
        channels += [write.aw_channel, write.w_channel, write.b_channel]
        # The model accepts two beats ahead of their address by itself; DATA_FIRST needs a whole burst.
        write.w_channel.queue_occupancy_limit = max(write.w_channel.queue_occupancy_limit, 2 * BURST_BEATS)
        order = _WriteOrder(dut, port, clock, reset, seed)
        stalls = {2: order.stalls_address, 3: order.stalls_data}
        waits |= {2: shows("aw"), 3: shows("w")}
    for number, channel in enumerate(channels):
        pattern = pauses(stall, f"{seed} {port} {number}", waits.get(number, lambda: True))
        channel.set_pause_generator(_either(pattern, stalls.get(number, lambda: False)))


def _either(pattern, stalls):
    for pause in pattern:
        yield pause or stalls()


class _Order(Enum):
    ADDRESS_FIRST = 0  # data after the address
    ANY = 1  # each when it comes
    SHOWN_FIRST = 2  # the address when data are shown
    DATA_FIRST = 3  # the address after the last beat


class _WriteOrder:
    """Draws for each write burst when its address and its data are accepted.

    A pause may come a cycle late, so that an order is missed by a beat. That order is allowed, too.
    """

    def __init__(self, dut, port, clock, reset, seed):
        self._random = random.Random(f"{seed} {port} order")
        self._clock, self._reset = clock, reset
        names = ("awvalid", "awready", "wvalid", "wready", "wlast")
        self._signals = {name: getattr(dut, f"{port}__{name}") for name in names}
        self._begin()
        cocotb.start_soon(self._watch())

    def stalls_address(self) -> bool:
        """Tell whether the next address has to wait."""
        if self._order is _Order.SHOWN_FIRST:
            return self._bursts <= self._addresses and not self._is("wvalid")
        return self._order is _Order.DATA_FIRST and self._bursts <= self._addresses

    def stalls_data(self) -> bool:
        """Tell whether the next beat has to wait."""
        return self._order is _Order.ADDRESS_FIRST and self._addresses <= self._bursts

    def _begin(self):
        self._addresses = self._bursts = 0  # accepted: addresses, and bursts' last beats
        self._draw()

    def _draw(self):
        self._order = self._random.choice(list(_Order))

    def _is(self, *names):
        return all(self._signals[name].value == 1 for name in names)

    async def _watch(self):
        while True:
            await RisingEdge(self._clock)
            if self._reset.value == 1:
                self._begin()
                continue
            self._bursts += self._is("wvalid", "wready", "wlast")
            if self._is("awvalid", "awready"):
                self._addresses += 1
                self._draw()
