"""Binds an AXI checker to a port of a design that runs under cocotb."""

import ctypes
from dataclasses import replace

import cocotb
from cocotb.triggers import RisingEdge

from etalstm_sim.protocol import ADDRESS_FIRST, ALIGNED_BURSTS, ALL_PROMISES, WHOLE_BEATS, Checker, Driven, Rules, Shown

# A port's signals by channel: who shows them, their names in protocol.h.
_ADDRESS = {"addr": "address", "len": "length", "size": "size", "burst": "burst", "id": "id"}
_CHANNELS = {
    "ar": ("read", _ADDRESS),
    "aw": ("write", _ADDRESS),
    "w": ("shown", {"strb": "strobe", "last": "wlast"}),
    "r": ("driven", {"id": "rid", "resp": "rresp", "last": "rlast"}),
    "b": ("driven", {"id": "bid", "resp": "bresp"}),
}
LITE = Rules(4, burst_beats=1, promises=ALL_PROMISES & ~ADDRESS_FIRST)  # a bus of 32-bit registers
# Of a card: the host's bus, which XDMA drives, and the bus behind the bridge, to the memory.
HOST = {"burst_beats": 256, "promises": WHOLE_BEATS}
BRIDGED = {"promises": WHOLE_BEATS | ALIGNED_BURSTS}
_RESET_CYCLES = 10_000  # a design must be reset by then: nothing is judged before


def rules_of(dut, port: str, **rules) -> Rules:
    """Give a port's rules: its width, as many ids as its signals can hold, and `rules`, members of :class:`Rules`."""
    bits = max(len(getattr(dut, f"{port}__{name}", ())) for name in ("arid", "awid"))
    return replace(Rules(len(getattr(dut, f"{port}__rdata")) // 8, ids=1 << bits), **rules)


def start_watch(dut, port: str, rules: Rules, clock=None, reset=None) -> None:
    """Fail the test in the first cycle in which a port breaks AXI; like :func:`watch`."""
    cocotb.start_soon(watch(dut, port, rules, clock, reset))


async def watch(dut, port: str, rules: Rules, clock=None, reset=None) -> None:
    """Check a port in every cycle from its first reset on.

    Parameters
    ----------
    dut : cocotb's handle of the design
    port : str
        Name of the port. Signals that it does not have are as AXI defines: one whole beat, incrementing, id 0.
    rules : Rules
    clock, reset : cocotb's handles, optional
        Of the port; ``clk`` and ``rst`` of the design if not given.

    Raises
    ------
    ProtocolError
        At a breach. Its cycle is counted from the start of this watch.
    AssertionError
        If the design is never reset.
    """
    clock, reset = dut.clk if clock is None else clock, dut.rst if reset is None else reset
    channels = [_Channel(dut, port, name, rules) for name in _CHANNELS]
    channels = [channel for channel in channels if channel.valid is not None]
    checker, cycle, judged, was_reset = Checker(port, rules), 0, False, False
    while True:
        await RisingEdge(clock)
        cycle += 1
        in_reset = reset.value == 1
        judged |= in_reset
        assert judged or cycle < _RESET_CYCLES, f"{port} is not reset, so nothing of it is checked"
        changes = [channel.valid.value == 1 or channel.waits for channel in channels]
        if judged and (any(changes) or in_reset or was_reset):
            shown, driven = Shown(), Driven()
            payloads = [channel.show(shown, driven) for channel in channels]
            checker.step(shown, driven, reset=in_reset, cycle=cycle)
            del payloads  # until here the structures point to them
        was_reset = in_reset


class _Channel:
    """The signals of one channel; `waits` while a payload is shown and not taken."""

    def __init__(self, dut, port, name, rules):
        def signal(field):
            return getattr(dut, f"{port}__{name}{field}", None)

        side, fields = _CHANNELS[name]
        self.valid, self.waits = signal("valid"), False
        self._name, self._side, self._data = name, side, signal("data")
        self._ready = signal("ready")
        self._defaults = self._absent(name, rules)
        self._signals = {
            attribute: found for field, attribute in fields.items() if (found := signal(field)) is not None
        }

    @staticmethod
    def _absent(name, rules):
        """Give AXI's values of signals that a port leaves out."""
        if name in ("ar", "aw"):
            return {"size": rules.beat_bytes.bit_length() - 1, "burst": 1}
        return {"w": {"strobe": (1 << rules.beat_bytes) - 1, "wlast": True}, "r": {"rlast": True}}.get(name, {})

    def show(self, shown, driven):
        """Write the channel's signals to the structures; give the data, to which they only point."""
        valid = self.valid.value == 1
        ready = valid and self._ready.value == 1
        judged_data = self.waits or (valid and not ready)
        self.waits = valid and not ready
        if not valid:
            return None
        sides = {"shown": shown, "driven": driven, "read": shown.read, "write": shown.write}
        side = sides[self._side]
        setattr(side, "valid" if self._side in ("read", "write") else f"{self._name}valid", True)
        setattr(driven if self._name in ("ar", "aw", "w") else shown, f"{self._name}ready", ready)
        for attribute, value in self._defaults.items():
            setattr(side, attribute, value)
        for attribute, signal in self._signals.items():
            setattr(side, attribute, int(signal.value))
        if self._data is None or not judged_data:
            return None
        data = int(self._data.value).to_bytes(len(self._data) // 8, "little")
        payload = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        side.data = ctypes.addressof(payload)
        return payload
