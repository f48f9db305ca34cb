"""A card behind PCIe, driven through the character devices of the XDMA driver for Linux."""

import time
from collections.abc import Callable
from functools import partial

from etalstm.device.cards.nodes import CharacterNodes, LockedError, Node, Nodes
from etalstm.device.cards.transfers import CHUNK_BYTES, TIMEOUT_SECONDS, Transfers, aligned, fit_to_move, whole_beats
from etalstm.device.transport import Transport
from etalstm.errors import DeviceError
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import BoardRegister, BoardStatus, Register, Status

_ALL_ONES = 0xFFFFFFFF
_NEEDED = ("user", "events_0", "h2c_0", "c2h_0")
_OPENED_TIMES = 2  # each DMA node, see Transfers
_READY_SECONDS = 5.0  # the memory's calibration takes less than one
_UNREADY = {
    BoardStatus.LOCKED: (False, "the clocks do not run"),
    BoardStatus.CALIBRATED: (False, "the memory is not calibrated"),
    BoardStatus.TRIPPED: (True, "the memory was too hot"),
    BoardStatus.UP: (False, "the machine is in reset"),
}
_REMEDY = "load the bitstream again (eta-lstm hw program) or restart the host"


class CardError(DeviceError):
    """A card is not there, cannot be opened, or is somebody else's."""


class LinkDownError(DeviceError):
    """The card does not answer on PCIe any more."""


