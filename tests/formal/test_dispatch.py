"""Dispatch: instructions in order, with sums of address registers and absolute waits; a bad one stays where it is."""

from amaranth.hdl import Array, Assert, Cat, Const, Cover, Mux, Signal

from tests.formal.harness import bench, payload, stream_in, stream_out
from tests.formal.prove import Change, Mutant, Proof, pdr

_ADDRESS, _REGISTER, _TARGET, _WAIT = 3, 2, 3, 3  # bits
_PAIRS = 6
_REST = 6  # bits behind the address that are compared
_COUNTS = {
    "LOAD": "outer inner",
    "LOAD_ROWS": "outer inner lanes last_lanes tiles_per_channel",
    "STORE": "outer inner",
    "VECTOR": "outer inner",
    "TRANSPOSE": "outer rows lanes",
    "MAC": "tiles",
    "CAST": "blocks gates batch lanes last_lanes tiles tiles_per_channel",
}
_ENGINES = {"load": ("LOAD", "LOAD_ROWS"), "mac": ("MAC",), "vector": ("VECTOR",), "store": ("STORE", "TRANSPOSE")}
_WITH_ADDRESS = ("LOAD", "LOAD_ROWS", "STORE", "TRANSPOSE", "CAST")


def _verdict(m, load, now):
    """Judge an instruction by the table above."""
    contract, layout = load("etalstm_hw.contract"), load("etalstm_hw.stream").instruction_layout
    status, verdict, opcode = contract.Status, Signal(contract.Status), now.word[: contract.OPCODE_BITS]
    with m.Switch(opcode):
        for name, fields in _COUNTS.items():
            view = layout(contract.Opcode[name])(now.word[: layout(contract.Opcode[name]).size])
            waits = [view.wait_load, view.wait_mac, view.wait_vector] if name == "CAST" else []
            bad = Cat(*(view[field] == 0 for field in fields.split()), *(wait != 0 for wait in waits)).any()
            with m.Case(contract.Opcode[name]):
                m.d.comb += verdict.eq(Mux(bad, status.BAD_FIELD, status.IDLE))
        with m.Case(contract.Opcode.HALT, contract.Opcode.ADVANCE):
            m.d.comb += verdict.eq(status.IDLE)
        with m.Default():
            m.d.comb += verdict.eq(status.BAD_OPCODE)
    return Mux(now.verdict != status.IDLE, now.verdict, verdict)


def _advance(m, taken, pairs, advancing):
    """Add a pair a cycle; give the registers, and whether this is the last pair in use."""
    registers = Array([Const(0, _ADDRESS), *(Signal(_ADDRESS, name=f"sum{n}") for n in range(1, 1 << _REGISTER))])
    width = _REGISTER + _ADDRESS
    queue = [Signal(width, name=f"pair{n}") for n in range(_PAIRS)]
    in_use, most = Signal(range(_PAIRS + 1)), Signal(range(_PAIRS + 1))
    with m.If(advancing):
        m.d.sync += [pair.eq(following) for pair, following in zip(queue, [*queue[1:], 0], strict=True)]
        m.d.sync += in_use.eq(in_use - 1)
        for n in range(1, 1 << _REGISTER):
            with m.If(queue[0][:_REGISTER] == n):
                m.d.sync += registers[n].eq(registers[n] + queue[0][_REGISTER:])
    for n in range(_PAIRS):
        with m.If(pairs.word_select(n, width).any()):
            m.d.comb += most.eq(n)
    with m.If(taken):
        m.d.sync += [in_use.eq(most), *(pair.eq(pairs.word_select(n, width)) for n, pair in enumerate(queue))]
    return registers, in_use == 0


def _counts(m, is_one_of, passes):
    """Count the instructions of each engine that were handed on."""
    counts = {name: Signal(_TARGET, name=f"{name}_count") for name in _ENGINES}
    for name, opcodes in _ENGINES.items():
        with m.If(passes & is_one_of(opcodes)):
            m.d.sync += counts[name].eq(counts[name] + 1)
    return counts


