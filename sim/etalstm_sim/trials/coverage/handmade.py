"""A short program with every kind of instruction."""

from etalstm_hw.config import Config
from etalstm_hw.contract import (
    ADDRESS_BITS,
    ADDRESS_REGISTERS,
    COMMON_OPS,
    ENGINE_OF,
    LOOP_DEPTH,
    MOST_GATES,
    OWN_WINDOW,
    PAGE_BYTES,
    PARAMETER_ONE,
    PARAMETER_THRESHOLDS,
    Memory,
    Opcode,
    Source,
    Start,
    VectorOp,
    cast_sums,
    encode,
)

# Pages of a channel's window, by their content.
LOADED, STORED, LAST, INDEX, CASTED, MAP, JUNK, LOGS, TRANSPOSED = 0, 8, 9, 10, 12, 16, 20, 21, 24
PAGES = 40
_STORES = {"wait_store": 1}
_ALL = {"wait_load": 1, "wait_mac": 1, "wait_vector": 1} | _STORES
_WAITS = {opcode: _STORES if opcode in (Opcode.CAST, Opcode.SEND) else _ALL for opcode in ENGINE_OF}
_REGISTERS = ((2, 8), (8, 14), (14, ADDRESS_REGISTERS))  # an ADVANCE counts them down, another one up again

Instructions = dict[str, tuple[Opcode, dict[str, int]]]
"""A program by the names of its instructions."""


