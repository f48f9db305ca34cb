"""Pairs small LUTs: each LUT of the part has six inputs, or two outputs of five inputs."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from etalstm_boards.resources.synthesis import Cell

PAIRED_INPUTS = 5
_MOST_TRIED = 64  # of a net with more readers, such as a wide multiplexer's select, only the nearest ones are tried


def pairs(cells: Iterable[Cell]) -> int:
    """Count the pairs of LUTs that fit one LUT of the part.

    Two LUTs are paired if they share an input and have at most five different inputs together. LUTs that feed a carry
    chain stay alone, since the chain takes both outputs. Shift registers of up to 16 bits are paired if their taps are
    the same. The matching is greedy, LUTs that share most inputs first. A vendor's tool finds more pairs: if space is
    short, it also pairs LUTs that share no input.
    """
    cells = list(cells)
    chained = {bit for cell in cells if cell.type == "CARRY4" for port in ("S", "DI") for bit in cell.inputs[port]}
    inputs: list[frozenset[int]] = []
    readers: defaultdict[int, list[int]] = defaultdict(list)
    for cell in cells:
        nets = frozenset(bit for bits in cell.inputs.values() for bit in bits if isinstance(bit, int))
        if cell.type.startswith("LUT") and len(nets) <= PAIRED_INPUTS and not chained & set(cell.outputs["O"]):
            for net in nets:
                readers[net].append(len(inputs))
            inputs.append(nets)
    return _match(inputs, readers) + _shift_registers(cells)


def _match(inputs: list[frozenset], readers: dict[int, list[int]]) -> int:
    """Match greedily: first LUTs that share four inputs or more, at last those that share one."""
    free, found = set(range(len(inputs))), 0
    for least in range(PAIRED_INPUTS - 1, 0, -1):
        for one in sorted(free):
            if one not in free:
                continue
            other = _partner(one, least, inputs, readers, free)
            if other is not None:
                free -= {one, other}
                found += 1
    return found


def _partner(
    one: int, least: int, inputs: list[frozenset], readers: dict[int, list[int]], free: set[int]
) -> int | None:
    for net in sorted(inputs[one], key=lambda net: len(readers[net])):
        tried = 0
        for other in readers[net]:
            if other <= one or other not in free:
                continue
            if len(inputs[one] & inputs[other]) >= least and len(inputs[one] | inputs[other]) <= PAIRED_INPUTS:
                return other
            tried += 1
            if tried == _MOST_TRIED:
                break
    return None


def _shift_registers(cells: Iterable[Cell]) -> int:
    taps: Counter[tuple] = Counter()
    for cell in cells:
        if cell.type == "SRL16E":
            taps[tuple(bit for port, bits in sorted(cell.inputs.items()) if port != "D" for bit in bits)] += 1
    return sum(number // 2 for number in taps.values())
