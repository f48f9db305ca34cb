"""cocotb bench of Channel: random programs against a plain model with the golden arithmetic, bit for bit."""

import os
import random
from collections import Counter

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from etalstm.formats import codec
from etalstm.golden import activation, arithmetic
from etalstm_hw.contract import BINARY32 as FORMAT
from etalstm_hw.contract import (
    COMMON_OPS,
    SHARES,
    SLOTS,
    Cycle,
    Memory,
    Opcode,
    Source,
    Start,
    Status,
    VectorOp,
    encode,
)
from etalstm_hw.stream import CHANNEL_ENGINES, Completed, Group, Scalar, Slots
from etalstm_sim.benches.axi_memory import AxiMemory
from tests.hw.program.dispatched import dispatched, targets
from tests.hw.stimulus import bits, send, words

LANES, UNITS, ADDRESS_BITS, BEAT_WORDS = (
    int(os.environ[name]) for name in ("LANES", "UNITS", "ADDRESS_BITS", "BEAT_WORDS")
)
DEPTHS = {Memory.WEIGHTS: 64, Memory.SCRATCH: 64, Memory.BIAS: 8, Memory.SUMS: 32}
BASE, STRIDE, MEMORY_BYTES = 0x4000, 0x4000, 0x10000
WINDOW = BASE + STRIDE  # channel 1
VECTORS = 256  # of the window that programs use
VECTOR_BEATS = LANES // BEAT_WORDS
MINUS_ZERO = np.uint32([FORMAT.minus_zero])
NO_SHARES = dict.fromkeys(SHARES, 0)


def apply(op, a, b, d, factor):
    """One vector of VECTOR; ADD_SCALED multiplies by `factor`."""
    zero = a & np.uint32(0x7F800000) == 0
    positive = ~zero & (a >> np.uint32(31) == 0)
    return {
        VectorOp.MULTIPLY: lambda: bits(arithmetic.multiply, a, b),
        VectorOp.ADD: lambda: bits(arithmetic.add, a, b),
        VectorOp.SUBTRACT: lambda: bits(arithmetic.add, a, b ^ np.uint32(1 << 31)),
        VectorOp.SIGMOID: lambda: bits(activation.sigmoid, a),
        VectorOp.TANH: lambda: bits(activation.tanh, a),
        VectorOp.SELECT: lambda: np.where(zero, d, bits(arithmetic.add, MINUS_ZERO, b)),
        VectorOp.SELECT_ZERO: lambda: np.where(zero, bits(arithmetic.add, MINUS_ZERO, b), d),
        VectorOp.PACK: lambda: bits(codec.pack_bf16, a, b),
        VectorOp.ADD_POSITIVE: lambda: np.where(positive, bits(arithmetic.add, a, b), d),
        VectorOp.ADD_SCALED: lambda: bits(arithmetic.add, bits(arithmetic.multiply, a, factor), b),
        VectorOp.ADD_SQUARE: lambda: bits(arithmetic.add, bits(arithmetic.multiply, a, a), b),
    }[op]()


