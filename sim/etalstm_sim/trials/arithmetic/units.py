"""Runs millions of operations through the arithmetic units, compiled from their Verilog."""

import ctypes
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.generate import component_verilog
from etalstm_sim.compiled import verilated
from etalstm_sim.compiled.sources import cpp_source

_COMPILE_FLAGS = "-O3 -march=native -fPIC"


def _operands(unit, chosen):
    """Give the names of a unit's two operands: the chosen inputs, or all."""
    names = chosen or [name for name, member in unit.signature.members.items() if member.flow == In]
    if len(names) != 2:
        raise ValueError(f"a unit has two operands, {type(unit).__name__} has {len(names)}: {', '.join(names)}")
    return names


class Bank(wiring.Component):
    """Units side by side, each with its own ports ``<name>__<member>``; nothing connects them.

    Parameters
    ----------
    units : mapping of str to Component
        Free-running units with two inputs or more, an output ``z`` and a class constant ``LATENCY``.
    """

    def __init__(self, units: Mapping[str, wiring.Component]):
        self.units = dict(units)
        super().__init__({name: Out(unit.signature) for name, unit in self.units.items()})

    def elaborate(self, platform):
        """Bring the ports of every unit out."""
        m = Module()
        for name, unit in self.units.items():
            m.submodules[name] = unit
            wiring.connect(m, wiring.flipped(getattr(self, name)), unit)
        return m


class Units:
    """A compiled bank of units.

    Building takes some 10 s, once per Verilog and tools. Each bank has a state of its own, and must not be used from
    two threads.

    Parameters
    ----------
    units : mapping of str to Component
        As for :class:`Bank`; words of at most 32 bits.
    operands : mapping of str to (str, str), optional
        Of units with more than two inputs, those that get operands; the others are 0.

    Raises
    ------
    ToolchainError
        If a tool is missing or fails.
    """

    def __init__(
        self,
        units: Mapping[str, wiring.Component],
        operands: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    ):
        entries = [
            f"X({name}, {', '.join(_operands(unit, operands.get(name)))}, {unit.LATENCY})"
            for name, unit in units.items()
        ]
        texts = {
            "bank.v": component_verilog(Bank(units), "bank"),
            "units.h": f"#define UNITS(X) {' '.join(entries)}\n",
            "units.cpp": cpp_source("units.cpp"),
        }
        path, self.built = verilated.cached_library("units", "bank", texts, compile_flags=_COMPILE_FLAGS)
        self.names = tuple(units)
        self._run = ctypes.CDLL(str(path)).run_unit
        words = np.ctypeslib.ndpointer(np.uint32, flags="C_CONTIGUOUS")
        self._run.argtypes = [ctypes.c_char_p, words, words, words, ctypes.c_size_t]

    def run(self, name, a, b):
        """Stream operands through a unit, one pair a cycle.

        Parameters
        ----------
        name : str
            Key of the unit.
        a, b : arrays, uint32, (n,)
            Words; ``b`` may be a scalar.

        Returns
        -------
        array, uint32, (n,)

        Raises
        ------
        ValueError
            If there is no such unit, or the operands differ in length.
        """
        if name not in self.names:
            raise ValueError(f"no unit {name!r}, the bank has {', '.join(self.names)}")
        a = np.ascontiguousarray(a, np.uint32)
        b = np.full(a.shape, b, np.uint32) if np.ndim(b) == 0 else np.ascontiguousarray(b, np.uint32)
        if a.ndim != 1 or a.shape != b.shape:
            raise ValueError(f"operands must be two vectors of one length, got shapes {a.shape} and {b.shape}")
        z = np.empty_like(a)
        self._run(name.encode(), a, b, z, len(a))
        return z
