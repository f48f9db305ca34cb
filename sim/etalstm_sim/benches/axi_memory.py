"""A memory behind the AXI4 ports of a design that runs under cocotb."""

import logging
import mmap
from collections.abc import Mapping, Sequence

import numpy as np
from cocotbext.axi import AxiRamRead, AxiRamWrite, AxiReadBus, AxiWriteBus

from etalstm_sim.benches.unkindness import make_unkind
from etalstm_sim.benches.watch import rules_of, start_watch


class AxiMemory:
    """One memory that several ports read and write, with stalls and faults. Make it in a running test.

    A port that breaks AXI, on either side, fails the test, see :mod:`etalstm_sim.benches.watch`.

    A port whose write channels the design does not have only reads. Addresses beyond the memory are faulty. As in the
    card's memory, whose mask pins carry check bits, beats are written whole, whatever their strobes.

    Parameters
    ----------
    dut : cocotb's handle of the design
    ports : list of str
        Names of the ports; they must have IDs (:class:`etalstm_sim.benches.identified.Identified`).
    size_bytes : int
        Size of the memory, from address 0.
    stall : float
        Probability of a pause of a steady channel; 0 to less than 1. With stalls the memory is unkind
        (:mod:`etalstm_sim.benches.unkindness`).
    seed : int
        Of the stalls and orders.
    clock, reset : cocotb's handles, optional
        Of the ports; ``clk`` and ``rst`` of the design if not given.
    rules : mapping from names of ports to mappings, optional
        Members of :class:`etalstm_sim.protocol.Rules` that are different at a port.
    strobes : bool
        Write only the bytes that have a strobe.

    Members
    -------
    bytes : array, uint8, (size_bytes,)
        The memory itself, not a copy.
    reads : dict from name of a port to list of int
        Addresses of the beats that it has read.
    """

    def __init__(
        self,
        dut,
        ports: Sequence[str],
        size_bytes: int,
        *,
        stall: float = 0.0,
        seed: int = 1,
        clock=None,
        reset=None,
        rules: Mapping[str, Mapping[str, int]] | None = None,
        strobes: bool = False,
    ):
        logging.getLogger(f"cocotb.{dut._name}").setLevel("ERROR")  # the model reports every burst, and every fault
        store = mmap.mmap(-1, size_bytes)
        self.bytes = np.frombuffer(store, np.uint8)
        self._faults: list[tuple[int, int]] = []
        self.reads: dict[str, list[int]] = {port: [] for port in ports}
        timing = (dut.clk if clock is None else clock, dut.rst if reset is None else reset)
        for port in ports:
            read = _ReadPort(AxiReadBus.from_prefix(dut, f"{port}_"), *timing, mem=store)
            read.beats = self.reads[port]
            write = None
            if hasattr(dut, f"{port}__awvalid"):
                write = _WritePort(AxiWriteBus.from_prefix(dut, f"{port}_"), *timing, mem=store)
                write.check, write.wstrb_present = self._check, strobes
            read.check = self._check
            start_watch(dut, port, rules_of(dut, port, **(rules or {}).get(port, {})), *timing)
            make_unkind(dut, port, read, write, stall=stall, seed=seed, clock=timing[0], reset=timing[1])

    def inject(self, begin: int, end: int) -> None:
        """Answer every access to the bytes from `begin` up to `end` with SLVERR."""
        self._faults.append((begin, end))

    def clear_faults(self) -> None:
        """Make every address good again."""
        self._faults.clear()

    def _check(self, address: int, size: int) -> None:
        if address + size > len(self.bytes) or any(b < address + size and address < e for b, e in self._faults):
            raise ValueError(f"{address:#x} is faulty")  # the model makes an error response of it


class _ReadPort(AxiRamRead):
    async def _read(self, address, length):
        self.check(address, length)
        self.beats.append(address)
        return await super()._read(address, length)


class _WritePort(AxiRamWrite):
    async def _write(self, address, data):
        self.check(address, len(data))
        await super()._write(address, data)
