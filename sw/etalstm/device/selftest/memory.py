"""Checks of what the host reaches itself (identification, registers, interrupt, memory), and of each channel's port."""

import time

import numpy as np

from etalstm.device.selftest.bench import KIND, SOLIDS, Bench, Finding, Outcome, describe, patterns, spans, transfer
from etalstm.device.transport import Transport
from etalstm_hw import contract
from etalstm_hw.contract import Memory, Opcode, Register, Status

BLOCKS = 32  # spread over the memory: one in each pseudo channel of a board with 32
BEAT_WORDS = 16  # 512 bits, the data path from PCIe
_WORD_BYTES = 4
_PATH = "the host path: PCIe, DMA, its bridge to the memory"


def address_lines(bench: Bench) -> Outcome:
    """Write a word of its own at 0 and at every power of two, then read them: a line that does nothing shows two."""
    transport, lines = bench.transport, []
    address = _WORD_BYTES
    while address < transport.memory_bytes:
        lines.append(address)
        address *= 2
    addresses = [0, *lines]
    outcome = Outcome("address lines", f"{len(lines)} lines")
    words = patterns(len(addresses) + 1024, seed=3)[1024:]
    for address, word in zip(addresses, words, strict=True):
        transport.write_memory(address, np.array([word]))
    for address, word in zip(addresses, words, strict=True):
        got = transport.read_memory(address, _WORD_BYTES).view(np.uint32)[0]
        if got != word:
            others = [f"{other:#x}" for other, its in zip(addresses, words, strict=True) if its == got]
            what = f"address {address:#x} reads what was written to {', '.join(others) or 'no address'}"
            outcome.findings.append(Finding(what, _PATH))
    return outcome


