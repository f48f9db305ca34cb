"""``eta-lstm model --boards N``: how much faster several boards are than one."""

from etalstm.model.boards import Iteration, Links, iteration
from etalstm.network import NetworkShape


def batch_of_board(batch: int, boards: int) -> int:
    """Give the sequences of the board that has most.

    Raises
    ------
    ValueError
        If there are more boards than sequences.
    """
    if boards > batch:
        raise ValueError(f"boards must be at most the batch, {batch} sequences, got {boards}")
    return -(-batch // boards)


def across(found: dict, part: dict, network: NetworkShape, batch: int, steps: int, boards: int, links: Links) -> dict:
    """Say what several boards make of an iteration: see :mod:`etalstm.model.boards`.

    Parameters
    ----------
    found, part : dict
        What :func:`etalstm.commands.model.measure` gives for the batch, and for a board's part of it.
    network : NetworkShape
    batch, steps : int
    boards : int
    links : Links

    Returns
    -------
    dict
        ``boards``; of a board ``batch_of_board``, ``groups``, ``cycles``; milliseconds of an iteration: ``machine``,
        ``activations``, ``gradients``, and ``milliseconds`` of all; ``speedup`` over one board with the batch; and
        ``speedup_with_batch_each``: in sequences a second, where each board has as many sequences as the one.
    """
    alone, shared = found["milliseconds"] / 1e3, part["milliseconds"] / 1e3
    one = iteration(alone, 1, network, batch, steps, links)
    all_ = iteration(shared, boards, network, batch, steps, links)
    each = iteration(alone, boards, network, boards * batch, steps, links)
    return {
        "boards": boards,
        "batch_of_board": batch_of_board(batch, boards),
        "groups": part["groups"],
        "cycles": part["cycles"],
        **_milliseconds(all_),
        "speedup": one.seconds / all_.seconds,
        "speedup_with_batch_each": boards * one.seconds / each.seconds,
    }


def _milliseconds(found: Iteration) -> dict[str, float]:
    parts = {"machine": found.machine, "activations": found.activations, "gradients": found.gradients}
    return {name: 1e3 * seconds for name, seconds in (parts | {"milliseconds": found.seconds}).items()}


def line_of(found: dict) -> str:
    """Give a line for people."""
    return (
        f"  {found['boards']} boards: {found['milliseconds']:10.1f} ms, of which gradients {found['gradients']:.1f} ms "
        f"and activations {found['activations']:.1f} ms; {found['speedup']:.2f} times as fast as one, "
        f"{found['speedup_with_batch_each']:.2f} times with as large a batch each"
    )
