"""Checks of the memory as the host reaches it."""

import time

import numpy as np

from etalstm.device.selftest.bench import Bench
from etalstm.device.selftest.bits import SOLIDS, describe, patterns
from etalstm.device.selftest.finding import Finding, Outcome
from etalstm.device.transport import Transport

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
