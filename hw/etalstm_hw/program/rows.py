"""Executes LOAD_ROWS: LOADs of the rows of weights that are needed, for all channels."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw.axi.axi import AXI4Read
from etalstm_hw.contract import MOST_GATES, TARGET_BITS, FloatFormat, Opcode, Status
from etalstm_hw.program.rowmaps import RowMaps
from etalstm_hw.stream import Dispatched, Group, Windows, instruction_layout, unmet

_LAYOUT = instruction_layout(Opcode.LOAD_ROWS)
_LOAD = instruction_layout(Opcode.LOAD)


class _Run(data.StructLayout):
    """Consecutive rows that are needed: where they lie and go to, and how many."""

    def __init__(self):
        super().__init__({name: _LOAD[name].shape for name in ("address", "lane_address", "outer")})


class RowLoads(wiring.Component):
    """Hands instructions on; each LOAD_ROWS as LOADs of the runs of rows that are needed.

    All channels need the same rows, so this is done once, between the sequencer and them. A LOAD_ROWS waits here until
    every channel has stored what its map is made of, and no later instruction passes it: what it waits for was handed
    on before. A row takes one cycle. The four rows of a lane take one cycle together if none is needed. A run ends
    with its block. Its LOAD goes out when the next run begins. The last LOAD goes out, without ``more``, when all maps
    have been looked at. Other instructions pass in the same cycle.

    Parameters
    ----------
    format : FloatFormat
    lanes, beat_words, address_bits : int
        Of :class:`RowMaps`.

    Members
    -------
    i, o : :py:`stream.Signature(Dispatched())`
                                         instructions; one at ``i`` may only disappear if a reset follows
    stored_by_all : :py:`In(TARGET_BITS)`
                                         what waits are compared with
    windows, group, axi, drain, busy, beat
                                         of :class:`RowMaps`
    seen, skipped : :py:`Out(range(5))`  rows that were looked at in this cycle; those of them that are left out
    status : :py:`Out(Status)`           why the instruction at ``i`` is not taken, see :class:`RowMaps`
    """

    def __init__(self, format: FloatFormat, *, lanes: int, beat_words: int, address_bits: int):
        self._maps = RowMaps(format, lanes=lanes, beat_words=beat_words, address_bits=address_bits)
        self._vector_beats = lanes // beat_words
        super().__init__(
            {
                "i": In(stream.Signature(Dispatched())),
                "o": Out(stream.Signature(Dispatched())),
                "stored_by_all": In(TARGET_BITS),
                "windows": In(Windows(address_bits)),
                "group": In(Group(address_bits)),
                "axi": Out(AXI4Read(address_bits, beat_words * format.width)),
                "drain": In(1),
                "busy": Out(1),
                "beat": Out(1),
                "seen": Out(range(MOST_GATES + 1)),
                "skipped": Out(range(MOST_GATES + 1)),
                "status": Out(Status),
            }
        )

    def elaborate(self, platform):
        """One FSM; `run` is the run of rows that was found last, and goes out when the next one is."""
        m = Module()
        m.submodules.maps = maps = self._maps
        rows, load = _LAYOUT(self.i.p.word[: _LAYOUT.size]), _LOAD(self.o.p.word[: _LOAD.size])
        run, found, ended = Signal(_Run(), reset_less=True), Signal(), Signal()
        here = Signal(_Run(), reset_less=True)  # its `outer` are the rows that are left of the block
        needed, last = Signal(maps.o.p.needed.shape(), reset_less=True), Signal(reset_less=True)
        connect(m, maps.axi, flipped(self.axi))
        m.d.comb += [
            maps.i.p.eq(rows),
            maps.windows.eq(self.windows),
            maps.group.eq(self.group),
            maps.drain.eq(self.drain),
            self.busy.eq(maps.busy),
            self.beat.eq(maps.beat),
            self.status.eq(maps.status),
            self.o.p.eq(self.i.p),
        ]

        # Whether a LOAD goes out is known late, so its payload does not depend on that.
        is_rows, ends = rows.opcode == Opcode.LOAD_ROWS, Signal()
        with m.If(is_rows):
            m.d.comb += [
                self.o.p.word.eq(self.i.p.word[: _LOAD["more"].offset]),
                load.opcode.eq(Opcode.LOAD),
                load.more.eq(~ends),
                *(load[name].eq(run[name]) for name in run.shape().members),
            ]

        with m.FSM():
            with m.State("PASS"):
                with m.If(is_rows):
                    m.d.comb += maps.i.valid.eq(self.i.valid & ~unmet(self.i.p.waits.store, self.stored_by_all))
                    with m.If(maps.i.valid & maps.i.ready):
                        m.next = "TAKE"
                with m.Else():
                    m.d.comb += [self.o.valid.eq(self.i.valid), self.i.ready.eq(self.o.ready)]
                # Where no row is needed this is the one that is read.
                m.d.sync += [run.address.eq(rows.address), run.lane_address.eq(rows.lane_address), run.outer.eq(1)]
                m.d.sync += [here.address.eq(rows.address), here.lane_address.eq(rows.lane_address), found.eq(0)]
            with m.State("TAKE"):
                m.d.comb += maps.o.ready.eq(1)
                # Beside a single row the second one counts as needed. So no single row is taken for a lane's four.
                second = Cat(Const(1 << 1, MOST_GATES) for _ in range(len(needed) // MOST_GATES))
                m.d.sync += [
                    needed.eq(maps.o.p.needed | Mux(rows.single, second, 0)),
                    here.outer.eq(maps.o.p.rows),
                    last.eq(maps.o.p.last),
                ]
                m.d.sync += ended.eq(1)
                with m.If(maps.o.valid):
                    m.next = "LOOK"
            with m.State("LOOK"):
                begins, step = needed[0] & ended, Signal(range(MOST_GATES + 1))
                moves, whole_lane = Signal(), here.outer[: (MOST_GATES - 1).bit_length()] == 0
                m.d.comb += [
                    step.eq(Mux(whole_lane & ~needed[:MOST_GATES].any(), MOST_GATES, 1)),
                    moves.eq(~(begins & found) | self.o.ready),
                ]
                m.d.comb += self.o.valid.eq(self.i.valid & begins & found)
                with m.If(moves):
                    self._step(m, rows, here, needed, step)
                    m.d.sync += ended.eq(~needed[0])
                    with m.If(begins):
                        m.d.sync += [run.eq(here), run.outer.eq(1), found.eq(1)]
                    with m.Elif(needed[0]):
                        m.d.sync += run.outer.eq(run.outer + 1)
                    with m.If(here.outer == step):
                        m.next = "TAKE"
                        with m.If(last):
                            m.next = "END"
            with m.State("END"):
                m.d.comb += [ends.eq(1), self.o.valid.eq(self.i.valid), self.i.ready.eq(self.o.ready)]
                with m.If(self.o.ready):
                    m.next = "PASS"
        return m

    def _step(self, m, rows, here, needed, step):
        """Go on by a row, or by those of a whole lane."""
        beats, shift = rows.inner * self._vector_beats, (MOST_GATES - 1).bit_length()
        m.d.comb += [self.seen.eq(step), self.skipped.eq(Mux(needed[0], 0, step))]
        m.d.sync += here.outer.eq(here.outer - step)
        whole_lane = step == MOST_GATES
        m.d.sync += needed.eq(Mux(whole_lane | rows.single, needed >> MOST_GATES, needed >> 1))
        with m.If(whole_lane):
            m.d.sync += [
                here.address.eq(here.address + (beats << shift)),
                here.lane_address.eq(here.lane_address + (rows.outer_stride << shift)),
            ]
        with m.Else():
            m.d.sync += [
                here.address.eq(here.address + beats),
                here.lane_address.eq(here.lane_address + rows.outer_stride),
            ]
