"""Checks of machines whose products are integers: what their units compute, and sums of digits that are sent."""

import numpy as np

from etalstm.device.selftest.bench import KIND, Bench, Outcome, mismatches, transfer
from etalstm.network.arithmetic import exponent_of, quantise, scaled, split
from etalstm_hw.contract import OF_BYTES, PARAMETER_DELTA_THRESHOLD, Memory, Opcode, Source, VectorOp
from etalstm_hw.contract.integers import DELTA_BITS, WORD_BYTES, largest_mantissa

_BITS = (8, 12, 15)
_THRESHOLD = np.float32(0.5)  # of digits


def conversions(bench: Bench) -> Outcome:
    """Convert, quantise and pack words of every kind in all lanes."""
    config, generator = bench.config, np.random.default_rng(12)
    shape = config.channels, 2, config.lanes
    values = (generator.standard_normal(shape) * np.exp2(generator.integers(-12, 12, shape))).astype(np.float32)
    words = values.view(np.uint32)
    exponents = generator.integers(-8, 8, shape, np.int32).view(np.uint32)
    expected = _expected(words[:, :1], words[:, 1:], exponents[:, :1], exponents[:, 1:])
    bench.write(0, np.concatenate([words, exponents], axis=1))
    bench.accelerator.set_parameter(PARAMETER_DELTA_THRESHOLD, _THRESHOLD)

    def emit(program):
        transfer(program, bench, Opcode.LOAD, Memory.SCRATCH, 0, 4, writes=["words"])
        for op in _NOTED:  # of what was before
            _emit(program, op, (0, 0, 0), 4)
        for n, (op, operands) in enumerate(_OPERATIONS, 4):
            _emit(program, op, operands, n)
        end = 4 + len(_OPERATIONS)
        transfer(program, bench, Opcode.STORE, Memory.SCRATCH, 4, len(_OPERATIONS), source=4, reads=range(4, end))

    bench.run(emit)
    got = bench.read(4, len(_OPERATIONS))
    outcome = Outcome("conversions", f"{len(_OPERATIONS)} operations in each of {config.pes} lanes")
    for n, (op, _) in enumerate(_OPERATIONS):
        unit = "unit of integers"
        outcome.findings += mismatches(bench, op.name, expected[n][:, None], got[:, n : n + 1], unit)
    return outcome


_NOTED = VectorOp.NOTED_EXPONENT, VectorOp.NOTED_CLAMPED, VectorOp.NOTED_SUM

# Vectors of a and b: two words, then two exponents; bits.
_OPERATIONS = [
    (VectorOp.CONVERT, (2, 3, 0)),
    *[(VectorOp.QUANTISE, (0, 2, bits)) for bits in _BITS],
    (VectorOp.NOTED_DIGITS, (0, 2, 15)),
    *[(op, (2, 0, 0)) for op in _NOTED],
    (VectorOp.BYTES, (0, 2, 8)),
    (VectorOp.LOWER_DIGITS, (0, 2, 15)),
    (VectorOp.UPPER_DIGITS, (0, 2, 15)),
    (VectorOp.SCALE, (0, 2, 0)),
    (VectorOp.EXPONENT, (0, 0, 0)),
    (VectorOp.LARGEST, (0, 1, 0)),
    (VectorOp.ADD_INTEGERS, (2, 3, 0)),
    (VectorOp.SUBTRACT_INTEGERS, (2, 3, 0)),
    (VectorOp.CONVERT_BYTE, (2, 3, 0)),
]


def _emit(program, op: VectorOp, operands: tuple[int, int, int], d: int) -> None:
    """Append an operation. Those that make bytes make two of them: of both words, with the first exponent."""
    a, b, bits = operands
    program.emit(
        Opcode.VECTOR, reads=["words"], writes=[d], op=op, a=a, b_source=Source.SCRATCH, b=b, d=d, outer=1,
        inner=2 if op in OF_BYTES else 1, a_inner=1, bits=bits,
    )  # fmt: skip


def _expected(a: np.ndarray, b: np.ndarray, n: np.ndarray, m: np.ndarray) -> list[np.ndarray]:
    """Give what the operations make of words a and b and integers n and m, uint32 (channels, lanes) each."""
    x, y = (words[:, 0].view(np.float32) for words in (a, b))
    first, second = (words[:, 0].view(np.int32) for words in (n, m))
    quantised = {bits: _quantised(x, first, bits) for bits in _BITS}
    bytes_of = [_quantised(values, first, 8)[0] for values in (x, y)]
    not_below = [np.where(np.abs(values) < _THRESHOLD, np.float32(0), values) for values in (x, y)]
    noted = [_quantised(values, first, 15) for values in (x, y)]
    powers = [exponent_of(np.abs(values)) + first for values in (x, y)]
    digits = [split(_quantised(values, first, 15)[0].view(np.int32)) for values in not_below]
    return [
        scaled(first.astype(np.int64), second).view(np.uint32),
        *[quantised[bits][0] for bits in _BITS],
        _word([each[1] for each in digits]),
        np.maximum(*powers).astype(np.int32).view(np.uint32),
        np.sum([clamped for _, clamped in noted], axis=0).astype(np.uint32),
        (first + sum(integers.view(np.int32) for integers, _ in noted)).view(np.uint32),
        _word(bytes_of),
        *[_word([each[place] for each in digits]) for place in (1, 0)],
        np.ldexp(x, first).view(np.uint32),
        exponent_of(np.abs(x)).astype(np.int32).view(np.uint32),
        np.maximum(np.abs(x), np.abs(y)).view(np.uint32),
        (first + second).view(np.uint32),
        (first - second).view(np.uint32),
        scaled(first.astype(np.int8), second).view(np.uint32),
    ]