class Program:
    """Random instructions, what they do to the memories, and which of them must wait for which.

    Each instruction is executed on the model when it is made. ``last`` holds, for everything that can be read or
    written, the number of the last instruction of each engine that wrote or read it.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.memories = {m: np.zeros((depth, LANES), np.uint32) for m, depth in DEPTHS.items()}
        self.memory = words(self.random, VECTORS * LANES).reshape(VECTORS, LANES)
        self.initial = self.memory.copy()
        self.parameters = [int(w) for w in words(self.random, 8)]
        self.fixed = [0x3F800000, 0, 0x80000000]
        self.instructions, self.scalars, self.counts, self.expected = [], [], Counter(), Counter()
        self.written, self.read = {}, {}

    def add(self, opcode, fields, reads, writes):
        """Append an instruction that waits for all that it depends on."""
        engine = opcode.name.lower()
        waits = Counter()
        conflicts = [self.written.get(place, {}) for place in reads | writes]
        conflicts += [self.read.get(place, {}) for place in writes]
        for conflict in conflicts:
            for other, number in conflict.items():
                if not other == engine == "mac":  # the engine keeps sums apart itself
                    waits[other] = max(waits[other], number)
        self.counts[engine] += 1
        for table, places in ((self.written, writes), (self.read, reads)):
            for place in places:
                table.setdefault(place, {})[engine] = self.counts[engine]
        self.instructions.append(dispatched(opcode, targets(**waits), **{k: int(v) for k, v in fields.items()}))

    def transfer(self, opcode, memory=None, outer=None, inner=None):
        r = self.random
        choices = {Opcode.LOAD: list(Memory)[:3], Opcode.STORE: [Memory.SCRATCH, Memory.SUMS]}[opcode]
        memory = r.choice(choices) if memory is None else memory
        whole = outer is not None
        outer, inner = (outer, inner) if whole else (r.randrange(1, 3), r.randrange(1, 4))
        strides = (inner, 1) if whole else (r.randrange(3), r.randrange(3))
        reach = (outer - 1) * strides[0] + (inner - 1) * strides[1]
        lane_address = 0 if whole else r.randrange(DEPTHS[memory] - reach)
        vector, kind = r.randrange(VECTORS - outer * inner + 1), r.randrange(4)
        addresses = [lane_address + o * strides[0] + i * strides[1] for o in range(outer) for i in range(inner)]
        lane_places = {(memory, address) for address in addresses}
        memory_places = {("memory", vector + n) for n in range(outer * inner)}
        for n, address in enumerate(addresses):
            if opcode == Opcode.LOAD:
                self.memories[memory][address] = self.memory[vector + n]
            else:
                self.memory[vector + n] = self.memories[memory][address]
        self.expected[opcode.name.lower(), kind] += outer * inner * VECTOR_BEATS
        fields = {
            "address": vector * VECTOR_BEATS, "kind": kind, "memory": memory, "lane_address": lane_address,
            "outer": outer, "inner": inner, "outer_stride": strides[0], "inner_stride": strides[1],
        }  # fmt: skip
        places = (memory_places, lane_places) if opcode == Opcode.LOAD else (lane_places, memory_places)
        self.add(opcode, fields, *places)

    def vector(self):
        r = self.random
        op = r.choice(COMMON_OPS)
        constant = Source.SCRATCH if op == VectorOp.ADD_SCALED else Source.PARAMETER
        b_source = r.choice([Source.SCRATCH, Source.SCRATCH, constant])
        a_source = r.choice([Source.SCRATCH, Source.SUMS, Source.SCRATCH, constant])
        fields = {
            "op": op,
            "bits": r.randrange(8),
            "a_source": a_source,
            "b_source": b_source,
            "outer": r.randrange(1, 4),
            "inner": r.randrange(1, 5),
        }
        sources = {"a": a_source, "b": b_source, "d": Source.SCRATCH}
        for name, source in sources.items():
            depth = {Source.SCRATCH: 64, Source.SUMS: 32, Source.PARAMETER: 8}[source]
            steps = [0 if source == Source.PARAMETER else r.randrange(4) for _ in range(2)]
            fields |= {f"{name}_outer": steps[0], f"{name}_inner": steps[1]}
            fields[name] = r.randrange(depth - 3 * steps[1] - 2 * steps[0])
        fields["serial"] = int(fields["inner"] == 1)
        at = [
            {n: fields[n] + o * fields[f"{n}_outer"] + i * fields[f"{n}_inner"] for n in "abd"}
            for o in range(fields["outer"]) for i in range(fields["inner"])
        ]  # fmt: skip
        used = "a" if op in (VectorOp.SIGMOID, VectorOp.TANH) else "ab"
        memory_of = {Source.SCRATCH: Memory.SCRATCH, Source.SUMS: Memory.SUMS}
        reads = {(memory_of[sources[n]], p[n]) for p in at for n in used if sources[n] in memory_of}
        writes = {(Memory.SCRATCH, p["d"]) for p in at}
        if reads & writes and not fields["serial"]:
            return  # what it then reads depends on the pipeline
        scratch = self.memories[Memory.SCRATCH]
        parameters = self.fixed + self.parameters[3:]
        for p in at:
            operands = [
                self.memories[memory_of[sources[n]]][p[n]] if sources[n] in memory_of
                else np.full(LANES, parameters[p[n] % 8], np.uint32)
                for n in "ab"
            ]  # fmt: skip
            factor = np.full(LANES, parameters[fields["bits"]], np.uint32)
            scratch[p["d"]] = apply(op, *operands, scratch[p["d"]], factor)
        kind = "activations" if used == "a" or op == VectorOp.PACK else "elements"
        self.expected[kind] += len(at)
        self.add(Opcode.VECTOR, fields, reads, writes)

    def mac(self):
        r = self.random
        tiles, count = r.randrange(1, 4), r.randrange(1, 12)
        fields = {"weights": r.randrange(20), "sums": r.randrange(16), "bias": r.randrange(4), "tiles": tiles}
        fields["start"], fields["backward"] = r.choice(list(Start)), r.randrange(2)
        reads, writes, narrow = set(), set(), r.randrange(2)
        for n in range(count):
            outer, inner = r.randrange(30), r.randrange(8)
            first, empty, null = (r.random() < chance for chance in (0.2, 0.1, 0.1))
            value = int(words(r, 1)[0])
            self.scalars.append(
                dict(
                    value=value,
                    outer=outer,
                    inner=inner,
                    tiles=tiles,
                    narrow=narrow,
                    begins=first,
                    empty=empty,
                    null=null,
                    last=n == count - 1,
                )
            )
            for tile in range(0 if null else tiles):
                slot, weight, bias = (
                    fields["sums"] + inner + tile,
                    fields["weights"] + outer + (tile // 2 if narrow else tile),
                    fields["bias"] + tile,
                )
                weights = self.memories[Memory.WEIGHTS][weight]
                if narrow:
                    weights = weights & np.uint32(0xFFFF0000) if tile % 2 else weights << np.uint32(16)
                biased = fields["start"] == Start.BIAS and first
                reads |= {(Memory.WEIGHTS, weight)} | ({(Memory.BIAS, bias)} if biased else set())
                writes.add((Memory.SUMS, slot))
                product = bits(arithmetic.multiply, weights, np.uint32([value]))
                sums, start = self.memories[Memory.SUMS], self.memories[Memory.BIAS][bias]
                if empty and first:
                    sums[slot] = bits(arithmetic.flush, start) if biased else 0
                elif empty:
                    sums[slot] = bits(arithmetic.flush, sums[slot])
                elif biased or not first:
                    sums[slot] = bits(arithmetic.add, product, start if biased else sums[slot])
                else:
                    sums[slot] = product
                self.expected["macs"] += 1
        self.add(Opcode.MAC, fields, reads, writes)

    def fill(self, length):
        """Load everything, do anything, store everything."""
        self.transfer(Opcode.LOAD, Memory.WEIGHTS, 8, 8)
        self.transfer(Opcode.LOAD, Memory.SCRATCH, 8, 8)
        self.transfer(Opcode.LOAD, Memory.BIAS, 1, 8)
        message = dict(value=0, outer=0, tiles=1, narrow=0, begins=1, empty=1, null=0)
        messages = [message | dict(inner=slot, last=slot == 31) for slot in range(32)]
        self.scalars += messages
        self.expected["macs"] += 32
        self.add(Opcode.MAC, {"tiles": 1}, set(), {(Memory.SUMS, slot) for slot in range(32)})
        for _ in range(length):
            make = self.random.choice(
                [self.vector, self.vector, self.mac, self.mac, lambda: self.transfer(Opcode.LOAD),
                 lambda: self.transfer(Opcode.STORE)]
            )  # fmt: skip
            make()
        self.transfer(Opcode.STORE, Memory.SCRATCH, 8, 8)
        self.transfer(Opcode.STORE, Memory.SUMS, 4, 8)
        return self


async def begin(dut, stall, program, shares=NO_SHARES):
    """Start the clock, connect a memory, reset, set what stays."""
    dut.slots.value = Slots().const(shares).as_bits()
    cocotb.start_soon(Clock(dut.clk, 4, "ns").start())
    dut.drain.value, dut.i__valid.value, dut.scalars__valid.value, dut.stored_by_all.value = 0, 0, 0, 0
    dut.group.value = Group(ADDRESS_BITS).const({"position": 1, "size": 2, "count": 1}).as_bits()
    dut.windows.value = BASE | STRIDE << ADDRESS_BITS | STRIDE << 2 * ADDRESS_BITS
    dut.parameters.value = sum(word << 32 * n for n, word in enumerate(program.parameters))
    memory = AxiMemory(dut, ["axi"], MEMORY_BYTES, stall=stall)
    memory.bytes[WINDOW : WINDOW + program.initial.nbytes] = program.initial.view(np.uint8).ravel()
    dut.rst.value = 1
    for _ in range(4):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    return memory


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5, 0.9], seed=[1, 2])
async def matches_golden(dut, stall, seed):
    """Memory ends up as the model's, and every cycle is counted as what it was."""
    kinds = Counter(await execute(dut, stall, Program(seed).fill(120)))
    cocotb.log.info("cycles: %s", {kind.name: kinds[kind] for kind in Cycle})
    assert kinds[Cycle.SHARE] == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5, 0.9])
