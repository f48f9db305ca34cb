"""The character devices of a simulated card, as the XDMA driver for Linux would make them."""

import errno
import os
import time

import numpy as np

from etalstm.device.cards.nodes import LockedError, Node, Nodes
from etalstm.device.cards.transfers import CHUNK_BYTES, TIMEOUT_SECONDS
from etalstm.device.cards.xdma import XdmaTransport
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import BoardRegister, BoardStatus, Register
from etalstm_sim.transport import SimTransport

CHANNELS = 2  # DMA engines of each direction
_BOARD: dict[int, int] = {
    BoardRegister.STATUS: BoardStatus.LOCKED | BoardStatus.CALIBRATED | BoardStatus.UP,
    BoardRegister.TEMPERATURE: 40 | 40 << 8,
    BoardRegister.BIT_ERRORS: contract.BIT_ERRORS_KNOWN,
}


class SimulatedNode(Node):
    """One node of :class:`SimulatedNodes`, to which it forwards.

    Parameters
    ----------
    nodes : SimulatedNodes
    name : str
    """

    def __init__(self, nodes: "SimulatedNodes", name: str):
        self._nodes, self._name = nodes, name

    def read(self, address, buffer):
        """Copy from the simulated memory."""
        memory = self._nodes.machine.simulation.memory[address : address + len(buffer)]
        np.frombuffer(buffer, np.uint8)[: memory.size] = memory
        return memory.size

    def write(self, address, data):
        """Copy into the simulated memory."""
        memory = self._nodes.machine.simulation.memory[address : address + len(data)]
        memory[:] = np.frombuffer(data, np.uint8)[: memory.size]
        return memory.size

    def load(self, register):
        """Read a register, one of the machine in a few simulated cycles."""
        return self._nodes.load(register)

    def store(self, register, value):
        """Write a register, one of the machine in a few simulated cycles."""
        self._nodes.store(register, value)

    def poll(self, seconds):
        """Simulate until the interrupt rises; without a program, only wait."""
        return self._nodes.poll(seconds)

    def lock(self):
        """Lock the card within this process, the only one that can reach it."""
        if self._nodes.locked_by is not None:
            raise LockedError(os.getpid())
        self._nodes.locked_by = self

    def close(self):
        """Unlock, if this node has the lock."""
        if self._nodes.locked_by is self:
            self._nodes.locked_by = None


class SimulatedNodes(Nodes):
    """The nodes of one card, number 0, whose machine is Verilated and runs in this process.

    As with a card, the interrupt is an event: each program causes one, which stays until it is read. The machine's
    clock runs only in register accesses, and while a node waits for an event.

    Parameters
    ----------
    config : Config
    channels : int
        DMA engines of each direction, 1 to 4.
    options : those of :class:`SimTransport`

    Members
    -------
    machine : SimTransport
    locked_by : Node or None

    Raises
    ------
    ValueError
        If an option is out of range.
    DeviceError
        If the simulator cannot be built.
    """

    def __init__(self, config: Config, *, channels: int = CHANNELS, **options):
        if not 1 <= channels <= 4:
            raise ValueError(f"channels must be 1 to 4, got {channels}")
        self._channels = channels
        self.machine = SimTransport(config, **options)
        self.locked_by: Node | None = None
        self._due = False  # a program was started whose interrupt nobody has taken

    def names(self):
        """List the nodes that the driver makes for a card."""
        engines = [f"{direction}_{n}" for direction in ("h2c", "c2h") for n in range(self._channels)]
        return [f"xdma0_{name}" for name in ("user", "events_0", *engines)]

    def driver_loaded(self):
        """True: there is no driver to load."""
        return True

    def open(self, name):
        """Open a node; ``FileNotFoundError`` if there is no such node."""
        if name not in self.names():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return SimulatedNode(self, name)

    def load(self, register: int) -> int:
        """Read a register of the machine, or of its board, which reports no trouble."""
        if register < BoardRegister.STATUS:
            return self.machine.read_register(register)
        return int(_BOARD.get(register, 0))

    def store(self, register: int, value: int) -> None:
        """Write a register; a start lets the interrupt fall, so that it can rise once more."""
        if register == BoardRegister.CONTROL and value & contract.BOARD_RESET:
            self.machine.reset()
        elif register < BoardRegister.STATUS:
            self.machine.write_register(register, value)
        if register == Register.CONTROL and value & contract.CONTROL_START:
            self._due = True

    def poll(self, seconds: float) -> bool:
        """Wait for the rise of the interrupt."""
        if not self._due:
            time.sleep(seconds)
            return False
        rose = self.machine.wait(seconds)
        self._due = not rose
        return rose


class SimulatedCard(XdmaTransport):
    """The host path of a card, over a simulated one: a rehearsal without hardware.

    Parameters
    ----------
    config : Config
    timeout_seconds, chunk_bytes : see :class:`XdmaTransport`
    options : see :class:`SimulatedNodes`

    Members
    -------
    simulation : Simulation
        The simulation behind the card.
    build_seconds : float
        What its build took.
    """

    poll_seconds = SimTransport.poll_seconds

    def __init__(
        self,
        config: Config,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        chunk_bytes: int = CHUNK_BYTES,
        **options,
    ):
        nodes = SimulatedNodes(config, **options)
        super().__init__(
            config,
            nodes=nodes,
            memory_bytes=nodes.machine.memory_bytes,
            timeout_seconds=timeout_seconds,
            chunk_bytes=chunk_bytes,
        )
        self._simulator = nodes.machine
        self.simulation, self.build_seconds = nodes.machine.simulation, nodes.machine.build_seconds

    def close(self) -> None:
        """Close the nodes, then end the simulation."""
        super().close()
        self._simulator.close()
