"""Selector: what is small is dropped, what is left moves together, in order."""

from amaranth.hdl import Assert, Cover, Mux, Signal

from tests.formal.harness import Scoreboard, bench, payload, stream_in, stream_out
from tests.formal.prove import Change, Mutant, Proof, pdr

_WIDTH, _WORDS = 8, 4


def selector(load):
    """Compare and move word after word, where the unit moves all by powers of two.

    Words of 8 bits, blocks of 8 of them, four to a beat: two of the unit's steps, and their order matters.
    """
    format_ = load("etalstm_hw.contract").FloatFormat(2, 5)
    unit = load("etalstm_hw.codec.select").Selector(format_, _WORDS)
    m = bench(unit)
    i, o, kept = unit.i, unit.o, unit.o.p
    taken, given = stream_in(m, i, name="i"), stream_out(m, o, name="o")
    round_to_half = load("etalstm_hw.fp.format").round_to_half
    keep, count = Signal(_WORDS), [0]
    words = [Signal(_WIDTH, name=f"kept{n}") for n in range(_WORDS)]
    for n in range(_WORDS):
        word = i.p.data.word_select(n, _WIDTH)
        big = (word[:-1] != 0) & (unit.threshold[-1] | (word[:-1] >= unit.threshold[:-1]))
        m.d.comb += keep[n].eq(big)
        rounded = Mux(unit.bf16, round_to_half(format_, word), word)
        for place in range(n + 1):
            with m.If(big & (count[-1] == place)):
                m.d.comb += words[place].eq(rounded)
        total = Signal(3, name=f"count{n}")
        m.d.comb += total.eq(count[-1] + big)
        count.append(total)
    valid = [Mux(n < kept.count, kept.words[n], 0) for n in range(_WORDS)]
    board = Scoreboard(
        m,
        enters=taken,
        expected=payload(*words, count[-1], keep, unit.bf16, i.p.last),
        leaves=given,
        actual=payload(*valid, kept.count, kept.keep, kept.bf16, kept.last),
        capacity=2,
    )
    m.d.comb += [
        Assert(i.ready | (board.inside == 2)),
        Cover(given & (kept.keep == 0b1010) & ~kept.bf16),
        Cover(given & (kept.keep == 0b0110) & kept.bf16 & kept.last),
        Cover(~i.ready),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.codec.select", old, new, survives)


PROOFS = [
    Proof(
        name="Selector",
        build=selector,
        claim="of each beat exactly what is neither 0 nor below the threshold, in order, with its count and mask",
        method=pdr(),
        reach=8,
        small=(
            Change("etalstm_hw.contract.streams", "STREAM_BLOCK = 32", "STREAM_BLOCK = 8"),
            Change("etalstm_hw.contract.floats", "if not 3 <= self.exponent", "if not 2 <= self.exponent"),
        ),
        mutants=(
            _mutant("(magnitude >= self.threshold[:-1])", "(magnitude > self.threshold[:-1])"),
            _mutant("magnitude.any() & (", "("),
            _mutant("| self.threshold[-1])", ")"),
            _mutant("enters.eq(~valid | leaves)", "enters.eq(leaves)"),
            _mutant("enters.eq(~valid | leaves)", "enters.eq(1)"),
            _mutant("out.count.eq(sum(keep))", "out.count.eq(sum(keep[1:]))"),
            _mutant("out.bf16.eq(bf16)", "out.bf16.eq(self.bf16)"),
            _mutant("step, moves = 1 << digit, []", "step, moves = 1 + digit * 2, []"),
            _mutant(
                "there[n] & (ways[n] >> digit)[0]",
                "(ways[n] >> digit)[0]",
                "a dropped element never moves onto a kept one",
            ),
            _mutant(
                "line = [Mux(comes[n], line[source[n]], line[n]) for n",
                "line = [Mux(comes[n], line[source[n]], 0) for n",
            ),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