class XdmaTransport(Transport):
    """A card: memory over DMA, registers mapped, the interrupt as an event.

    Only one process can have a card. To be used by one thread at a time. A program that an earlier process has left
    running is stopped.

    `number` counts cards as the driver does. The character devices are below ``/dev`` if no `nodes` are given, and
    the memory is what the machine can address. A transfer may stand still for `timeout_seconds`, and moves
    `chunk_bytes` in one system call: see :class:`Transfers`.

    :class:`CardError` if there is no such card, its nodes are incomplete or may not be opened, another process has it,
    or its board does not bring the machine up; :class:`LinkDownError` if it does not answer.
    """

    def __init__(
        self, config: Config, number: int = 0, *, nodes: Nodes | None = None, memory_bytes: int | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS, chunk_bytes: int = CHUNK_BYTES,
    ):  # fmt: skip
        self.name = f"xdma:{number}"
        self.memory_bytes = 1 << config.address_bits if memory_bytes is None else memory_bytes
        self._nodes, self._prefix = CharacterNodes() if nodes is None else nodes, f"xdma{number}_"
        self._opened: list[Node] = []
        names = self._find(number)
        try:
            self._user = self._open("user")
            _lock(self._user, self.name)
            self._events = self._open("events_0")
            self._come_up()
            self._lost_before = 0
            self.lost_words()  # those of whoever had the card are not ours
            channels = {
                direction: [
                    (self._prefix + name, self._open(name))
                    for name in names
                    if name.startswith(direction)
                    for _ in range(_OPENED_TIMES)
                ]
                for direction in ("h2c", "c2h")
            }
            limited = partial(Transfers, timeout_seconds=timeout_seconds, chunk_bytes=chunk_bytes)
            self._writes = limited(channels["h2c"], "writing", lambda node, *where: node.write(*where))
            self._reads = limited(channels["c2h"], "reading", lambda node, *where: node.read(*where))
        except BaseException:
            self._close_nodes()
            raise

    def read_register(self, register: int) -> int:
        """Read a register over PCIe.

        :class:`LinkDownError` if nothing answers, :class:`CardError` if the machine has been reset by its board, as
        when the memory is too hot.
        """
        value = self._registers.load(register)
        if value == _ALL_ONES and self._registers.load(BoardRegister.STATUS) == _ALL_ONES:
            raise LinkDownError(
                f"{self.name} reads as all ones: the PCIe link is down, or the card was reconfigured; {_REMEDY}"
            )
        if register == Register.STATUS and value == Status.IDLE:  # also what is read while the machine is in reset
            board = BoardStatus(self._registers.load(BoardRegister.STATUS))
            if not board & BoardStatus.UP:
                raise self._unready(board)
        return value

    def write_register(self, register: int, value: int) -> None:
        """Write a register over PCIe."""
        self._registers.store(register, value)

    def wait(self, seconds: float) -> bool:
        """Sleep until the interrupt's event, at most so many seconds."""
        self._check_open()
        try:
            return self._events.poll(seconds)
        except OSError as error:
            raise CardError(f"{self.name} gives no events: {error}") from None

    def reset(self) -> None:
        """Reset the machine by way of the board, which lets the memory finish what is under way.

        :class:`CardError` if the machine does not come back.
        """
        mark = Register.PROGRAM_LENGTH
        self.write_register(mark, 1)  # forgotten by the reset: until then the board has not got round to it
        self._registers.store(BoardRegister.CONTROL, contract.BOARD_RESET)
        self._await_ready(lambda: self.read_register(mark) == 0)

    def condition(self) -> str:
        """Give the temperatures of the memory, and the bit errors that its controllers have found."""
        word = self.read_register(BoardRegister.TEMPERATURE)
        found = self._bit_errors()
        errors = "bit errors not known" if found is None else "{} bit errors corrected, {} words lost".format(*found)
        return f"memory at {word & 0x7F} and {word >> 8 & 0x7F} °C, {errors}"

    def lost_words(self) -> int:
        """Ask the board, which adds up the counts of the memory controllers; each stops at 255."""
        found = self._bit_errors()
        if found is None:
            return 0
        before, self._lost_before = self._lost_before, found[1]
        return max(0, self._lost_before - before)  # they begin at 0 again when the memory is set up anew

    def close(self) -> None:
        """Close every node, and with them the lock."""
        if self._opened:
            self._writes.close()
            self._reads.close()
            self._close_nodes()

    def _read_memory(self, address, size):
        self._check_open()
        data = aligned(address, size)
        self._reads.run(address, data)
        return data

    def _write_memory(self, address, data):
        self._check_open()
        address, data = whole_beats(address, data, self._read_memory)
        self._writes.run(address, fit_to_move(address, data))

    def _bit_errors(self) -> tuple[int, int] | None:
        """Give how many bit errors the memory has corrected, and how many words it has lost; None if it cannot tell."""
        word = self._registers.load(BoardRegister.BIT_ERRORS)
        if not word & contract.BIT_ERRORS_KNOWN:
            return None
        lost, corrected = divmod(word & ~contract.BIT_ERRORS_KNOWN, 1 << contract.BIT_ERRORS_SHIFT)
        return corrected, lost

    @property
    def _registers(self) -> Node:
        self._check_open()
        return self._user

    def _find(self, number: int) -> list[str]:
        """Give the names of the card's nodes, or say why there are none."""
        cards = self._nodes.cards()
        if not cards:
            if not self._nodes.driver_loaded():
                raise CardError("there is no card: the kernel module xdma is not loaded (modprobe xdma)")
            raise CardError(
                "there is no card: the kernel module xdma is loaded and found none; load a bitstream and rescan "
                "PCIe (eta-lstm hw program --rescan)"
            )
        if number not in cards:
            raise CardError(f"there is no card {self.name}; there are: {', '.join(f'xdma:{n}' for n in cards)}")
        missing = [self._prefix + name for name in _NEEDED if name not in cards[number]]
        if missing:
            raise CardError(f"{self.name} lacks {', '.join(missing)}: its XDMA is configured in another way")
        return cards[number]

    def _open(self, name: str) -> Node:
        self._opened.append(_open(self._nodes, self._prefix + name))
        return self._opened[-1]

    def _await_ready(self, done: Callable[[], bool] = lambda: True) -> None:
        """Wait until the board has brought its machine up, and it is `done`; raise :class:`CardError` if not."""
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            status = BoardStatus(self.read_register(BoardRegister.STATUS))
            if status & BoardStatus.UP and done():
                return
            if time.monotonic() > deadline:
                raise self._unready(status)
            time.sleep(0.001)

    def _come_up(self) -> None:
        """Reach the board, wait for the machine, and reset it if it runs what an earlier process has left."""
        try:
            self._await_ready()
        except OSError as error:
            reason = f"the registers of {self.name} cannot be mapped: {error.strerror}"
            raise CardError(f"{reason}; is the bitstream an η-LSTM accelerator's?") from None
        ours = self.read_register(Register.MAGIC) == contract.MAGIC  # another bitstream is left as it is
        if ours and self.read_register(Register.STATUS) == Status.RUNNING:
            self.reset()

    def _unready(self, status: BoardStatus) -> CardError:
        reasons = [reason for bit, (level, reason) in _UNREADY.items() if bool(status & bit) == level]
        reasons = reasons or ["the machine was not reset"]
        return CardError(
            f"{self.name} is not ready, its board says {int(status):#x}: {', '.join(reasons)}; "
            f"if that bitstream is an η-LSTM accelerator's, {_REMEDY}"
        )

    def _check_open(self) -> None:
        if not self._opened:
            raise DeviceError(f"{self.name} is closed")

    def _close_nodes(self) -> None:
        while self._opened:
            self._opened.pop().close()


def check_unused(number: int, nodes: Nodes | None = None) -> None:
    """Raise :class:`CardError` if a process has the card."""
    user = _open(CharacterNodes() if nodes is None else nodes, f"xdma{number}_user")
    try:
        _lock(user, f"xdma:{number}")
    finally:
        user.close()


def _open(nodes: Nodes, name: str) -> Node:
    try:
        return nodes.open(name)
    except PermissionError:
        raise CardError(f"no permission to open {name}; a udev rule or root gives it") from None
    except OSError as error:
        raise CardError(f"{name} cannot be opened: {error.strerror}") from None


def _lock(user: Node, name: str) -> None:
    try:
        user.lock()
    except LockedError as error:
        holder = "another process" if error.pid is None else f"process {error.pid}"
        raise CardError(f"{name} is in use by {holder}") from None
