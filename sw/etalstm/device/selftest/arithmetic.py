"""Known answers: every arithmetic unit and every lane memory against the golden model, bit for bit."""

import numpy as np

from etalstm.device.selftest.bench import Bench, Finding, Outcome, cast, mismatches, transfer
from etalstm.formats.codec import pack_bf16
from etalstm.golden.activation import sigmoid, tanh
from etalstm.golden.arithmetic import add, multiply
from etalstm_hw import contract
from etalstm_hw.contract import Memory, Opcode, Source, Start, VectorOp

_PARAMETERS = range(contract.PARAMETER_MINUS_ZERO + 1, contract.PARAMETERS)  # those that the host sets
_MOST_TILES = 128  # that a CAST can name, rounded down to a power of two


def vectors(bench: Bench) -> Outcome:
    """Give every PE and activation unit the same kinds of operands: random words, and numbers around 1."""
    config, generator = bench.config, np.random.default_rng(7)
    count = config.scratch_depth // 8
    a, b = (_operands(generator, (config.channels, count, config.lanes)) for _ in range(2))
    expected = {
        VectorOp.MULTIPLY: (multiply(a, b), "multiplier"),
        VectorOp.ADD: (add(a, b), "adder"),
        VectorOp.SUBTRACT: (add(a, -b), "adder"),
        VectorOp.SIGMOID: (sigmoid(a), "activation unit"),
        VectorOp.TANH: (tanh(a), "activation unit"),
        VectorOp.PACK: (pack_bf16(a, b), "activation unit"),
    }
    outcome = Outcome("arithmetic", f"{len(expected)} operations, {count} operand pairs in each of {config.pes} lanes")
    bench.write(0, np.concatenate([a, b], axis=1))

    def emit(program):
        transfer(program, bench, Opcode.LOAD, Memory.SCRATCH, 0, 2 * count, writes=["a", "b"])
        for n, op in enumerate(expected, 2):
            program.emit(
                Opcode.VECTOR, reads=["a", "b"], writes=[op], op=op, a=0, b=count, d=n * count, outer=1, inner=count,
                a_inner=1, b_inner=1, d_inner=1,
            )  # fmt: skip
        results = len(expected) * count
        transfer(program, bench, Opcode.STORE, Memory.SCRATCH, 2 * count, results, source=2 * count, reads=expected)

    bench.run(emit)
    got = bench.read(2 * count, len(expected) * count).reshape(config.channels, len(expected), count, config.lanes)
    unknown = np.False_
    for n, (op, (words, unit)) in enumerate(expected.items()):
        words = words.view(np.uint32)
        # A sum's first operand passes the multiplier: where that is wrong, nothing is known of the adder.
        outcome.findings += mismatches(
            bench, op.name, words, np.where(unknown & (unit == "adder"), words, got[:, n]), unit
        )
        if op == VectorOp.MULTIPLY:
            unknown = (got[:, n] != words).any(axis=1, keepdims=True)
    return outcome


def parameters(bench: Bench) -> Outcome:
    """Add every parameter register to a vector in every channel."""
    config, generator = bench.config, np.random.default_rng(8)
    a = _numbers(generator, (config.channels, 1, config.lanes))
    values = _numbers(generator, len(_PARAMETERS))
    outcome = Outcome("parameters", f"{len(values)} registers as operands")
    for number, value in zip(_PARAMETERS, values, strict=True):
        bench.accelerator.set_parameter(number, value)
    bench.write(0, a)

    def emit(program):
        transfer(program, bench, Opcode.LOAD, Memory.SCRATCH, 0, 1, writes=["a"])
        for n, number in enumerate(_PARAMETERS, 1):
            program.emit(
                Opcode.VECTOR, reads=["a"], writes=[n], op=VectorOp.ADD, a=0, b_source=Source.PARAMETER, b=number, d=n,
                outer=1, inner=1,
            )  # fmt: skip
        transfer(
            program, bench, Opcode.STORE, Memory.SCRATCH, 1, len(values), source=1, reads=range(1, len(values) + 1)
        )

    bench.run(emit)
    expected, got = add(a, values[None, :, None]).view(np.uint32), bench.read(1, len(values))
    for n, number in enumerate(_PARAMETERS):
        suspect = f"parameter register {number}"
        outcome.findings += mismatches(bench, f"parameter {number}", expected[:, n : n + 1], got[:, n : n + 1], suspect)
    return outcome


