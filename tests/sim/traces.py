"""Traces of a port for the AXI checker: what both sides show, cycle by cycle."""

import ctypes

from etalstm_sim.protocol import Checker, Driven, Rules, Shown

BEAT_BYTES = 4
ADDRESS = {"address": 0, "length": 0, "size": 2, "burst": 1, "id": 0}
WRITE_DATA = {"wlast": True, "strobe": 0xF, "data": 0}
READ_DATA = {"rlast": True, "rid": 0, "rresp": 0, "data": 0}
RESPONSE = {"bid": 0, "bresp": 0}


def ar(*, ready=True, **fields):
    """A cycle in which a read address is shown, and taken if `ready`."""
    return {"read": ADDRESS | fields, "arready": ready}


def aw(*, ready=True, **fields):
    """Likewise a write address."""
    return {"write": ADDRESS | fields, "awready": ready}


def w(*, ready=True, **fields):
    """Likewise write data."""
    return {"w": WRITE_DATA | fields, "wready": ready}


def r(*, ready=True, **fields):
    """Likewise read data."""
    return {"r": READ_DATA | fields, "rready": ready}


def b(*, ready=True, **fields):
    """Likewise a write's response."""
    return {"b": RESPONSE | fields, "bready": ready}


IDLE = {}
RESET = {"reset": True}


class Trace:
    """A checker that is shown cycles written as dictionaries, see above; ``|`` joins those of several channels."""

    def __init__(self, **rules):
        self._checker = Checker("port3", Rules(BEAT_BYTES, **{"promises": 0, **rules}))
        self.cycle = 0

    def show(self, *cycles):
        """Show one cycle after the other; raises what the checker raises."""
        for signals in cycles:
            shown, driven, kept = self._signals(signals)
            cycle, self.cycle = self.cycle, self.cycle + 1
            self._checker.step(shown, driven, reset=signals.get("reset", False), cycle=cycle)
            del kept

    @staticmethod
    def _signals(signals):
        written, read = (ctypes.c_uint32(signals.get(name, {}).get("data", 0)) for name in "wr")
        shown = Shown(data=ctypes.addressof(written), rready=signals.get("rready", False))
        driven = Driven(data=ctypes.addressof(read))
        shown.bready = signals.get("bready", False)
        for name in ("arready", "awready", "wready"):
            setattr(driven, name, signals.get(name, False))
        for name in ("read", "write"):
            if name in signals:
                address = getattr(shown, name)
                address.valid = True
                for field, value in signals[name].items():
                    setattr(address, field, value)
        for name, side in (("w", shown), ("r", driven), ("b", driven)):
            if name in signals:
                setattr(side, f"{name}valid", True)
                for field, value in signals[name].items():
                    if field != "data":
                        setattr(side, field, value)
        return shown, driven, (written, read)