def dispatch(load):
    """Keep the instruction at hand and the one handed on, execute them as the contract's tables say.

    Four registers, addresses of 3 bits, targets of 3 bits and distances of 3 bits in place of 16, 28, 20 and 8: all of
    them are added modulo a power of two. Of what follows the address some bits are compared: they are copied.
    """
    contract, opcodes = load("etalstm_hw.contract"), load("etalstm_hw.contract").Opcode
    unit, status = load("etalstm_hw.program.dispatch").Dispatch(), contract.Status
    m = bench(unit)
    i, o, header = unit.i, unit.o, contract.HEADER_BITS
    taken, given = stream_in(m, i, name="i"), stream_out(m, o, name="o")
    now, there, shown, expected_number = Signal(i.p.shape()), Signal(), Signal(), Signal.like(unit.number)
    word, verdict = now.word, Signal(contract.Status)
    head = load("etalstm_hw.stream").instruction_layout(opcodes.HALT)(word[:header])

    def is_one_of(names):
        return Cat(head.opcode == opcodes[name] for name in names).any()

    good, passes, advancing, leaves = (Signal() for _ in range(4))
    registers, ends = _advance(m, taken, i.p.word[header:][: _PAIRS * (_REGISTER + _ADDRESS)], advancing)
    counts = _counts(m, is_one_of, passes)
    address = word[header:][:_ADDRESS]
    total = Mux(is_one_of(_WITH_ADDRESS), (address + registers[head.register])[:_ADDRESS], address)
    waits = [
        payload(head[f"wait_{name}"] != 0, (counts[name] + 1 - head[f"wait_{name}"])[:_TARGET]) for name in _ENGINES
    ]
    result = payload(head.opcode, total, word[header + _ADDRESS :][:_REST], *waits, head.everyone)
    expected = Signal(len(result))
    actual = payload(
        o.p.word[: contract.OPCODE_BITS],
        o.p.word[header:][: _ADDRESS + _REST],
        *(payload(o.p.waits[name].wanted, o.p.waits[name].target) for name in _ENGINES),
        o.p.waits.everyone,
    )
    m.d.comb += [
        good.eq(there & (verdict == status.IDLE)),
        advancing.eq(good & is_one_of(["ADVANCE"])),
        passes.eq(good & ~is_one_of(["ADVANCE", "HALT"]) & (~shown | o.ready)),
        leaves.eq(passes | (advancing & ends)),
        Assert(i.ready == (~there | leaves)),
        Assert(o.valid == shown),
        Assert(~shown | (actual == expected)),
        Assert(~shown | ~o.p.word[contract.OPCODE_BITS : header].any()),
        Assert(unit.halt == (good & is_one_of(["HALT"]) & ~shown)),
        Assert(unit.refusal == Mux(there & ~shown, verdict, status.IDLE)),
        Assert(unit.waiting == (there | shown | i.valid)),
        Assert(unit.number == Mux(shown, expected_number, Mux(there, now.number, i.p.number))),
        Cover(given & (o.p.waits.store.target == 7) & o.p.waits.store.wanted & (expected_number == 2)),
        Cover(advancing & ends & registers[3].all() & (registers[1] == 5)),
        Cover(unit.halt & i.valid),
        Cover(unit.refusal == status.BAD_FIELD),
    ]
    with m.If(o.ready):
        m.d.sync += shown.eq(0)
    with m.If(passes):
        m.d.sync += [shown.eq(1), expected.eq(result), expected_number.eq(now.number)]
    with m.If(i.ready):
        m.d.sync += [there.eq(i.valid), now.eq(i.p), verdict.eq(_verdict(m, load, i.p))]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.program.dispatch", old, new, survives)


PROOFS = [
    Proof(
        name="Dispatch",
        build=dispatch,
        claim="in order, addresses with registers added, waits as counts; HALT and refusals after all before them",
        method=pdr(),
        reach=12,
        small=(
            Change("etalstm_hw.contract.fields", "\nADDRESS_BITS = 28", f"\nADDRESS_BITS = {_ADDRESS}"),
            Change("etalstm_hw.contract.fields", "REGISTER_BITS = 4", f"REGISTER_BITS = {_REGISTER}"),
            Change("etalstm_hw.contract.fields", "TARGET_BITS = 20", f"TARGET_BITS = {_TARGET}"),
            Change("etalstm_hw.contract.fields", "WAIT_BITS = 8", f"WAIT_BITS = {_WAIT}"),
        ),
        mutants=(
            _mutant("free.eq(~self.o.valid | self.o.ready)", "free.eq(1)"),
            _mutant("(opcode == Opcode.HALT) & ~self.o.valid)", "(opcode == Opcode.HALT))"),
            _mutant("Mux(valid & ~self.o.valid, checked.verdict", "Mux(valid, checked.verdict"),
            _mutant("good = valid & (checked.verdict == Status.IDLE)", "good = valid"),
            _mutant("leaves.eq(~more)", "leaves.eq(1)"),
            _mutant("_pairs(self.i.p.word)[_PAIR_BITS:].any()", "_pairs(self.i.p.word)[2 * _PAIR_BITS :].any()"),
            _mutant("more.eq(following[_PAIR_BITS:].any())", "more.eq(following.any())"),
            _mutant("Mux(header.opcode == Opcode.ADVANCE, Cat(pair.register0, pair.amount0), own)", "own"),
            _mutant("term.eq(following)]", "term.eq(pairs)]"),
            _mutant("Mux(addressed, total, ", "Mux(1, total, "),
            _mutant("for n, register in enumerate(registers, 1)", "for n, register in enumerate(registers)"),
            _mutant("wait.wanted.eq(distance != 0)", "wait.wanted.eq(distance[0])"),
            _mutant("number.eq(number + own.any())", "number.eq(number + 1)"),
            _mutant('init=1, name=f"{name}_number"', 'init=0, name=f"{name}_number"'),
            _mutant("(fields[n] != 0 for n in _ZEROS", "(fields[n] != 0 for n in {}"),
            _mutant('Opcode.MAC: ("tiles",),', 'Opcode.MAC: ("weights",),'),
            _mutant("m.d.comb += verdict.eq(self.i.p.verdict)", "pass"),
            _mutant("number.eq(checked.number)", "number.eq(self.i.p.number)"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
