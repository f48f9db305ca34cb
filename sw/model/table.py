"""Programs as tables: the fields that take time, one record an instruction; the blocks of each CAST."""

from collections.abc import Iterable

import numpy as np

from etalstm.hw import contract
from etalstm.hw.config import Config
from etalstm.hw.contract import Opcode
from etalstm.model.state import record

INSTRUCTION = record(
    "opcode", "engine", "wait_load", "wait_mac", "wait_vector", "wait_store", "everyone", "address", "kind", "memory",
    "outer", "inner", "more", "compressed", "bf16", "first", "start", "log", "beats", "elements", "kept",
    "stream_start", "stream_beats", "queue", "tiles", "backward", "op", "a_source", "b_source", "serial", "rows",
    "lanes", "lane", "gates", "batch", "batch_outer", "begins", "finish", "blocks", "first_block",
)  # fmt: skip
"""Fields of all opcodes; those of streams hold what was found of the stream."""

BLOCK = record(
    "cast", "kind", "address", "beats", "elements", "lanes", "occupied", "threshold", "masks", "kept", "stream_start",
    "stream_beats",
)  # fmt: skip
"""A block of a CAST: of its ``lanes`` the first ``occupied`` of the vector hold elements of the network."""

_SAME = frozenset(INSTRUCTION.names)


def instruction_rows(config: Config, program: Iterable[tuple[Opcode, dict]], operands) -> tuple[np.ndarray, np.ndarray]:
    """Make the tables of a program.

    Parameters
    ----------
    config : Config
    program : iterable of (Opcode, fields)
        Decoded, with absolute waits.
    operands : Operands
        Knows what is not zero.

    Returns
    -------
    instructions, blocks : arrays of INSTRUCTION and BLOCK
    """
    program = list(program)
    table = np.zeros(len(program), INSTRUCTION)
    blocks = []
    for number, (opcode, fields) in enumerate(program):
        row = table[number]
        row["opcode"] = opcode
        for name, value in fields.items():
            if name in _SAME:
                row[name] = value
        if opcode == Opcode.HALT:
            continue
        row["engine"] = contract.ENGINE_OF[opcode]
        if opcode in (Opcode.LOAD, Opcode.STORE):
            vectors = fields["outer"] * fields["inner"]
            row["beats"], row["elements"] = vectors * config.vector_beats, vectors * config.lanes
            if fields["compressed"]:
                stream = operands.stream(opcode, fields, vectors * config.lanes)
                row["stream_start"], row["stream_beats"], row["kept"] = stream
        elif opcode == Opcode.CAST:
            row["everyone"], row["begins"], row["first_block"] = 1, fields["start"], len(blocks)
            blocks += _blocks(config, number, fields, operands)
    return table, np.array(blocks, BLOCK) if blocks else np.zeros(1, BLOCK)


def _blocks(config: Config, number: int, cast: dict, operands):
    """Give the blocks of a CAST as tuples in the order of BLOCK."""
    vectors = cast["gates"] * cast["batch"]
    channel, tile = cast["channel"], cast["tile"]
    for _ in range(cast["blocks"]):
        last = tile == cast["tiles_per_channel"] - 1
        step = config.vector_beats * (1 if cast["compressed"] else vectors)
        lanes = cast["last_lanes" if last else "lanes"]
        address = cast["address"] + tile * step
        real, threshold, masks, kept, start, beats = operands.block(cast, channel, tile, address, lanes)
        yield (
            number, cast["kind"], address, vectors * config.vector_beats, vectors * config.lanes, lanes, real,
            threshold, masks, kept, start, beats,
        )  # fmt: skip
        channel, tile = channel + last, 0 if last else tile + 1