class Program:
    """The program for a machine.

    Each instruction waits for all before it. So the results depend neither on the memory's pace nor on how PEs are
    given to engines. Only written data are read, except rows of weights that a LOAD_ROWS leaves out.

    Parameters
    ----------
    config : Config
    groups : int
        Of channels.

    Members
    -------
    config : Config
    instructions : Instructions
    """

    def __init__(self, config: Config, groups: int):
        self.config, self._last_channel = config, config.channels // groups - 1
        self._most_sums = min(cast_sums(config.lanes, config.broadcast_words), config.queue_depth)
        self._lanes, self._beats = config.lanes, config.vector_beats
        instructions = self._loops() | self._loads() | self._products() | self._elements() | self._stores()
        instructions |= self._streams() | self._stream_products() | self._rows() | self._squares() | self._end()
        self.instructions = {
            name: (opcode, _WAITS.get(opcode, {}) | fields) for name, (opcode, fields) in instructions.items()
        }

    def words(self, **changes: dict[str, int]) -> list[int]:
        """Encode the program; `changes` are fields with other values, by the names of instructions."""
        return [
            encode(opcode, **(fields | changes.get(name, {}))) for name, (opcode, fields) in self.instructions.items()
        ]

    def page(self, number: int) -> int:
        """Give the beat at which a page of a window begins."""
        return number * PAGE_BYTES // self.config.beat_bytes

    def _loops(self) -> Instructions:
        """Loops inside each other, around an ADVANCE and a LOAD from the register's address."""
        body = 2
        loops = {
            f"loop{depth}": (Opcode.LOOP, {"turns": 1 if depth == 1 else 2, "length": body + LOOP_DEPTH - 1 - depth})
            for depth in range(LOOP_DEPTH)
        }
        load = self._transfer(Opcode.LOAD, LOADED, Memory.SCRATCH, register=1)
        return {
            **loops,
            "advance": self._advance([1], self._beats),
            "load_at_register": load,
            **{f"down_from_{first}": self._advance(range(first, last), -1) for first, last in _REGISTERS},
            **{f"up_from_{first}": self._advance(range(first, last), 1) for first, last in _REGISTERS},
        }

    def _loads(self) -> Instructions:
        return {
            "load": self._transfer(Opcode.LOAD, LOADED, Memory.SCRATCH, 1, 2 * self._lanes),
            "load_weights": self._transfer(Opcode.LOAD, LOADED, Memory.WEIGHTS, MOST_GATES, self._lanes),
            "load_bias": self._transfer(Opcode.LOAD, LOADED, Memory.BIAS, 1, 2),
            "load_of_group": self._transfer(
                Opcode.LOAD, LOADED, Memory.SCRATCH, group=1, group_stride=self._beats, everyone=1
            ),
        }

    def _products(self) -> Instructions:
        """CASTs, each with its MAC; the second one goes on with the sums of the first."""
        return {
            "cast": self._cast(batch=2, start=1),
            "mac": self._mac(start=Start.BIAS),
            "cast_on": self._cast(batch=2, lanes=2, last_lanes=2, batch_outer=1, finish=1),
            "mac_on": self._mac(backward=1),
            "cast_gates": self._cast(gates=MOST_GATES, start=1, finish=1, register=1),
            "mac_gates": self._mac(),
            "cast_narrow": self._cast(blocks=2, tiles_per_channel=2, narrow=1, start=1, finish=1),
            "mac_narrow": self._mac(),
            "cast_three_gates": self._cast(gates=MOST_GATES - 1, start=1, finish=1),
            "mac_three_gates": self._mac(),
            "cast_last_sums": self._cast(batch=2, first_sum=self._most_sums - 3, start=1, finish=1),
            "mac_last_sums": self._mac(),
            "cast_lanes": self._cast(lane=1, lanes=2, last_lanes=2, batch_outer=1, start=1, finish=1),
            "mac_lanes": self._mac(),
            "cast_other_channel": self._cast(channel=self._last_channel, start=1, finish=1),
            "mac_other_channel": self._mac(),
        }

    def _elements(self) -> Instructions:
        """Each operation, with operands from everywhere."""
        loops = {"d": 2 * self._lanes, "inner": 2, "outer": 2, "d_outer": 2, "d_inner": 1, "a_inner": 1, "b_inner": 1}
        constant = {"b_source": Source.PARAMETER, "b": PARAMETER_ONE}
        sources: dict[VectorOp, dict[str, int]] = {
            VectorOp.ADD: {"serial": 1, "d_outer": 0},
            VectorOp.SIGMOID: {"a_source": Source.SUMS},
            VectorOp.TANH: {"a_source": Source.PARAMETER, "a": PARAMETER_ONE},
            VectorOp.SUBTRACT: constant,
            VectorOp.SELECT: constant,
        }
        return {f"vector_{op.name}": (Opcode.VECTOR, loops | {"op": op} | sources.get(op, {})) for op in COMMON_OPS}

    def _stores(self) -> Instructions:
        return {
            "store": self._transfer(Opcode.STORE, STORED, Memory.SCRATCH, 1, 4),
            "store_sums": self._transfer(Opcode.STORE, STORED, Memory.SUMS, register=1, everyone=1),
        }

    def _stream_products(self) -> Instructions:
        return {
            "cast_stream": self._cast(INDEX, batch=2, compressed=1, start=1, finish=1),
            "mac_stream": self._mac(),
        }

    def _streams(self) -> Instructions:
        """Two logs: streams are appended, and read by LOADs."""
        limits = {"start": self.page(LOGS), "end": self.page(LOGS + 1)}
        other = {"start": self.page(LOGS + 1), "end": self.page(LOGS + 2)}
        stream = {"compressed": 1, "threshold": PARAMETER_THRESHOLDS}
        index = {n: {"address": self.page(INDEX) + n} for n in range(3)}

        def compress(number, **fields):
            return self._transfer(Opcode.STORE, INDEX, Memory.SCRATCH, 1, 2, **(stream | index[number] | fields))

        def decompress(number, **fields):
            return self._transfer(Opcode.LOAD, INDEX, Memory.SCRATCH, 1, 2, compressed=1, **(index[number] | fields))

        return {
            "compress": compress(0, first=1, **limits),
            "compress_bf16": compress(1, bf16=1, **limits),
            "compress_other": compress(2, first=1, log=1, **other),
            "decompress": decompress(0),
            "decompress_bf16": decompress(1, bf16=1),
        }

    def _rows(self) -> Instructions:
        rows = {"map": self.page(MAP), "tiles_per_channel": 1, "lanes": self._lanes, "last_lanes": self._lanes}
        lanes = self._lanes
        blocks = rows | {"tiles_per_channel": 2, "last_lanes": lanes - 1}
        return {
            "load_rows": self._transfer(
                Opcode.LOAD_ROWS, LOADED, Memory.WEIGHTS, MOST_GATES * lanes, register=1, **rows
            ),
            "load_rows_of_blocks": self._transfer(
                Opcode.LOAD_ROWS, LOADED, Memory.WEIGHTS, MOST_GATES * (2 * lanes - 1), **blocks
            ),
            "load_single_rows": self._transfer(Opcode.LOAD_ROWS, LOADED, Memory.WEIGHTS, lanes, single=1, **rows),
        }

    def _squares(self) -> Instructions:
        """TRANSPOSEs to the first channel of a group, to its last one, and to the one that executes."""
        square = {"address": self.page(TRANSPOSED), "inner_stride": 1, "rows": self._lanes, "lanes": self._lanes}
        beats = self._lanes * self._beats
        square |= {"lane_beats": self._beats, "channel_beats": beats}
        two = {"outer": 2, "outer_beats": self.config.channels * beats, "target": self._last_channel}
        return {
            "transpose": (Opcode.TRANSPOSE, {"outer": 1, "register": 1, **square}),
            "transpose_two": (Opcode.TRANSPOSE, two | square),
            "transpose_own": (Opcode.TRANSPOSE, {"outer": 1, **square, "target": OWN_WINDOW}),
        }

    def _end(self) -> Instructions:
        """The last two LOADs count as one, as the first has `more`. A wait for a LOAD after them would never end."""
        return {
            "last_vector": (Opcode.VECTOR, {"op": VectorOp.ADD, "outer": 1, "inner": 1}),
            "last_load_part": self._transfer(Opcode.LOAD, LOADED, Memory.SCRATCH, more=1),
            "last_load": self._transfer(Opcode.LOAD, LAST, Memory.SCRATCH, wait_load=0),
            "halt": (Opcode.HALT, {}),
        }

    def _advance(self, registers, amount):
        fields = {f"register{n}": register for n, register in enumerate(registers)}
        return Opcode.ADVANCE, fields | {f"amount{n}": amount % (1 << ADDRESS_BITS) for n in range(len(fields))}

    def _transfer(self, opcode, page, memory, outer=1, inner=1, **fields):
        strides = {"outer_stride": inner, "inner_stride": 1}
        transfer = {"address": self.page(page), "memory": memory, "outer": outer, "inner": inner}
        return opcode, transfer | strides | fields

    def _cast(self, page=CASTED, **fields):
        block = {"blocks": 1, "gates": 1, "batch": 1, "tiles": 1, "tiles_per_channel": 1}
        lanes = {"lanes": self._lanes, "last_lanes": self._lanes}
        return Opcode.CAST, {"address": self.page(page), **block, **lanes} | fields

    def _mac(self, **fields):
        return Opcode.MAC, {"tiles": 1, **fields}
