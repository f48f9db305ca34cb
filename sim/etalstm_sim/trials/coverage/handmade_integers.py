"""The short program with every kind of instruction, of a machine whose products are integers."""

from etalstm_hw.config import Config
from etalstm_hw.contract import (
    COMMON_OPS,
    OF_BYTES,
    OPS_OF_INTEGERS,
    PARAMETER_ONE,
    PARAMETER_ZERO,
    Memory,
    Opcode,
    Source,
    VectorOp,
)
from etalstm_hw.contract.integers import DELTA_BITS, WORD_BYTES
from etalstm_sim.trials.coverage.handmade import CASTED, LOADED, STORED, Instructions, Program

_FULL_BLOCKS = 4  # blocks of the largest array, in which each stream has as many sequences as there are sums for
_BITS = dict.fromkeys((VectorOp.LOWER_DIGITS, VectorOp.UPPER_DIGITS), DELTA_BITS[-1])  # others: the fewest


class IntegerProgram(Program):
    """The program for such a machine: SENDs and PRODUCTs, and every operation on integers."""

    def __init__(self, config: Config, groups: int):
        self._elements_of_block = WORD_BYTES * config.lanes
        self._last_rows = config.weight_depth - self._elements_of_block * config.row_vectors
        super().__init__(config, groups)

    def _loads(self) -> Instructions:
        """Weights for the largest array, and those of the last rows."""
        config, block = self.config, self._elements_of_block * self.config.row_vectors
        group = {"group": 1, "group_stride": self._beats, "everyone": 1}
        return {
            "load": self._transfer(Opcode.LOAD, LOADED, Memory.SCRATCH, 1, 2 * config.lanes),
            "load_weights": self._transfer(Opcode.LOAD, LOADED, Memory.WEIGHTS, _FULL_BLOCKS, block),
            "load_last_weights": self._transfer(
                Opcode.LOAD, LOADED, Memory.WEIGHTS, 1, block, lane_address=self._last_rows
            ),
            "load_of_group": self._transfer(Opcode.LOAD, LOADED, Memory.SCRATCH, **group),
        }

    def _products(self) -> Instructions:
        """SENDs, each with its PRODUCT. The largest array comes first: it has all sums."""
        config, rows = self.config, self._elements_of_block
        most, last_sums = config.queue_depth // config.tile_sums, config.queue_depth - config.tile_sums
        twice = {"repeats": 2, "batch": 1}
        return {
            "send_full": self._send(blocks=_FULL_BLOCKS, batch=most * config.integer_streams),
            "product_full": self._product(),
            "send": self._send(batch=2, register=1),
            "product": self._product(adds=1),
            "send_wide": self._send(blocks=2, tiles_per_channel=2, wide=1, own=2, **twice),
            "product_wide": self._product(rows=2 * rows, adds=1, backward=1),
            "send_again": self._send(**twice),
            "product_again": self._product(sums=config.tile_sums),
            "send_later_tile": self._send(tile=1, tiles_per_channel=2),
            "product_later_tile": self._product(weights=self._last_rows, sums=last_sums, adds=1),
            "send_other_channel": self._send(channel=self._last_channel),
            "product_other_channel": self._product(adds=1),
        }

    def _elements(self) -> Instructions:
        """Each operation, with operands from everywhere. The last one brings sums, whose bits are stored."""
        loops = {"d": 2 * self._lanes, "inner": 2, "outer": 2, "d_outer": 2, "d_inner": 1, "a_inner": 1, "b_inner": 1}
        places = {"b_source": Source.PARAMETER, "b": PARAMETER_ZERO}
        sums = {"a_source": Source.SUMS, "a_outer": 2} | places
        more: dict[VectorOp, dict[str, int]] = {
            VectorOp.ADD: {"serial": 1, "d_outer": 0},
            VectorOp.TANH: {"a_source": Source.PARAMETER, "a": PARAMETER_ONE},
            VectorOp.SUBTRACT: {"b_source": Source.PARAMETER, "b": PARAMETER_ONE},
            VectorOp.QUANTISE: places,
            VectorOp.SCALE: places,
            VectorOp.ADD_INTEGERS: {"a_source": Source.SUMS},
        }
        more |= {op: {"d_inner": 0, "d_outer": 1} | places for op in OF_BYTES}
        more[VectorOp.BYTES]["inner"] = WORD_BYTES
        found = {
            f"vector_{op.name}": (
                Opcode.VECTOR,
                loops | {"op": op, "bits": _BITS.get(op, DELTA_BITS[0])} | more.get(op, {}),
            )
            for op in (*COMMON_OPS, *OPS_OF_INTEGERS)
        }
        convert = loops | {"op": VectorOp.CONVERT} | sums
        if self.config.integer_streams > 1:
            found["vector_later_stream"] = (Opcode.VECTOR, convert | {"a": self.config.queue_depth})
        return found | {"vector_sums": (Opcode.VECTOR, convert)}

    def _stores(self) -> Instructions:
        return {
            "store": self._transfer(Opcode.STORE, STORED, Memory.SCRATCH, 1, 4, lane_address=2 * self._lanes),
            "store_at_register": self._transfer(Opcode.STORE, STORED, Memory.SCRATCH, register=1, everyone=1),
        }

    def _stream_products(self) -> Instructions:
        return {}  # a SEND reads no streams

    def _send(self, page=CASTED, batch=1, **fields):
        own = self.config.of_stream(batch)
        counts = {"blocks": 1, "batch": batch, "own": own, "repeats": 1, "tiles_per_channel": _FULL_BLOCKS}
        return Opcode.SEND, {"address": self.page(page), **counts} | fields

    def _product(self, **fields):
        return Opcode.PRODUCT, fields


def program_of(config: Config, groups: int) -> Program:
    """Give the program for a machine."""
    return (IntegerProgram if config.integers else Program)(config, groups)
