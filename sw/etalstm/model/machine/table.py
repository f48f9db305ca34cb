"""Programs as tables: the fields that take time, one record an instruction; the blocks of each CAST."""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from etalstm.model.machine.state import BURST_BEATS, names_of, record
from etalstm.plan.memory.tiling import ceil_div
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import ADVANCES, Opcode, Source

INSTRUCTION = record(
    "opcode", "engine", "wait_load", "wait_mac", "wait_vector", "wait_store", "everyone", "address", "kind", "memory",
    "outer", "inner", "more", "compressed", "bf16", "first", "start", "log", "beats", "elements", "kept",
    "stream_start", "stream_beats", "sums", "tiles", "backward", "op", "a_source", "b_source", "serial", "rows",
    "lanes", "lane", "gates", "batch", "batch_outer", "first_sum", "begins", "finish", "blocks", "first_block",
    "given_number", "last_lanes", "tile", "tiles_per_channel", "single", "map", "row_threshold", "register", "turns",
    "length", "pairs", "text", "own", "wide", "repeats", "adds", "stream",
    "lane_bank", "outer_bank", "inner_bank", "b_bank", "b_outer_bank", "b_inner_bank", "b_stays",
    "d_bank", "d_outer_bank", "d_inner_bank",
    registers=ADVANCES, amounts=ADVANCES,
)  # fmt: skip
"""Fields of all opcodes; those of streams hold what was found of the stream. ``text`` is :func:`_texts`.

``stream`` is that of the digits whose sums a VECTOR reads, where products are integers. ``given_number`` is that of a
CAST's or SEND's first block among all blocks, or of a LOAD's or STORE's stream among all streams, in the order in which
the program is executed.

``lane_bank`` is the bank of the scratch memory in which the vectors begin that a LOAD writes, or that a STORE or
TRANSPOSE reads, or operand a of a VECTOR; ``outer_bank`` and ``inner_bank`` are 1 if that stride leads to the other
bank. Those of operand b and of the results follow.
``b_stays`` is 1 if b's inner stride is 0.
"""

BLOCK = record(
    "address", "beats", "elements", "lanes", "occupied", "threshold", "kept", "stream_start", "stream_beats", "upper",
)  # fmt: skip
"""A block of a CAST: of its ``lanes`` the first ``occupied`` of the vector hold elements of the network.

Of a SEND's block those are bytes of a sequence. ``threshold`` is that of lower digits, ``upper`` that of upper ones.
"""

_READ = {"lane_bank": "lane_address", "outer_bank": "outer_stride", "inner_bank": "inner_stride"}
_OPERANDS = {
    "lane_bank": "a", "outer_bank": "a_outer", "inner_bank": "a_inner",
    "b_bank": "b", "b_outer_bank": "b_outer", "b_inner_bank": "b_inner",
    "d_bank": "d", "d_outer_bank": "d_outer", "d_inner_bank": "d_inner",
}  # fmt: skip
_BANKS = {Opcode.LOAD: _READ, Opcode.STORE: _READ, Opcode.TRANSPOSE: _READ, Opcode.VECTOR: _OPERANDS}
"""The addresses and strides, which banks follow from."""

_SAME = frozenset(names_of(INSTRUCTION))
_MODULUS = 1 << contract.ADDRESS_BITS


class Tables(NamedTuple):
    """A program, and what is known of its operands; what was not counted from data is empty, and drawn."""

    table: np.ndarray
    blocks: np.ndarray
    masks: np.ndarray  # of each patch of every block that is broadcast, in order
    firsts: np.ndarray  # int64, (groups, n): where the masks of each block begin
    # First beat and beats of every stream, and where its `counts` begin. int64, (groups, n, 3): of blocks that are
    # broadcast; (channels, n, 3): of LOAD and STORE
    block_streams: np.ndarray
    streams: np.ndarray
    counts: np.ndarray  # int64: of each beat of a codec, how many elements are kept
    rows: np.ndarray  # int64: a bit for each of a lane's rows that is needed, of every lane of the maps of LOAD_ROWS
    # whether a section of the program begins at each instruction, and behind the last; one False: nothing is a boundary
    boundaries: np.ndarray


def tables_of(table: np.ndarray, blocks: np.ndarray) -> Tables:
    """Give a program of which nothing was counted, and that has no boundaries."""
    none, boundaries = np.zeros(0, np.int64), np.zeros(1, np.bool_)
    streams = none.reshape(1, 0, 3)
    return Tables(table, blocks, none.astype(np.uint32), none[None], streams, streams, none, none, boundaries)


