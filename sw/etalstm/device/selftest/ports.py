"""Checks of the memory as each channel reaches it: whose window, and which bits."""

import numpy as np

from etalstm.device.selftest.bench import KIND, Bench, load, store
from etalstm.device.selftest.finding import Finding, Outcome, describe, patterns, spans
from etalstm_hw.contract import Memory, Opcode

FILL = 0xFFF1F1F1  # what a place holds that nobody has written


def mapping(bench: Bench) -> Outcome:
    """Have every channel copy a block of its own into every channel's window, to a place that is its number's.

    A channel whose port leads elsewhere brings another one's block, or puts it into another one's window.
    """
    config, channels = bench.config, bench.config.channels
    outcome = Outcome("port mapping", f"{channels} channels read and write each other's windows")
    rows = config.beat_words
    first = 2 * rows  # vector where the copies begin
    blocks = np.stack([patterns(1024 + rows * config.lanes, n)[1024:].reshape(rows, -1) for n in range(channels)])
    copies = channels * rows  # a block of lanes beats fills as many vectors as it has rows
    bench.write(0, blocks)
    bench.write(first, np.full((channels, copies, config.lanes), FILL, np.uint32))

    def emit(program):
        load(program, bench, Memory.SCRATCH, 0, rows, writes=["block"])
        for target in range(channels):
            program.emit(
                Opcode.TRANSPOSE, reads=["block"], address=bench.beat(first), kind=KIND, target=target, outer=1,
                inner_stride=1, rows=rows, lanes=config.lanes, lane_beats=1, channel_beats=config.lanes,
            )  # fmt: skip

    bench.run(emit)
    got = bench.read(first, copies).reshape(channels, channels, config.lanes, rows)  # window, channel, lane, row
    expected = blocks.transpose(0, 2, 1)
    for channel in range(channels):
        seen = got[:, channel]
        if (wrong := np.flatnonzero((seen != expected[channel]).any(axis=(1, 2)))).size:
            sources = {n for n in range(channels) for block in seen if (block == expected[n]).all()}
            outcome.findings.append(_explain(bench, channel, sources, wrong))
    return outcome


def _explain(bench: Bench, channel: int, sources: set[int], wrong: np.ndarray) -> Finding:
    """Say whose blocks a channel brought, or into whose windows its own did not come."""
    port = bench.port_of(channel)
    who = f"channel {channel} ({port})"
    if len(sources) == 1 and channel not in sources:
        (source,) = sources
        what = f"{who} works on the memory of channel {source} ({bench.port_of(source)})"
        return Finding(what, "the mapping of the channels' ports on memory ports")
    if channel in sources:
        return Finding(f"{who} does not reach the windows of channels {spans(wrong)}", f"{port}'s address lines")
    return Finding(f"{who} copies what is no channel's block", f"{port}'s data or address lines")


def data(bench: Bench) -> Outcome:
    """Have every channel copy patterns through its whole scratch memory, to another place of its window."""
    config = bench.config
    depth = config.scratch_depth
    outcome = Outcome("port data", f"{depth} vectors through each channel's port and scratch memory, twice")
    words = depth * config.lanes
    for half in range(2):
        sent = np.stack([patterns(words, 100 * half + n) for n in range(config.channels)])
        if half:
            sent = np.roll(sent, words // 2, axis=1)
        bench.write(0, sent)
        bench.write(depth, np.full_like(sent, FILL))

        def emit(program):
            load(program, bench, Memory.SCRATCH, 0, depth, writes=["all"])
            store(program, bench, Memory.SCRATCH, depth, depth, source=0, reads=["all"])

        bench.run(emit)
        got = bench.read(depth, depth).reshape(config.channels, -1)
        for channel in range(config.channels):
            if difference := describe(sent[channel], got[channel], config.beat_words):
                port = bench.port_of(channel)
                suspect = f"a data line of {port}" if "stuck" in difference else f"{port} or that scratch memory"
                outcome.findings.append(Finding(f"channel {channel} ({port}): {difference}", suspect))
        if outcome.findings:
            break
    return outcome
