"""Checks of machines whose products are integers: what their units compute, and sums of digits that are sent."""

import numpy as np

from etalstm.device.selftest.bench import KIND, Bench, Outcome, mismatches, transfer
from etalstm.network.arithmetic import exponent_of, quantise, scaled
from etalstm_hw.contract import Memory, Opcode, Source, VectorOp
from etalstm_hw.contract.integers import DELTA_BITS, largest_mantissa

_BITS = (8, 12, 15)


def conversions(bench: Bench) -> Outcome:
    """Convert, quantise and pack words of every kind in all lanes."""
    config, generator = bench.config, np.random.default_rng(12)
    shape = config.channels, 2, config.lanes
    values = (generator.standard_normal(shape) * np.exp2(generator.integers(-12, 12, shape))).astype(np.float32)
    words = values.view(np.uint32)
    exponents = generator.integers(-8, 8, shape, np.int32).view(np.uint32)
    expected = _expected(words[:, :1], words[:, 1:], exponents[:, :1], exponents[:, 1:])
    bench.write(0, np.concatenate([words, exponents], axis=1))

    def emit(program):
        transfer(program, bench, Opcode.LOAD, Memory.SCRATCH, 0, 4, writes=["words"])
        for n, (op, (a, b, bits)) in enumerate(_OPERATIONS, 4):
            program.emit(
                Opcode.VECTOR, reads=["words"], writes=[n], op=op, a=a, b_source=Source.SCRATCH, b=b, d=n, outer=1,
                inner=1, bits=bits,
            )  # fmt: skip
        end = 4 + len(_OPERATIONS)
        transfer(program, bench, Opcode.STORE, Memory.SCRATCH, 4, len(_OPERATIONS), source=4, reads=range(4, end))

    bench.run(emit)
    got = bench.read(4, len(_OPERATIONS))
    outcome = Outcome("conversions", f"{len(_OPERATIONS)} operations in each of {config.pes} lanes")
    for n, (op, _) in enumerate(_OPERATIONS):
        unit = "unit of integers"
        outcome.findings += mismatches(bench, op.name, expected[n][:, None], got[:, n : n + 1], unit)
    return outcome


# Vectors of a and b: two words, then two exponents; bits.
_OPERATIONS = [
    (VectorOp.CONVERT, (2, 3, 0)),
    *[(op, (0, 2, bits)) for op in (VectorOp.QUANTISE, VectorOp.SATURATED) for bits in _BITS],
    (VectorOp.SCALE, (0, 2, 0)),
    (VectorOp.EXPONENT, (0, 0, 0)),
    (VectorOp.LARGEST, (0, 1, 0)),
    (VectorOp.INSERT, (2, 3, 0)),
    (VectorOp.ADD_INTEGERS, (2, 3, 0)),
    (VectorOp.SUBTRACT_INTEGERS, (2, 3, 0)),
]


def _expected(a: np.ndarray, b: np.ndarray, n: np.ndarray, m: np.ndarray) -> list[np.ndarray]:
    """Give what the operations make of words a and b and integers n and m, uint32 (channels, lanes) each."""
    x, y = (words[:, 0].view(np.float32) for words in (a, b))
    first, second = (words[:, 0].view(np.int32) for words in (n, m))
    quantised = {bits: _quantised(x, first, bits) for bits in _BITS}
    return [
        scaled(first.astype(np.int64), second).view(np.uint32),
        *[quantised[bits][0] for bits in _BITS],
        *[quantised[bits][1] for bits in _BITS],
        np.ldexp(x, first).view(np.uint32),
        exponent_of(np.abs(x)).astype(np.int32).view(np.uint32),
        np.maximum(np.abs(x), np.abs(y)).view(np.uint32),
        second.view(np.uint32) << 8 | first.view(np.uint32) & 0xFF,
        (first + second).view(np.uint32),
        (first - second).view(np.uint32),
    ]