def tables(config: Config, words: Iterable[int], operands) -> tuple[np.ndarray, np.ndarray]:
    """Make the tables of a program, instructions and blocks, as it is written: loops are gone through later.

    `operands` are :class:`etalstm.model.operands.Densities`, which know what is not zero.
    """
    words = list(words)
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}  # equal ones are decoded once
    table = np.zeros(len(numbers), INSTRUCTION)
    blocks: list[tuple] = []
    for entry, word in zip(table, numbers, strict=True):
        opcode, fields = contract.decode(word)
        entry["opcode"] = opcode
        for name in _SAME & fields.keys():
            entry[name] = fields[name]
        if opcode in contract.ENGINE_OF:
            entry["engine"] = contract.ENGINE_OF[opcode]
        for name, field in _BANKS.get(opcode, {}).items():
            entry[name] = fields[field] % config.scratch_banks
        if opcode == Opcode.ADVANCE:
            _advance(entry, fields)
        elif opcode in (Opcode.LOAD, Opcode.LOAD_ROWS, Opcode.STORE):
            _transfer(config, entry, opcode, fields, operands)
        elif opcode == Opcode.TRANSPOSE:
            entry["beats"] = ceil_div(fields["rows"], config.beat_words)  # of a lane
        elif opcode == Opcode.SEND:
            entry["everyone"], entry["first_block"] = 1, len(blocks)
            blocks += _blocks(config, as_cast(config, fields), operands.sent_block)
        elif opcode == Opcode.VECTOR:
            if config.integers and fields["a_source"] == Source.SUMS:
                entry["stream"] = fields["a"] // config.queue_depth
            entry["b_stays"] = fields["b_inner"] == 0
        elif opcode == Opcode.CAST:
            entry["everyone"], entry["begins"], entry["first_block"] = 1, fields["start"], len(blocks)
            blocks += _blocks(config, fields, operands.block)
    of_blocks = np.array(blocks or [(0,) * len(names_of(BLOCK))], BLOCK)
    table["text"] = _texts(table, of_blocks)
    return table[[numbers[word] for word in words]], of_blocks


def _texts(table: np.ndarray, blocks: np.ndarray) -> list[int]:
    """Give numbers that instructions share which take the same time in the same state of the machine.

    Of addresses only the address within a burst takes part. Which turn of a loop it is does not show in its LOOP.
    """
    same = table.copy()
    same["address"] %= BURST_BEATS
    same["map"] %= BURST_BEATS
    same["amounts"] %= BURST_BEATS
    same["first_block"] = same["turns"] = same["length"] = 0
    firsts, counts = table["first_block"].tolist(), table["blocks"].tolist()
    of_casts = (blocks[first : first + count].tobytes() for first, count in zip(firsts, counts, strict=True))
    texts = (entry.tobytes() + of_cast for entry, of_cast in zip(same, of_casts, strict=True))
    return [int.from_bytes(blake2b(text, digest_size=7).digest(), "little") for text in texts]


def _advance(entry, fields) -> None:
    """Note what an ADVANCE adds to which register; it takes a cycle for each pair up to the last that is not 0."""
    pairs = [(fields[f"register{n}"], fields[f"amount{n}"]) for n in range(ADVANCES)]
    entry["pairs"] = max([n + 1 for n, pair in enumerate(pairs) if any(pair)], default=1)
    for n, (register, amount) in enumerate(pairs):
        entry["registers"][n] = register
        entry["amounts"][n] = amount - _MODULUS if amount >= _MODULUS // 2 else amount


def _transfer(config: Config, entry, opcode: Opcode, fields, operands) -> None:
    """Note the size of a transfer, and of the stream that it is."""
    vectors = fields["outer"] * fields["inner"]
    entry["beats"], entry["elements"] = vectors * config.vector_beats, vectors * config.lanes
    if opcode == Opcode.LOAD_ROWS:
        entry["row_threshold"] = operands.row_threshold(fields)
    elif fields["compressed"]:
        entry["kept"], entry["stream_start"], entry["stream_beats"] = operands.stream(fields, vectors * config.lanes)


def _blocks(config: Config, cast: dict, of_block: Callable[[dict, int, int], tuple]):
    """Give the blocks of a CAST as tuples in the order of BLOCK; addresses count from the CAST's.

    `of_block` knows what is not zero.
    """
    vectors = cast["gates"] * cast["batch"]
    step = config.vector_beats * (1 if cast["compressed"] else vectors)
    for channel, tile, lanes in blocks_of_cast(cast):
        sizes = tile * step, vectors * config.vector_beats, vectors * config.lanes, lanes
        yield *sizes, *of_block(cast, channel, tile)


def as_cast(config: Config, send: dict) -> dict:
    """Give a SEND as a CAST that reads the same blocks: the planes of digits are its gates."""
    whole = {"lanes": config.lanes, "last_lanes": config.lanes, "compressed": 0}
    return send | whole | {"gates": 1 + send["wide"]}


def blocks_of_cast(cast: dict) -> Iterator[tuple[int, int, int]]:
    """Go through the blocks of a CAST: channel, tile, lanes."""
    channel, tile = cast["channel"], cast["tile"]
    for _ in range(cast["blocks"]):
        last = tile == cast["tiles_per_channel"] - 1
        yield channel, tile, cast["last_lanes" if last else "lanes"]
        channel, tile = channel + last, 0 if last else tile + 1
