"""Arrays for sums of tokens: see :mod:`etalstm.plan.passes.token_sums`."""

from dataclasses import dataclass
from functools import partial

from etalstm.plan.memory import layout
from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.operands import Sequence
from etalstm.plan.memory.tiling import BatchTiles, LayerTiling, Share, ceil_div
from etalstm_hw.config import Config


@dataclass(frozen=True)
class TokenArrays:
    """The arrays of a layer whose x are tokens. Each group of channels has tokens of its own.

    Members
    -------
    columns : Share
        How the distinct tokens are divided where they are broadcast: among as few channels as hold a tile each. The
        broadcaster reads whole tiles.
    x : Sequence
        The x of each distinct token, in the place of sequences: one step, (groups, tokens, I). Zeros where there are
        fewer.
    chosen : Sequence
        (T, B, tokens): 1 in the column of the step's token, of the group that has the sequence; 0 at padding.
    sums : Array
        What the bias and x of each token add up to. It lies as rows of weights: [unit group][token][unit tile][gate].
    """

    columns: Share
    x: Sequence
    chosen: Sequence
    sums: Array


def tokens_at_once(config: Config, tiling: LayerTiling) -> int:
    """Give how many tokens' sums are made together: as many as half of the queue and a block of x hold."""
    row_tiles = tiling.gates * max(group.count for group in tiling.unit_groups)
    return min(config.queue_depth // (2 * row_tiles), config.broadcast_words // config.lanes)


def allocate_tokens(
    config: Config, into: MemoryMap, tiling: LayerTiling, batch: BatchTiles, steps: int, tokens: int
) -> TokenArrays:
    """Allocate the arrays for at most so many distinct tokens.

    Parameters
    ----------
    config : Config
        The machine of one group.
    into : MemoryMap
    tiling : LayerTiling
        Of the stage that takes x.
    batch : BatchTiles
        Of a group's part.
    steps, tokens : int
    """
    columns = Share(tokens, min(config.channels, ceil_div(tokens, config.lanes)), config.lanes)
    places = BatchTiles(columns.padded, tokens_at_once(config, tiling))
    index = partial(layout.sequence_index, tiling.inputs, 1, places)
    vectors = places.vectors * tiling.inputs.tiles
    x = into.add_of_groups("token_x", "activations", vectors, index, (columns.padded, tiling.inputs.size))
    index = partial(layout.sequence_index, columns, steps, batch, config.channels)
    vectors, shape = steps * batch.vectors * columns.tiles, (steps, batch.batch, tokens)
    chosen = into.add("chosen_tokens", "activations", vectors, index, shape, batch_axis=1)
    rows = tiling.gates * tiling.units.tiles
    return TokenArrays(
        columns=columns,
        x=Sequence(x, tiling.inputs.tiles, places),
        chosen=Sequence(chosen, columns.tiles, batch),
        sums=into.add_raw("token_sums", "activations", columns.padded * rows),
    )