async def matches_golden_with_fixed_shares(dut, stall):
    """The same; each operation takes place in a cycle of its kind, and what waits for one is counted."""
    shares = {"elementwise": 3, "forward": 9, "backward": 17}
    cycles = await execute(dut, stall, Program(3).fill(120), shares)
    used = {kind: {n % SLOTS for n, each in enumerate(cycles) if each == kind} for kind in Cycle}
    macs, elements = len(used[Cycle.MAC]), len(used[Cycle.ELEMENTWISE])
    assert (macs, elements) == (17, 3), f"MACs in {macs} slots, expected 17; elements in {elements}, expected 3"
    assert not used[Cycle.MAC] & used[Cycle.ELEMENTWISE]
    assert cycles.count(Cycle.SHARE) > 100, f"{cycles.count(Cycle.SHARE)} cycles lost to the shares"


async def execute(dut, stall, program, shares=NO_SHARES):
    """Run a program; hold memory and counts to the model; give what each cycle was."""
    memory = await begin(dut, stall, program, shares)
    cocotb.start_soon(send(dut, "i", program.instructions, stall, 1))
    layout = Scalar(FORMAT)
    messages = [layout.const(message).as_bits() for message in program.scalars]
    cocotb.start_soon(send(dut, "scalars", messages, stall, 2))
    cycles, seen, total = [], Counter(), sum(program.counts.values())
    for _ in range(60000):
        await RisingEdge(dut.clk)
        cycles.append(Cycle(int(dut.cycle.value)))
        seen["activations"] += int(dut.activations.value)
        for name in ("load", "store"):
            if getattr(dut, f"{name}_beats").value == 1:
                seen[name, int(getattr(dut, f"{name}_kind").value)] += 1
        completed = Completed().from_bits(int(dut.completed.value))
        counts = {name: completed[name] for name in CHANNEL_ENGINES}
        if not int(dut.busy.value) and sum(counts.values()) == total:
            break
    assert int(dut.status.value) == Status.IDLE
    assert counts == dict(program.counts), f"completed {counts}, expected {dict(program.counts)}"
    actual = memory.bytes[WINDOW:][: VECTORS * LANES * 4].view(np.uint32).reshape(VECTORS, LANES)
    for vector, lane in np.argwhere(actual != program.memory):
        got, expected = actual[vector, lane], program.memory[vector, lane]
        raise AssertionError(f"vector {vector}, lane {lane}: {got:#010x}, expected {expected:#010x}")
    expected = program.expected
    assert cycles.count(Cycle.MAC) == expected.pop("macs")
    assert cycles.count(Cycle.ELEMENTWISE) == expected.pop("elements")
    assert seen["activations"] == expected.pop("activations") * LANES
    del seen["activations"]
    assert seen == expected
    return cycles


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(cycles=[20, 90, 333])
async def stops_when_told(dut, cycles):
    """With ``drain`` nothing new happens, and memory accesses end."""
    program = Program(cycles).fill(30)
    await begin(dut, 0.5, program)
    cocotb.start_soon(send(dut, "i", program.instructions, 0.0, 1))
    messages = [Scalar(FORMAT).const(message).as_bits() for message in program.scalars]
    cocotb.start_soon(send(dut, "scalars", messages, 0.0, 2))
    for _ in range(cycles):
        await RisingEdge(dut.clk)
    dut.drain.value = 1
    for _ in range(500):
        await RisingEdge(dut.clk)
        if dut.dma_busy.value == 0:
            break
    assert dut.dma_busy.value == 0, "memory accesses do not end"
    for _ in range(30):
        await RisingEdge(dut.clk)
    before = int(dut.completed.value)
    for _ in range(30):
        await RisingEdge(dut.clk)
        assert int(dut.cycle.value) not in (Cycle.MAC, Cycle.ELEMENTWISE)
    assert int(dut.completed.value) == before


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def names_the_engine_that_erred(dut):
    """The status stays until reset."""
    wrong = {
        "vector": encode(Opcode.VECTOR, op=max(COMMON_OPS) + 1, outer=1, inner=1),
        "load": encode(Opcode.LOAD, memory=Memory.SUMS, outer=1, inner=1),
        "store": encode(Opcode.STORE, memory=Memory.SCRATCH, lane_address=64, outer=1, inner=1),
        "mac": encode(Opcode.MAC, sums=32, tiles=1),
    }
    statuses = {"store": Status.BAD_ADDRESS, "mac": Status.BAD_ADDRESS}
    program = Program(1)
    await begin(dut, 0.0, program)
    fields = dict(value=1, outer=0, inner=0, tiles=1, narrow=0, begins=0, empty=0, null=0, last=1)
    message = Scalar(FORMAT).const(fields).as_bits()
    for name, instruction in wrong.items():
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        dut.rst.value = 0
        await send(dut, "i", [instruction], 0.0, 1)
        await send(dut, "scalars", [message], 0.0, 1)
        for _ in range(60):
            await RisingEdge(dut.clk)
        status, engine = Status(int(dut.status.value)), int(dut.engine.value)
        assert status == statuses.get(name, Status.BAD_FIELD), f"{name}: {status.name}"
        assert engine == CHANNEL_ENGINES.index(name), f"{name}: engine {engine}"