def sums(bench: Bench) -> Outcome:
    """Sum products of weights with scalars that every broadcaster sends, with as many groups of channels as can be."""
    counts, config = bench.config.group_counts, bench.config
    detail = f"{config.channels * config.lanes} scalars, {config.lanes} products in each of {config.channels} sums, in "
    outcome = Outcome("broadcast and sums", detail + f"{', '.join(map(str, counts))} groups")
    try:
        for count in counts:
            bench.accelerator.set_groups(count)
            outcome.findings += _sums_in_groups(bench, count)
            if outcome.findings:
                break
    finally:
        bench.accelerator.set_groups(1)
    return outcome


def _sums_in_groups(bench: Bench, count: int) -> list[Finding]:
    """Broadcast scalars from each channel's window to all channels of its group."""
    config, generator = bench.config, np.random.default_rng(9)
    channels, lanes, size = config.channels, config.lanes, config.channels // count
    weights = _numbers(generator, (channels, lanes, lanes))  # as many scalars as a vector has
    bias, scalars = (_numbers(generator, (channels, 1, lanes)) for _ in range(2))
    bench.write(0, np.concatenate([weights, bias, scalars], axis=1))

    def emit(program):
        transfer(program, bench, Opcode.LOAD, Memory.WEIGHTS, 0, lanes, writes=["weights"])
        transfer(program, bench, Opcode.LOAD, Memory.BIAS, lanes, 1, writes=["bias"])
        for position in range(size):
            cast(program, bench, lanes + 1, channel=position, lanes=lanes, tiles=1)
            program.emit(
                Opcode.MAC, reads=["weights", "bias"], writes=["sums"], sums=position, tiles=1,
                start=Start.NOTHING if position % 2 else Start.BIAS,
            )  # fmt: skip
        transfer(program, bench, Opcode.STORE, Memory.SUMS, lanes + 2, size, source=0, reads=["sums"])

    bench.run(emit)
    expected = np.empty((channels, size, lanes), np.float32)
    for channel in range(channels):
        first = channel // size * size
        for position in range(size):
            start = None if position % 2 else bias[channel, 0]
            expected[channel, position] = _sum_of_products(start, weights[channel], scalars[first + position, 0])
    got = bench.read(lanes + 2, size)
    different, findings = expected.view(np.uint32) != got, []
    for source in range(channels):
        group, position = divmod(source, size)
        if different[group * size : (group + 1) * size, position].all():
            what = f"scalars from channel {source}'s window give wrong sums in every lane"
            findings.append(Finding(what, f"the port of broadcaster {group}, or the broadcast"))
    unit = "way of sums (weights, partial sums, their adder)"
    return findings or mismatches(bench, "MAC", expected.view(np.uint32), got, unit)


def _sum_of_products(start: np.ndarray | None, weights: np.ndarray, scalars: np.ndarray) -> np.ndarray:
    """Add rows of weights, each times its scalar, in order; without a start, to the first of them."""
    terms = map(multiply, weights, scalars)
    total = next(terms) if start is None else start
    for term in terms:
        total = add(total, term)
    return total


def lane_memories(bench: Bench) -> Outcome:
    """Multiply every word of the weight memories by 1 into partial sums, all of those too."""
    config, generator = bench.config, np.random.default_rng(10)
    depth, tiles = config.weight_depth, min(config.queue_depth, _MOST_TILES)
    weights = _numbers(generator, (config.channels, depth, config.lanes))
    ones = np.ones((config.channels, 1, config.lanes), np.float32)
    outcome = Outcome("lane memories", f"{depth} weights and {config.queue_depth} partial sums of each lane")
    bench.write(0, np.concatenate([weights, ones], axis=1))

    def emit(program):
        transfer(program, bench, Opcode.LOAD, Memory.WEIGHTS, 0, depth, writes=["weights"])
        for first in range(0, depth, tiles):
            sums = first % config.queue_depth
            cast(program, bench, depth, channel=0, lanes=1, tiles=tiles)
            program.emit(
                Opcode.MAC, reads=["weights"], writes=[sums], weights=first, sums=sums, tiles=tiles,
                start=Start.NOTHING,
            )  # fmt: skip
            transfer(program, bench, Opcode.STORE, Memory.SUMS, depth + 1 + first, tiles, source=sums, reads=[sums])

    bench.run(emit)
    got = bench.read(depth + 1, depth)
    outcome.findings += mismatches(bench, "weights", weights.view(np.uint32), got, "weights or partial sums")
    return outcome


def _numbers(generator, shape) -> np.ndarray:
    return generator.standard_normal(shape, np.float32)


def _operands(generator, shape) -> np.ndarray:
    """Mix words of every kind, NaN and subnormals included, with numbers around 1."""
    words = generator.integers(0, 1 << 32, shape, np.uint32).view(np.float32)
    return np.where(generator.random(shape) < 0.5, words, _numbers(generator, shape))
