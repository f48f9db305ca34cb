"""A segment: consecutive cells, in the order of the forward pass, whose intermediates share one memory region.

Without a memory budget all cells are one segment. With a budget that is too small for that there are several segments.
Each has a program of its own for either pass. Two regions take turns: while the cells of a segment run, the other
region's intermediates move. In the forward pass those of the segment before go to the host. In the backward pass those
of the next segment come back.
"""

from dataclasses import dataclass

from etalstm.errors import PlanError

REGIONS = 2


@dataclass(frozen=True)
class Piece:
    """Steps of one layer."""

    layer: int
    steps: range


Segment = tuple[Piece, ...]


def everything(layers: int, steps: int) -> list[Segment]:
    """Put all cells into one segment."""
    return [tuple(Piece(layer, range(steps)) for layer in range(layers))]


def up_to(segment: Segment, steps: int) -> Segment:
    """Leave out the cells of all but the first steps."""
    pieces = (Piece(piece.layer, range(piece.steps.start, min(piece.steps.stop, steps))) for piece in segment)
    return tuple(piece for piece in pieces if piece.steps)


def cut(needs: list[int], steps: int, room: int) -> list[Segment]:
    """Cut the cells of all layers into as few segments as possible.

    Parameters
    ----------
    needs : list of int
        Vectors that a cell of each layer stores, above 0.
    steps : int
        Cells of a layer.
    room : int
        Vectors that a segment may store.

    Raises
    ------
    PlanError
        If a segment has no room for one cell.
    """
    if max(needs) > room:
        raise PlanError(f"a segment has room for {room} vectors, one cell keeps {max(needs)}")
    segments: list[Segment] = []
    pieces: list[Piece] = []
    kept = 0
    for layer, need in enumerate(needs):
        first = 0
        while first < steps:
            count = min(steps - first, (room - kept) // need)
            if not count:
                segments.append(tuple(pieces))
                pieces, kept = [], 0
                continue
            pieces.append(Piece(layer, range(first, first + count)))
            first, kept = first + count, kept + count * need
    return [*segments, tuple(pieces)]


def divide(needs: list[int], steps: int, count: int) -> list[Segment]:
    """Cut all cells into at most `count` segments, the largest as small as possible."""
    low, high = max(needs), sum(needs) * steps
    while low < high:
        room = (low + high) // 2
        if len(cut(needs, steps, room)) <= count:
            high = room
        else:
            low = room + 1
    return cut(needs, steps, low)