def march(bench: Bench, size: int) -> Outcome:
    """March C- over blocks that are spread over the memory, with every background, then random words in all at once.

    An element reads and writes a block at a time, not a word.
    """
    transport = bench.transport
    blocks, block = _blocks(transport, size)
    outcome = Outcome("memory", f"march and random words, {len(blocks)} blocks of {block:,} bytes")

    def expect(address: int, expected: np.ndarray) -> None:
        got = transport.read_memory(address, block).view(np.uint32)
        difference = describe(expected, got, BEAT_WORDS)
        if difference and not outcome.findings:
            outcome.findings.append(Finding(f"{block:,} bytes at {address:#x}: {difference}", _suspect(difference)))

    for solid in SOLIDS[::2]:
        zeros, ones = (np.full(block // _WORD_BYTES, word, np.uint32) for word in (solid, solid ^ 0xFFFFFFFF))
        for address in blocks:
            transport.write_memory(address, zeros)
        for order in (blocks, blocks[::-1]):
            for before, after in ((zeros, ones), (ones, zeros)):
                for address in order:
                    expect(address, before)
                    transport.write_memory(address, after)
        for address in blocks:
            expect(address, zeros)
    randoms = [patterns(block // _WORD_BYTES, seed) for seed in range(len(blocks))]
    for address, words in zip(blocks, randoms, strict=True):
        transport.write_memory(address, words)
    for address, words in zip(blocks, randoms, strict=True):
        expect(address, words)
    return outcome


def bandwidth(bench: Bench, size: int) -> Outcome:
    """Time one write and one read of `size` bytes."""
    data = patterns(size // _WORD_BYTES, seed=5)
    started = time.perf_counter()
    bench.transport.write_memory(0, data)
    written = time.perf_counter()
    got = bench.transport.read_memory(0, data.nbytes).view(np.uint32)
    read = time.perf_counter()
    rates = [data.nbytes / seconds / 1e6 for seconds in (written - started, read - written)]
    outcome = Outcome("bandwidth", f"{data.nbytes:,} bytes, write {rates[0]:,.0f} MB/s, read {rates[1]:,.0f} MB/s")
    if difference := describe(data, got, BEAT_WORDS):
        outcome.findings.append(Finding(difference, _suspect(difference)))
    return outcome


def _blocks(transport: Transport, size: int) -> tuple[list[int], int]:
    """Divide `size` bytes into blocks, the first at the memory's start and the last at its end."""
    block = max(size // BLOCKS, 4096) // 4096 * 4096
    distance = (transport.memory_bytes - block) // (BLOCKS - 1) // 4096 * 4096
    return [n * distance for n in range(BLOCKS - 1)] + [transport.memory_bytes - block], block


def _suspect(difference: str) -> str:
    return f"a data line of {_PATH}" if "stuck" in difference else f"the memory there, or {_PATH}"


EVENT_SECONDS = 5.0
_WALKING = [word for bit in range(32) for word in (1 << bit, 0xFFFFFFFF ^ 1 << bit)]


def identification(bench: Bench) -> Outcome:
    """Say what the machine is; that it is the expected one was checked when it was opened."""
    config, build = bench.config, bench.transport.read_register(Register.BUILD)
    parts = [
        f"{config.channels} channels of {config.lanes} lanes",
        f"contract version {contract.VERSION}",
        f"build {build:#010x}" if build else "simulated",
        bench.transport.condition(),
    ]
    return Outcome("identification", ", ".join(part for part in parts if part))


def registers(bench: Bench) -> Outcome:
    """Walk a one and a zero through every register that keeps what is written, all others holding something else."""
    transport, kept = bench.transport, contract.kept_words()
    outcome = Outcome("registers", f"{len(kept)} registers, {len(_WALKING)} words each")
    for word in _WALKING:
        values = {register: word ^ 0x01000193 * n & 0xFFFFFFFF for n, register in enumerate(kept)}
        for register, value in values.items():
            transport.write_register(register, value)
        for register, value in values.items():
            got = transport.read_register(register)
            if got != value:
                what = f"{kept[register]} reads {got:#010x} after {value:#010x} was written"
                outcome.findings.append(Finding(what, "the AXI4-Lite path from PCIe to the registers"))
                return outcome
    for register in kept:
        transport.write_register(register, 0)
    return outcome


def interrupt(bench: Bench) -> Outcome:
    """Run an empty program and wait for its event, with none left over from before."""
    transport, accelerator = bench.transport, bench.accelerator
    outcome = Outcome("interrupt", "the end of a program is an event")
    transport.wait(0)
    accelerator.start(bench.load(lambda _: None))
    if not transport.wait(EVENT_SECONDS):
        state = "still runs" if transport.read_register(Register.STATUS) == Status.RUNNING else "has ended"
        what = f"no event within {EVENT_SECONDS:g} seconds, the program {state}"
        outcome.findings.append(Finding(what, "the interrupt's wire to the PCIe core, or its interrupts on the host"))
    accelerator.abort()
    return outcome


FILL = 0xFFF1F1F1  # what memory has that nobody has written


def mapping(bench: Bench) -> Outcome:
    """Have every channel copy a block of its own into every channel's window, at an address of its own.

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
        transfer(program, bench, Opcode.LOAD, Memory.SCRATCH, 0, rows, writes=["block"])
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
    """Have every channel copy patterns through its whole scratch memory, to another address of its window."""
    config = bench.config
    depth = config.scratch_depth
    outcome = Outcome("port data", f"{depth} vectors through each channel's port and scratch memory, twice")
    words = depth * config.lanes
    for half in range(2):
        written = np.stack([patterns(words, 100 * half + n) for n in range(config.channels)])
        if half:
            written = np.roll(written, words // 2, axis=1)
        bench.write(0, written)
        bench.write(depth, np.full_like(written, FILL))

        def emit(program):
            transfer(program, bench, Opcode.LOAD, Memory.SCRATCH, 0, depth, writes=["all"])
            transfer(program, bench, Opcode.STORE, Memory.SCRATCH, depth, depth, source=0, reads=["all"])

        bench.run(emit)
        got = bench.read(depth, depth).reshape(config.channels, -1)
        for channel in range(config.channels):
            if difference := describe(written[channel], got[channel], config.beat_words):
                port = bench.port_of(channel)
                suspect = f"a data line of {port}" if "stuck" in difference else f"{port} or that scratch memory"
                outcome.findings.append(Finding(f"channel {channel} ({port}): {difference}", suspect))
        if outcome.findings:
            break
    return outcome
