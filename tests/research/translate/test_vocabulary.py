import numpy as np
import pytest

from etalstm.research.translate.corpus import END, PADDING, SPECIAL, START, UNKNOWN, Vocabulary, batch_of, by_length
from etalstm.research.translate_settings import Tokens

SENTENCES = [["b", "a", "b"], ["c", "b", "a"], ["d"]]


def test_frequent_tokens_come_first():
    assert Vocabulary.of(SENTENCES, 1).tokens == (*SPECIAL, "b", "a", "c", "d")
    assert Vocabulary.of(SENTENCES, 2).tokens == (*SPECIAL, "b", "a")


def test_a_least_count_that_no_token_has_is_refused():
    with pytest.raises(ValueError, match="least_count must be at most 3, that of the most frequent token, got 4"):
        Vocabulary.of(SENTENCES, 4)


def test_other_tokens_are_unknown_and_a_text_ends_at_its_end():
    words = Vocabulary.of(SENTENCES, 2)
    assert words.numbers(["a", "d", "</s>"]) == [5, UNKNOWN, UNKNOWN]
    assert words.text([4, 5, END, 4]) == "b a"


def test_words_and_marks_are_tokens():
    assert Tokens("words", lower=True).of("The man's T-shirt, 3.5 m!") == [
        "the",
        "man's",
        "t-shirt",
        ",",
        "3.5",
        "m",
        "!",
    ]
    assert Tokens("spaces").of("The man 's  shirt ,") == ["The", "man", "'s", "shirt", ","]
    with pytest.raises(ValueError, match="tokens must be one of words, spaces, got 'bytes'"):
        Tokens("bytes")


def test_batches_have_similar_lengths_and_every_pair_once():
    lengths = [(number * 7 % 10, number % 3) for number in range(50)]
    batches = by_length(lengths, 8, np.random.default_rng(0))
    assert sorted(number for batch in batches for number in batch) == list(range(50))
    spans = [max(lengths[n][0] for n in batch) - min(lengths[n][0] for n in batch) for batch in batches]
    assert max(spans) <= 2
    assert batches == by_length(lengths, 8, np.random.default_rng(0)) != by_length(lengths, 8, np.random.default_rng(1))


def test_a_batch_has_the_target_twice():
    batch = batch_of([[7, 8], [9]], [[5], [5, 6]])
    assert batch.source.tolist() == [[7, 8], [9, PADDING]]
    assert batch.given.tolist() == [[START, 5, PADDING], [START, 5, 6]]
    assert batch.wanted.tolist() == [[5, END, PADDING], [5, 6, END]]
    assert batch.target_lengths.tolist() == [2, 3]
