"""The vocabulary of one language: tokens as numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

PADDING, UNKNOWN, START, END = range(4)
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of one language, by number; the first four are ``SPECIAL``."""

    tokens: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], least_count: int) -> "Vocabulary":
        """Take the tokens that sentences have at least so often, the most frequent first, equals by alphabet.

        ``ValueError`` if no token is so frequent.
        """
        counts = Counter(token for sentence in sentences for token in sentence)
        often = [token for token, count in counts.items() if count >= least_count and token not in SPECIAL]
        if not often:
            most = max(counts.values(), default=0)
            raise ValueError(f"least_count must be at most {most}, that of the most frequent token, got {least_count}")
        return cls((*SPECIAL, *sorted(often, key=lambda token: (-counts[token], token))))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def numbers(self, sentence: Sequence[str]) -> list[int]:
        """Give the tokens' numbers, `UNKNOWN` for a token that the vocabulary has not; a special one's text is such."""
        found = (self._numbers.get(token, UNKNOWN) for token in sentence)
        return [number if number >= len(SPECIAL) else UNKNOWN for number in found]

    def text(self, numbers: Iterable[int]) -> str:
        """Join tokens by spaces, up to the end of the sentence."""
        words = []
        for number in numbers:
            if number == END:
                break
            words.append(self.tokens[number])
        return " ".join(words)
