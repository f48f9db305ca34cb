"""IndexedReads: every request once and in order, every index followed by its stream, nothing outside of the window."""

from amaranth.hdl import Assert, Assume, Cover, Mux, Signal
from amaranth.lib import data

from tests.formal.harness import Shadow, bench, constant, payload, stream_in
from tests.formal.prove import Change, Mutant, Proof, pdr

_WORD, _BEAT_WORDS, _ADDRESS, _BEATS = 4, 4, 5, 3
_AHEAD = 2
_BEAT = 1  # bits of the beat where an index lies
_SLOW = 2  # cycles from an index to its stream
_CHECK = '{"start": 0, "elements": 5, "beats": 11, "kept": 19, "address": 27}'
_SMALL_CHECK = '{"elements": 5, "address": 27}'


def indexed_reads(load):
    """Remember the requests for indices, and the indices that came for them.

    Words of 4 bits and addresses of 5: sums that leave the window do so everywhere. A plan has one bit that is only
    copied. The check is made of two words instead of five: each of
    them enters it in the same way. The surroundings answer each transfer of an index with one index, in order.
    """
    status, indexed = load("etalstm_hw.contract").Status, load("etalstm_hw.dma.indexed")
    beat_kind, stream_size = indexed.BeatKind, load("etalstm_hw.codec.decompress").StreamSize(_WORD)
    plan = data.StructLayout({"verdict": status, "beat_kind": beat_kind, "stream_size": stream_size, "note": 1})
    unit = indexed.IndexedReads(plan, _WORD, _BEAT_WORDS, _ADDRESS, _BEATS)
    m = bench(unit)
    i, index, plans, transfers, request = unit.i, unit.index, unit.plans, unit.transfers, unit.i.p
    taken, stopped = stream_in(m, i, name="i"), Signal()
    constant(m, unit.size)
    with m.If(unit.drain):
        m.d.sync += stopped.eq(1)

    planned, moved = plans.valid & plans.ready, transfers.valid & transfers.ready
    idle = plans.p.verdict == status.IDLE
    wants_index = taken & (request.plan.beat_kind == beat_kind.INDEX) & (request.plan.verdict == status.IDLE)
    streamed = planned & ~taken
    asked = Shadow(
        m,
        _AHEAD,
        push=wants_index,
        value=payload(request.window, request.address, request.plan),
        pop=streamed,
        clear=stopped,
        name="asked",
    )
    came = Shadow(m, _AHEAD, push=index.valid, value=index.p, pop=streamed, clear=stopped, name="came")
    coming = Signal(range(_AHEAD + 1))  # indices that are asked for and have not come
    m.d.sync += coming.eq(Mux(stopped, 0, coming + wants_index - index.valid))
    window, address = asked.head[:_ADDRESS], asked.head[_ADDRESS:][:_BEAT]
    waiting, here = plan(asked.head[_ADDRESS + _BEAT :]), index.p.shape()(came.head)
    words = {
        "start": here.start, "elements": waiting.stream_size.elements, "beats": here.beats, "kept": here.kept,
        "address": address,
    }  # fmt: skip
    check = 0
    for name, turn in load("etalstm_hw.contract").INDEX_CHECK.items():
        check = check ^ (words[name] << turn % _WORD) ^ (words[name] >> _WORD - turn % _WORD)
    fits = (
        (here.beats != 0)
        & (here.beats < 1 << _BEATS)
        & (here.start + here.beats <= unit.size)
        & (here.check == check[:_WORD])
    )
    verdict = Mux(here.error, status.READ_ERROR, Mux(fits, status.IDLE, status.BAD_STREAM))
    expected = Signal(plan)
    m.d.comb += [
        expected.eq(waiting),
        expected.beat_kind.eq(beat_kind.STREAM),
        expected.verdict.eq(verdict),
        expected.stream_size.kept.eq(here.kept),
    ]
    slow = Signal(range(_SLOW + 2))
    m.d.sync += slow.eq(Mux((came.count != 0) & plans.ready & transfers.ready & ~i.valid & ~streamed, slow + 1, 0))
    m.d.comb += [
        Assume(request.refused == (request.plan.verdict != status.IDLE)),
        Assume(~i.valid | (request.plan.beat_kind != beat_kind.STREAM)),
        Assume(~i.valid | (request.plan.beat_kind.as_value() != 3)),
        Assume(~stopped | unit.drain),
        Assume(~index.valid | ((coming != 0) & ~stopped)),
        Assert(index.ready),
        Assert(~(unit.drain & (plans.valid | transfers.valid | i.ready))),
        Assert(~taken | planned),
        Assert(moved == (planned & idle)),
        Assert(~transfers.valid | plans.ready),
        Assert(~taken | ((plans.p == request.plan) & (transfers.p.as_value() == request.transfer.as_value()))),
        Assert(~taken | wants_index | (asked.count == 0)),
        Assert(unit.drain | ~i.valid | (request.plan.verdict == status.IDLE) | (asked.count != 0) | plans.valid),
        Assert(~streamed | ((came.count != 0) & (plans.p == expected))),
        Assert(~(streamed & idle) | (transfers.p.address == (window + (here.start << 1))[:_ADDRESS])),
        Assert(~(streamed & idle) | (transfers.p.beats == here.beats)),
        Assert(stopped | (unit.busy == (asked.count != 0))),
        Assert(stopped | unit.drain | (slow <= _SLOW)),
        Assert(~(i.valid & plans.ready & transfers.ready & ~unit.drain & (asked.count == 0)) | taken),
        Cover(streamed & idle & (asked.count == 2) & (here.start == 3)),
        Cover(streamed & (plans.p.verdict == status.BAD_STREAM)),
        Cover(taken & ~wants_index & idle),
        Cover(i.valid & ~i.ready & transfers.ready & (came.count == 2)),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.dma.indexed", old, new, survives)


PROOFS = [
    Proof(
        name="IndexedReads",
        build=indexed_reads,
        claim="each request once, in order; each index followed by its stream, checked, at most 2 cycles later",
        method=pdr(),
        reach=12,
        small=(
            Change("etalstm_hw.contract.streams", _CHECK, _SMALL_CHECK),
            Change("etalstm_hw.contract.fields", "\nADDRESS_BITS = 28", f"\nADDRESS_BITS = {_BEAT}"),
        ),
        mutants=(
            _mutant("Mux(indexed & ~known, waiting.w_rdy, alone)", "Mux(indexed & ~known, waiting.w_rdy, 1)"),
            _mutant("Mux(indexed & ~known, waiting.w_rdy, alone)", "Mux(indexed & ~known, 1, alone)"),
            _mutant("Mux(request.refused, alone, transfers.ready)", "transfers.ready"),
            _mutant("Mux(request.refused, alone, transfers.ready)", "Mux(request.refused, 1, transfers.ready)"),
            _mutant("offers & indexed & transfers.ready & ~request.refused", "offers & indexed & transfers.ready"),
            _mutant("offers & indexed & transfers.ready & ~request", "offers & indexed & ~request"),
            _mutant("Mux(offers, ~request.refused, ", "Mux(offers, 1, "),
            _mutant("stream_offers & stream_readable)", "stream_offers)"),
            _mutant("transfers.valid.eq(readable & goes)", "transfers.valid.eq(readable & ~self.drain)"),
            _mutant("(transfers.ready | ~stream_readable)", "transfers.ready"),
            _mutant("(transfers.ready | ~stream_readable)", "1"),
            _mutant("~offers & stream_offers & (", "stream_offers & ("),
            _mutant("plans.ready & ~self.drain", "plans.ready"),
            _mutant("plans.valid.eq(~self.drain & (", "plans.valid.eq(("),
            _mutant("(index.beats == 0)\n            | ", ""),
            _mutant("            | index.beats[self._beats_bits :].any()\n", ""),
            _mutant("index.start + index.beats > self.size", "index.start + index.beats >= self.size"),
            _mutant("index.start + index.beats > self.size", "index.start > self.size"),
            _mutant("            | (index.check != check)\n", ""),
            _mutant("address=asked.address", "address=0"),
            _mutant("Mux(index.error, Status.READ_ERROR, ", "Mux(0, Status.READ_ERROR, "),
            _mutant("checked.eq(there & ~waiting.r_en)", "checked.eq(there)"),
            _mutant("plan.stream_size.kept.eq(index.kept)", "plan.stream_size.kept.eq(index.check)"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
