"""A status line on the card's serial port, for users who have only its USB cable; nothing is received."""

from amaranth.hdl import Array, Cat, Const, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

STATES = ("waiting", "idle", "running", "failed")  # "waiting" is for clocks and memory; the last that holds is shown
_TEMPERATURES = 128
_DIGITS = 3  # of a temperature


class Transmitter(wiring.Component):
    """Sends bytes on a serial line: a start bit, eight bits, lowest first, a stop bit; high in between.

    A byte takes ten bits' time; the next can be taken in the cycle after.

    Parameters
    ----------
    bit_cycles : int
        Clock cycles of a bit.

    Members
    -------
    i : :py:`In(stream.Signature(8))`
    o : :py:`Out(1)`
        The line.
    """

    def __init__(self, bit_cycles: int):
        self._bit_cycles = bit_cycles
        super().__init__({"i": In(stream.Signature(8)), "o": Out(1, init=1)})

    def elaborate(self, platform):
        """Shift the frame out; ones follow it, which are the stop bit."""
        m = Module()
        frame, bits, cycles = Signal(9, init=-1), Signal(range(11)), Signal(range(self._bit_cycles))
        m.d.comb += [self.o.eq(frame[0]), self.i.ready.eq(bits == 0)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [frame.eq(Cat(0, self.i.payload)), bits.eq(10), cycles.eq(self._bit_cycles - 1)]
        with m.Elif(bits != 0):
            m.d.sync += cycles.eq(cycles - 1)
            with m.If(cycles == 0):
                m.d.sync += [frame.eq(Cat(frame[1:], 1)), bits.eq(bits - 1), cycles.eq(self._bit_cycles - 1)]
        return m


class Console(wiring.Component):
    """Sends a line with the state of the card at equal intervals.

    ``eta-lstm 1234abcd running  programs 0000002a  memory  40  41 C``: the value of the BUILD register; a state of
    :data:`STATES`; the number of programs that have begun since the card's reset; the temperature of each memory stack.
    All values are sampled when the line begins.

    Parameters
    ----------
    build : int
        32 bits.
    bit_cycles, interval_cycles : int
        Clock cycles of a bit, and from one line to the next.

    Members
    -------
    ready, running, error : :py:`In(1)`
        See :class:`etalstm_boards.shell.Shell`.
    temperature : :py:`In(15)`
        As ``contract.BoardRegister.TEMPERATURE`` shows it.
    o : :py:`Out(1)`
        The line.
    """

    def __init__(self, build: int, *, bit_cycles: int, interval_cycles: int):
        self._build, self._interval_cycles = build, interval_cycles
        self._transmitter = Transmitter(bit_cycles)
        super().__init__({"ready": In(1), "running": In(1), "error": In(1), "temperature": In(15), "o": Out(1, init=1)})

    def elaborate(self, platform):
        """Count programs; after each interval sample all values, then send the line character by character."""
        m = Module()
        m.submodules.transmitter = transmitter = self._transmitter
        characters = stream.Signature(8).create()
        connect(m, characters, transmitter.i)
        programs, was_running = Signal(32), Signal()
        m.d.sync += was_running.eq(self.running)
        with m.If(self.running & ~was_running):
            m.d.sync += programs.eq(programs + 1)

        state, counted, temperature = Signal(range(len(STATES))), Signal(32), Signal(15)
        line = self._line(Array(map(_text, _padded(STATES)))[state], counted, temperature)
        position, cycles = Signal(range(len(line) // 8 + 1), init=len(line) // 8), Signal(range(self._interval_cycles))
        m.d.comb += [
            self.o.eq(transmitter.o),
            characters.payload.eq(line.word_select(position, 8)),
            characters.valid.eq(position != len(line) // 8),
        ]
        m.d.sync += cycles.eq(cycles + 1)
        with m.If(characters.valid & characters.ready):
            m.d.sync += position.eq(position + 1)
        with m.If(cycles == self._interval_cycles - 1):
            m.d.sync += [cycles.eq(0), position.eq(0), counted.eq(programs), temperature.eq(self.temperature)]
            for number, holds in enumerate((1, self.ready, self.running, self.error)):
                with m.If(holds):
                    m.d.sync += state.eq(number)
        return m

    def _line(self, state: Value, programs: Value, temperature: Value) -> Value:
        """Put the line together, its first character lowest."""
        degrees = Array(_text(f"{n:{_DIGITS}}") for n in range(_TEMPERATURES))
        return Cat(
            _text(f"eta-lstm {self._build:08x} "),
            state,
            _text("  programs "),
            _hexadecimal(programs),
            _text("  memory "),
            degrees[temperature[:7]],
            _text(" "),
            degrees[temperature[8:]],
            _text(" C\r\n"),
        )


def _text(text: str) -> Const:
    return Const(int.from_bytes(text.encode("ascii"), "little"), 8 * len(text))


def _padded(words: tuple[str, ...]) -> list[str]:
    return [word.ljust(max(map(len, words))) for word in words]


def _hexadecimal(value: Value) -> Value:
    """Give a value's digits, the highest first."""
    digits = Array(_text(digit) for digit in "0123456789abcdef")
    return Cat(digits[value.word_select(n, 4)] for n in reversed(range(len(value) // 4)))