def _quantised(values: np.ndarray, places: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Give integers, and where they are clamped, uint32."""
    numbers = quantise(values, bits - 1 - places, bits)[0].astype(np.int32)
    clamped = np.abs(np.rint(np.ldexp(values.astype(np.float64), places))) > largest_mantissa(bits)
    return numbers.view(np.uint32), clamped.astype(np.uint32)


def products(bench: Bench) -> Outcome:
    """Send arrays of one and of two digits, some twice, and multiply them by rows of weights that fill the memory."""
    config, generator = bench.config, np.random.default_rng(13)
    outcome = Outcome("products of integers", f"sums of {config.macs} weights at a time")
    sequences, tiles = min(3, config.queue_depth // config.tile_sums // 2 // config.integer_streams), 2
    room = config.summed(sequences)
    rows, per_row = config.weight_depth // config.row_vectors // tiles, config.row_vectors
    blocks = min(rows // config.lanes, config.broadcast_words // config.lanes // (4 * sequences))
    blocks = 1 << (blocks.bit_length() - 1)  # a power of two, as the transfers want it
    rows = blocks * config.lanes
    weights = generator.integers(-127, 128, (config.channels, tiles, rows, config.lanes, config.tile_sums))
    for wide in (False, True):
        elements = _elements(generator, (blocks, sequences, config.lanes), wide)
        # [tile][row][vector][lane] of words, the lowest byte first.
        packed = weights.astype(np.int8).reshape(config.channels, -1, config.lanes, per_row, 4).swapaxes(2, 3)
        words = np.ascontiguousarray(packed).view(np.uint32)[..., 0].reshape(config.channels, -1, config.lanes)
        given = elements.astype(np.int32).view(np.uint32).reshape(1, -1, config.lanes).repeat(config.channels, 0)
        vectors, sums = words.shape[1], tiles * room * config.tile_sums
        bench.write(0, np.concatenate([words, given], axis=1))

        def emit(program, vectors=vectors, wide=wide, sums=sums):
            transfer(program, bench, Opcode.LOAD, Memory.WEIGHTS, 0, vectors, writes=["weights"])
            for adds in (0, 1):
                program.emit(
                    Opcode.SEND, reads=["given"], address=bench.beat(vectors), kind=KIND, tiles_per_channel=blocks,
                    blocks=blocks, gates=1, batch=sequences, wide=wide, repeats=tiles,
                )  # fmt: skip
                program.emit(Opcode.PRODUCT, reads=["weights"], writes=["sums"], rows=rows, adds=adds)
            program.emit(
                Opcode.VECTOR, reads=["sums"], writes=["words"], op=VectorOp.CONVERT, a_source=Source.SUMS,
                b_source=Source.PARAMETER, b=1, outer=1, inner=sums, a_inner=1, d_inner=1,
            )  # fmt: skip
            transfer(program, bench, Opcode.STORE, Memory.SCRATCH, vectors, sums, reads=["words"])

        bench.run(emit)
        flat = elements.swapaxes(0, 1).reshape(sequences, rows)
        exact = 2 * np.einsum("sk,ctkln->ctsnl", flat, weights)
        exact = np.pad(exact, [(0, room - sequences) if axis == 2 else (0, 0) for axis in range(exact.ndim)])
        exact = exact.reshape(config.channels, sums, config.lanes)
        name = "products of two digits" if wide else "products of a digit"
        expected = scaled(exact, 0).view(np.uint32)
        unit = "way of digits, weights and sums"
        outcome.findings += mismatches(bench, name, expected, bench.read(vectors, sums), unit)
    return outcome


def _elements(generator, shape: tuple[int, ...], wide: bool) -> np.ndarray:
    """Draw integers, half of them 0."""
    most = largest_mantissa(DELTA_BITS[-1 if wide else 0])
    return generator.integers(-most, most + 1, shape) * (generator.random(shape) < 0.5)
