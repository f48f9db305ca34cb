"""BlockFetcher: blocks fill two buffers in turn, from their first line, and never one that is still being sent."""

from amaranth.hdl import Assert, Assume, Cover, Signal

from tests.formal.harness import before, bench, constant, payload, stream_in, stream_out
from tests.formal.prove import Change, Mutant, Proof, pdr

_WIDTH, _BEAT_WORDS, _WORDS = 4, 4, 8  # bits of a word; words of a beat and of a buffer
_LINES = _WORDS // _BEAT_WORDS
_ADDRESS = 5


def fetcher(load):
    """Count lines, blocks and releases; what is read is free, so beats, streams and indices may be anything.

    Buffers of two lines instead of 512: lines are counted modulo them. That a block has no more lines than a buffer is
    what the requests check. Fields of 1 to 5 bits, so that every verdict comes at once. A release comes only for a
    block that was handed over.
    """
    unit = load("etalstm_hw.broadcast.fetcher").BlockFetcher(
        load("etalstm_hw.contract").FloatFormat(0, 3),
        beat_words=_BEAT_WORDS,
        vector_beats=1,
        words=_WORDS,
        address_bits=6,
    )
    m = bench(unit)
    i, o, status = unit.i, unit.o, load("etalstm_hw.contract").Status
    stream_in(m, i, name="i")
    constant(m, unit.windows, unit.group)
    taken = stream_in(m, unit.data, name="data")
    handed = stream_out(m, o, name="o")
    line, bank, sending, whole = Signal(range(_LINES)), Signal(), Signal(range(4)), Signal()
    writes, failed = unit.write_enable, before(m, unit.status != status.IDLE, name="stopped")
    m.d.comb += [
        Assume(~unit.drain),
        Assume(~unit.release | (sending != 0)),
        Assert(sending <= 2),
        Assert(~writes | (sending < 2)),  # nothing is written into a buffer that is being sent
        Assert(~writes | (unit.write_address == payload(line, bank))),
        Assert(~(writes & whole)),
        Assert(~o.valid | writes | whole),
        Assert(~o.valid | (o.p.bank == bank)),
        Assert(~(writes | o.valid) | (unit.block.bank == bank)),
        Assert(~failed | (unit.status != status.IDLE)),
        Assert(~(sending != 0) | unit.busy),
        Cover(handed & (sending == 1) & (line == 1)),
        Cover(handed & ~taken & whole),
        Cover(unit.status == status.BAD_STREAM),
        Cover((unit.status == status.BAD_ADDRESS) & (sending == 1)),
    ]
    m.d.sync += sending.eq(sending + handed - unit.release)
    with m.If(writes):
        m.d.sync += line.eq(line + 1)
    m.d.sync += whole.eq(o.valid & ~handed)
    with m.If(handed):
        m.d.sync += [line.eq(0), bank.eq(~bank)]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.broadcast.fetcher", old, new, survives)


PROOFS = [
    Proof(
        name="BlockFetcher",
        build=fetcher,
        claim="blocks fill the buffers in turn, line by line; none is written while it is being sent",
        method=pdr(),
        reach=24,
        small=(
            Change("etalstm_hw.contract.streams", "STREAM_BLOCK = 32", f"STREAM_BLOCK = {_WIDTH}"),
            Change("etalstm_hw.contract.floats", "if not 3 <= self.exponent", "if not 0 <= self.exponent"),
            Change("etalstm_hw.contract.fields", "\nADDRESS_BITS = 28", f"\nADDRESS_BITS = {_ADDRESS}"),
            Change("etalstm_hw.contract.fields", "\nCOUNT_BITS = 12", "\nCOUNT_BITS = 2"),
            Change("etalstm_hw.contract.fields", "TILE_BITS = 12", "TILE_BITS = 1"),
            Change("etalstm_hw.contract.fields", "CHANNEL_BITS = 8", "CHANNEL_BITS = 1"),
        ),
        mutants=(
            _mutant("(plan.beat_kind != BeatKind.INDEX) & (free != 0)", "(plan.beat_kind != BeatKind.INDEX)"),
            _mutant("free.eq(free + self.release - handed)", "free.eq(free + self.release)"),
            _mutant("Signal(2, init=2)", "Signal(2, init=3)"),
            _mutant("self.block.bank.eq(fill)", "self.block.bank.eq(0)"),
            _mutant("filling.eq(0), fill.eq(~fill)", "filling.eq(0)"),
            _mutant("m.d.sync += [line.eq(0), full.eq(1)]", "m.d.sync += [full.eq(1)]"),
            _mutant("m.d.sync += [line.eq(0), full.eq(1)]", "m.d.sync += [line.eq(0)]"),
            _mutant("direct.eq(filling & ~streaming & ~full)", "direct.eq(filling & ~streaming)"),
            _mutant("self.write_address.eq(Cat(line, fill))", "self.write_address.eq(Cat(line, 0))"),
            _mutant("| filling | (free != 2)", "| filling"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
