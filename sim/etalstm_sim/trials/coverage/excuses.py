"""Bits that cannot toggle because of a machine's sizes or the contract, so that coverage does not need them."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from etalstm_hw.axi.axi import BURST_BEATS
from etalstm_hw.config import Config
from etalstm_hw.contract import PAGE_BYTES

INSTRUCTIONS = 1 << 7  # numbers of instructions from this on are excused,
COUNTED = 1 << 10  # as are counts from this on: they need long programs, which only repeat
_PAGE = (PAGE_BYTES - 1).bit_length()


def _bits_of(largest: int) -> range:
    return range(largest.bit_length())


def _beat_bits(config: Config) -> int:
    return (config.beat_bytes - 1).bit_length()


@dataclass(frozen=True)
class Rule:
    """Signals with some bits that cannot toggle.

    Members
    -------
    signals : re.Pattern
        Matches their names, or the last components of their names.
    reach : function
        Gives the bits that can toggle, for a configuration.
    reason : str
        Why the others cannot.
    """

    signals: re.Pattern
    reach: Callable[[Config], range]
    reason: str


def _rule(signals: str, reach: Callable[[Config], range], reason: str) -> Rule:
    return Rule(re.compile(rf"(?:.*[._])?(?:{signals})"), reach, reason)


# The reason is that of the first rule that fits the signal and says that the bit cannot toggle.
RULES = (
    _rule(r"bus__a[rw]addr|control__a[rw]addr", lambda config: range(2, 64), "registers are words"),
    _rule(
        r"windows\.(?:base|size|stride)|window|pitch|stride|reach|skip",
        lambda config: range(_PAGE, 64),
        "windows begin at multiples of 4,096 bytes",
    ),
    _rule(
        r"(?<!group\.)(?<!\]\.)size",
        lambda config: range(_PAGE - _beat_bits(config), 64),
        "windows have multiples of 4,096 bytes",
    ),
    _rule(
        r"beats|left|elements|kept",
        lambda config: _bits_of(config.weight_depth * config.lanes),
        "a transfer is not larger than a channel's largest memory",
    ),
    _rule(
        r"a[rw](?:burst|size)|[rb]ready",
        lambda config: range(0),
        "bursts increment, have whole beats, and what comes back is taken at once",
    ),
    _rule(r"lanes?|last_lanes", lambda config: _bits_of(config.lanes), "a vector has no more lanes"),
    _rule(
        r"batch|sums|block\d?\.inner",
        lambda config: _bits_of(config.broadcast_words // config.lanes),
        "a block of the broadcaster has no more vectors",
    ),
    _rule(
        r"(?:scalars|o)__payload\.inner|scalar\.inner|next_sums|step\.sums",
        lambda config: _bits_of(config.queue_depth - 1),
        "there are no more partial sums",
    ),
    _rule(
        r"(?:scalars|o)__payload\.outer|scalar\.outer|block\d?\.outer|step\.weight",
        lambda config: _bits_of(config.weight_depth - 1),
        "the weight memory has no more vectors",
    ),
    _rule(
        r"broadcaster\.queue\.(?:blocked|waits|completed\.\w+)", lambda config: range(0), "a CAST waits for STOREs only"
    ),
    _rule(
        r"a[rw]addr|(?:transfer|transfers__payload|command__payload|reader\.[io]__payload|program\.[io]__payload"
        r"|writer\.[io]__payload|bursts\.[io]__payload|scatter\.o__payload)\.address",
        lambda config: range(_beat_bits(config), 64),
        "transfers begin at whole beats",
    ),
    _rule(r"a[rw]len", lambda config: _bits_of(BURST_BEATS - 1), "a burst has 16 beats at most"),
    _rule(
        r"group\.count|group\.size|branches\[\d+\]\.(?:count|size)|broadcasters\[\d+\]\.(?:count|size)",
        lambda config: _bits_of(config.channels),
        "there are no more channels",
    ),
    _rule(
        r"(?:group|branches\[\d+\]|broadcasters\[\d+\])\.(?:first|number|position)",
        lambda config: _bits_of(config.channels - 1),
        "there are no more channels",
    ),
    _rule(
        r"completed(?:\.\w+)?|instruction|(?:load|mac|vector|store)_number|stored_by_all|number|distance|target"
        r"|body\d\.(?:start|end|length)|waits\.\w+\.target",
        lambda config: _bits_of(INSTRUCTIONS - 1),
        f"it takes more than {INSTRUCTIONS:,} instructions, which only long programs have",
    ),
    _rule(
        r"(?:counters|values)\[\d+\]|counter|refused",
        lambda config: _bits_of(COUNTED - 1),
        f"it takes a count above {COUNTED:,}",
    ),
    _rule(r"parameters\[[012]\]", lambda config: range(0), "these parameters are fixed"),
    _rule(
        r"(?:cast|payload|rows)\.(?:opcode|everyone|register|wait_\w+)",
        lambda config: range(0),
        "behind the dispatch the header is not used any more",
    ),
    _rule(r"group\.\w+", lambda config: range(0 if config.broadcasters == 1 else 64), "all channels are one group"),
    _rule(
        r"broadcaster\.fetcher(?:\.\w+)*\.(?:batch_outer|first_sum|narrow|gates|lanes?|last_lanes|tiles|inner|outer"
        r"|row_vectors|rows|own_end|sums|sums_before)",
        lambda config: range(0 if config.integers else 64),
        "a SEND has no such field: it sends whole blocks",
    ),
    _rule(
        r"(?:extent\w*|present)\.(?:blocks|sequences)|pitch_\d",
        lambda config: _bits_of(config.broadcast_words // config.beat_words),
        "a stream's buffer has no more lines",
    ),
)  # fmt: skip


def signal_of(bit: str) -> tuple[str, int]:
    """Split ``signal[number]``; of a signal of one bit the number is 0."""
    match = re.fullmatch(r"(.*)\[(\d+)\]", bit)
    return (match[1], int(match[2])) if match else (bit, 0)


def excuse(config: Config, module: str, bit: str) -> str | None:
    """Tell why a bit of a module, ``signal`` or ``signal[number]``, need not toggle; None if it must."""
    signal, number = signal_of(bit)
    for rule in RULES:
        if rule.signals.fullmatch(f"{module}.{signal}") and number not in rule.reach(config):
            return rule.reason
    return None
