"""A short program with every kind of instruction, and what can be wrong with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from etalstm.hw.config import Config
from etalstm.hw.contract import (
    ADDRESS_BITS,
    ADDRESS_REGISTERS,
    ENGINE_OF,
    LOOP_DEPTH,
    MOST_GATES,
    PAGE_BYTES,
    PARAMETER_ONE,
    PARAMETER_THRESHOLDS,
    Memory,
    Opcode,
    Source,
    Start,
    Status,
    VectorOp,
    cast_sums,
    encode,
    layout,
)
from etalstm.sim.simulation import Fault

# Pages of a channel's window, by what lies there.
LOADED, STORED, LAST, INDEX, CASTED, MAP, JUNK, LOGS, TRANSPOSED = 0, 4, 5, 6, 8, 12, 16, 17, 20
PAGES = 36
UNKNOWN_OPCODE = 15
_STORES = {"wait_store": 1}
_ALL = {"wait_load": 1, "wait_mac": 1, "wait_vector": 1} | _STORES
_WAITS = {opcode: _STORES if opcode == Opcode.CAST else _ALL for opcode in ENGINE_OF}
_REGISTERS = ((2, 8), (8, 14), (14, ADDRESS_REGISTERS))  # those that an ADVANCE counts down, and another one up again
_MOST_ROUNDS = 4095  # both counts of a VECTOR: then it takes millions of cycles

Instructions = dict[str, tuple[Opcode, dict[str, int]]]
"""A program by the names of its instructions."""


@dataclass(frozen=True)
class Case:
    """A program, and what happens to it.

    Members
    -------
    name : str
    words : list of int
    status : Status or None
        With which it has to end; None: with any.
    fault : Fault or None
        What a page of the memory answers.
    page : int or None
        Which one, in the first channel's window; None: that of the program.
    """

    name: str
    words: list[int]
    status: Status | None = None
    fault: Fault | None = None
    page: int | None = None


class Program:
    """The program for a machine.

    Each instruction waits for all before it. So the results do not depend on the memory's pace, nor on who may use the
    PEs. Nothing is read that was not written before, but rows of weights that a LOAD_ROWS leaves out.

    Parameters
    ----------
    config : Config
    groups : int
        Of channels.

    Members
    -------
    instructions : Instructions
    """

    def __init__(self, config: Config, groups: int):
        self._config, self._last_target = config, config.channels // groups - 1
        self._most_sums = min(cast_sums(config.lanes, config.broadcast_words), config.queue_depth)
        self._lanes, self._beats = config.lanes, config.vector_beats
        instructions = self._loops() | self._loads() | self._products() | self._elements()
        instructions |= self._streams() | self._rows() | self._squares() | self._end()
        self.instructions = {
            name: (opcode, _WAITS.get(opcode, {}) | fields) for name, (opcode, fields) in instructions.items()
        }

    def words(self, **changes: dict[str, int]) -> list[int]:
        """Encode it; `changes` are fields with other values, by the names of instructions."""
        return [
            encode(opcode, **(fields | changes.get(name, {}))) for name, (opcode, fields) in self.instructions.items()
        ]

    def cases(self) -> Iterator[Case]:
        """Give the program as it is, and with everything that ends a program, at each instruction that can cause it."""
        yield Case("whole", self.words(), Status.DONE)
        for status, changes in self._wrong_fields().items():
            for name, fields in changes.items():
                yield Case(f"{status.name} of {name}", self.words(**{name: fields}), status)
        for status, pages in _FAULTY_PAGES.items():
            for page, fault in product(pages, (Fault.SUBORDINATE_ERROR, Fault.DECODE_ERROR)):
                yield Case(f"{status.name} at page {page}, {fault.name}", self.words(), status, fault, page)
        yield Case("silence", self.words(), Status.STUCK, Fault.NEVER, LAST)
        yield Case("no HALT", self.words()[:-1], Status.TRUNCATED)
        loop = encode(Opcode.LOOP, turns=1, length=1)
        yield Case("HALT in a loop", [*self.words()[:-1], loop, self.words()[-1]], Status.BAD_FIELD)
        yield Case("unknown opcode", [*self.words()[:-1], UNKNOWN_OPCODE], Status.BAD_OPCODE)
        yield Case("abort", self.words(last_vector={"outer": _MOST_ROUNDS, "inner": _MOST_ROUNDS}), Status.ABORTED)

    def extremes(self) -> Iterator[list[int]]:
        """Give programs in which one field has all bits set."""
        for name, (opcode, fields) in self.instructions.items():
            for field, (_, width) in layout(opcode).items():
                if field != "opcode" and fields.get(field) != (1 << width) - 1:
                    yield self.words(**{name: {field: (1 << width) - 1}})

    def transfers(self) -> Iterator[list[int]]:
        """Give programs of one instruction that reads or writes the memory."""
        for name in ("load", "store", "transpose", "cast", "load_rows"):
            opcode, fields = self.instructions[name]
            yield [encode(opcode, **fields), encode(Opcode.HALT)]

    def _page(self, number: int) -> int:
        return number * PAGE_BYTES // self._config.beat_bytes

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
            "cast_last_sums": self._cast(batch=2, first_sum=self._most_sums - 2, start=1, finish=1),
            "mac_last_sums": self._mac(),
        }

    def _elements(self) -> Instructions:
        """Each operation, with operands from everywhere."""
        to = {"d": 2 * self._lanes, "inner": 2, "outer": 2, "d_outer": 2, "d_inner": 1, "a_inner": 1, "b_inner": 1}
        constant = {"b_source": Source.PARAMETER, "b": PARAMETER_ONE}
        sources = {
            VectorOp.ADD: {"serial": 1, "d_outer": 0},
            VectorOp.SIGMOID: {"a_source": Source.QUEUE},
            VectorOp.TANH: {"a_source": Source.PARAMETER, "a": PARAMETER_ONE},
            VectorOp.SUBTRACT: constant,
            VectorOp.SELECT: constant,
        }
        return {f"vector_{op.name}": (Opcode.VECTOR, to | {"op": op} | sources.get(op, {})) for op in VectorOp}

    def _streams(self) -> Instructions:
        """Two logs: streams are appended, and read by LOADs and a CAST."""
        limits = {"start": self._page(LOGS), "end": self._page(LOGS + 1)}
        other = {"start": self._page(LOGS + 1), "end": self._page(LOGS + 2)}
        kept = {"compressed": 1, "threshold": PARAMETER_THRESHOLDS}
        index = {n: {"address": self._page(INDEX) + n} for n in range(3)}

        def compress(number, **fields):
            return self._transfer(Opcode.STORE, INDEX, Memory.SCRATCH, 1, 2, **(kept | index[number] | fields))

        def decompress(number, **fields):
            return self._transfer(Opcode.LOAD, INDEX, Memory.SCRATCH, 1, 2, compressed=1, **(index[number] | fields))

        return {
            "store": self._transfer(Opcode.STORE, STORED, Memory.SCRATCH, 1, 4),
            "store_sums": self._transfer(Opcode.STORE, STORED, Memory.QUEUE, register=1, everyone=1),
            "compress": compress(0, first=1, **limits),
            "compress_bf16": compress(1, bf16=1, **limits),
            "compress_other": compress(2, first=1, log=1, **other),
            "decompress": decompress(0),
            "decompress_bf16": decompress(1, bf16=1),
            "cast_stream": self._cast(INDEX, batch=2, compressed=1, start=1, finish=1),
            "mac_stream": self._mac(),
        }

    def _rows(self) -> Instructions:
        rows = {"map": self._page(MAP), "tiles_per_channel": 1, "lanes": self._lanes, "last_lanes": self._lanes}
        lanes = self._lanes
        return {
            "load_rows": self._transfer(
                Opcode.LOAD_ROWS, LOADED, Memory.WEIGHTS, MOST_GATES * lanes, register=1, **rows
            ),
            "load_single_rows": self._transfer(Opcode.LOAD_ROWS, LOADED, Memory.WEIGHTS, lanes, single=1, **rows),
        }

    def _squares(self) -> Instructions:
        """TRANSPOSEs to the first channel of a group, and to its last one."""
        square = {"address": self._page(TRANSPOSED), "inner_stride": 1, "rows": self._lanes, "lanes": self._lanes}
        beats = self._lanes * self._beats
        square |= {"lane_beats": self._beats, "channel_beats": beats}
        two = {"outer": 2, "outer_beats": self._config.channels * beats, "target": self._last_target}
        return {
            "transpose": (Opcode.TRANSPOSE, {"outer": 1, "register": 1, **square}),
            "transpose_two": (Opcode.TRANSPOSE, two | square),
        }

    def _end(self) -> Instructions:
        """The last LOAD has two parts, which are counted once. After them a wait for a LOAD would never be met."""
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
        where = {"address": self._page(page), "memory": memory, "outer": outer, "inner": inner}
        return opcode, where | strides | fields

    def _cast(self, page=CASTED, **fields):
        block = {"blocks": 1, "gates": 1, "batch": 1, "tiles": 1, "tiles_per_channel": 1}
        lanes = {"lanes": self._lanes, "last_lanes": self._lanes}
        return Opcode.CAST, {"address": self._page(page), **block, **lanes} | fields

    def _mac(self, **fields):
        return Opcode.MAC, {"tiles": 1, **fields}

    def _wrong_fields(self) -> dict[Status, dict[str, dict[str, int]]]:
        """Give a wrong field of an instruction of each opcode, by the status that it causes."""
        address = (1 << layout(Opcode.LOAD)["address"][1]) - 1
        lane_address = (1 << layout(Opcode.MAC)["weights"][1]) - 1
        return {
            Status.BAD_FIELD: {
                "load": {"outer": 0},
                "mac": {"tiles": 2},
                "vector_ADD": {"op": len(VectorOp)},
                "store": {"inner": 0},
                "transpose": {"rows": 0},
                "cast": {"gates": MOST_GATES + 1},
                "load_rows": {"last_lanes": self._lanes + 1},
                "loop3": {"turns": 0},
            },
            Status.BAD_ADDRESS: {
                "load": {"address": address},
                "mac": {"weights": lane_address},
                "vector_ADD": {"d": lane_address},
                "store": {"address": address},
                "transpose": {"target": self._config.channels},
                "cast": {"address": address},
                "load_rows": {"map": address},
            },
            Status.OVERFLOW: {"compress": {"end": self._page(LOGS)}},
            Status.BAD_STREAM: {
                "decompress": {"address": self._page(JUNK)},
                "cast_stream": {"address": self._page(JUNK)},
            },
        }


_FAULTY_PAGES = {
    Status.READ_ERROR: (None, LOADED, CASTED, MAP),  # of the program, LOAD, CAST, LOAD_ROWS
    Status.WRITE_ERROR: (STORED, TRANSPOSED),
}