def _word(parts: list[np.ndarray]) -> np.ndarray:
    """Give words of two bytes."""
    low, high = (part.view(np.uint32) & 0xFF for part in parts)
    return low | high << 8


def _quantised(values: np.ndarray, places: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Give integers, and where they are clamped, uint32."""
    numbers = quantise(values, bits - 1 - places, bits)[0].astype(np.int32)
    clamped = np.abs(np.rint(np.ldexp(values.astype(np.float64), places))) > largest_mantissa(bits)
    return numbers.view(np.uint32), clamped.astype(np.uint32)


def products(bench: Bench) -> Outcome:
    """Send arrays of one and of two digits, some twice, and multiply them by rows of weights that fill the memory."""
    config, generator = bench.config, np.random.default_rng(13)
    outcome = Outcome("products of integers", f"sums of {config.macs} weights at a time")
    sequences, tiles = min(3, config.integer_streams * (config.queue_depth // config.tile_sums // 2)), 2
    own = config.of_stream(sequences)
    rows, per_row = config.weight_depth // config.row_vectors // tiles, config.row_vectors
    block = WORD_BYTES * config.lanes
    blocks = min(rows // block, config.broadcast_words // config.lanes // (2 * own))
    blocks = 1 << (blocks.bit_length() - 1)  # a power of two, as the transfers want it
    rows, sums = blocks * block, tiles * own * config.tile_sums
    weights = generator.integers(-127, 128, (config.channels, tiles, rows, config.lanes, config.tile_sums))
    for wide in (False, True):
        elements = _elements(generator, (sequences, blocks, WORD_BYTES, config.lanes), wide)
        # [tile][row][vector][lane] of words, the lowest byte first.
        packed = weights.astype(np.int8).reshape(config.channels, -1, config.lanes, per_row, WORD_BYTES)
        words = _words(packed.swapaxes(2, 3)).reshape(config.channels, -1, config.lanes)
        planes = split(elements)[:: 1 if wide else -1][: 1 + wide]
        given = _words(np.stack(planes).transpose(2, 0, 1, 4, 3))  # [block][plane][sequence][lane]
        given = given.reshape(1, -1, config.lanes).repeat(config.channels, 0)
        vectors = words.shape[1]
        bench.write(0, np.concatenate([words, given], axis=1))

        def emit(program, vectors=vectors, wide=wide):
            transfer(program, bench, Opcode.LOAD, Memory.WEIGHTS, 0, vectors, writes=["weights"])
            for adds in (0, 1):
                program.emit(
                    Opcode.SEND, reads=["given"], address=bench.beat(vectors), kind=KIND, tiles_per_channel=blocks,
                    blocks=blocks, batch=sequences, own=own, wide=wide, repeats=tiles,
                )  # fmt: skip
                program.emit(Opcode.PRODUCT, reads=["weights"], writes=["sums"], rows=rows, adds=adds)
            for stream in range(config.integer_streams):
                program.emit(
                    Opcode.VECTOR, reads=["sums"], writes=["words"], op=VectorOp.CONVERT, a_source=Source.SUMS,
                    a=stream * config.queue_depth, b_source=Source.PARAMETER, b=1, d=stream * sums, outer=1,
                    inner=sums, a_inner=1, d_inner=1,
                )  # fmt: skip
            all_sums = config.integer_streams * sums
            transfer(program, bench, Opcode.STORE, Memory.SCRATCH, vectors, all_sums, reads=["words"])

        bench.run(emit)
        flat = elements.reshape(sequences, rows)
        exact = 2 * np.einsum("sk,ctkln->sctnl", flat, weights)
        exact = np.pad(exact, [(0, config.integer_streams * own - sequences), *[(0, 0)] * 4])
        of_streams = exact.reshape(config.integer_streams, own, *exact.shape[1:]).transpose(2, 0, 3, 1, 4, 5)
        exact = of_streams.reshape(config.channels, config.integer_streams * sums, config.lanes)
        name = "products of two digits" if wide else "products of a digit"
        expected = scaled(exact, 0).view(np.uint32)
        unit = "way of digits, weights and sums"
        outcome.findings += mismatches(bench, name, expected, bench.read(vectors, exact.shape[1]), unit)
    return outcome


def _words(of_bytes: np.ndarray) -> np.ndarray:
    """Give words of four bytes each, which the last axis has."""
    return np.ascontiguousarray(of_bytes.astype(np.int8)).view(np.uint32)[..., 0]


def _elements(generator, shape: tuple[int, ...], wide: bool) -> np.ndarray:
    """Draw integers, half of them 0."""
    most = largest_mantissa(DELTA_BITS[-1 if wide else 0])
    return generator.integers(-most, most + 1, shape) * (generator.random(shape) < 0.5)
