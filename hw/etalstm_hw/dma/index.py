"""The index beat of a compressed stream: its words, and the check among them."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Const, Value
from amaranth.lib import data

from etalstm_hw.contract import INDEX_CHECK, STREAM_INDEX


class Index(data.StructLayout):
    """An index beat as it was read: its words, and whether it came with an error."""

    def __init__(self, word_bits: int):
        super().__init__({name: word_bits for name in STREAM_INDEX} | {"error": 1})


def index_check(word_bits: int, **values: Value) -> Value:
    """Give the check of an index of words of so many bits; `values` are those that INDEX_CHECK names."""
    words = {name: Cat(value, Const(0, word_bits))[:word_bits] for name, value in values.items()}
    return reduce(xor, (words[name].rotate_left(turn) for name, turn in INDEX_CHECK.items()))
