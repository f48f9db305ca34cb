import copy

import pytest
import torch

from etalstm.research.translate import Sizes, Translator, beam_search
from etalstm.research.translate.corpus import END, PADDING, START, batch_of, padded
from etalstm.research.translate.network import loss_of
from etalstm.research.translate.search import greedy_search

SOURCES = [[4, 5, 6, 7], [8], [9, 4, 5]]
TARGETS = [[4, 5], [6, 7, 8, 4], []]
TOKENS = 11


def model_of(seed=0, **options):
    torch.manual_seed(seed)
    sizes = Sizes(8, 5, **{name: options.pop(name) for name in ("layers", "attention", "dropout") if name in options})
    return Translator(TOKENS, TOKENS, sizes, **options)


@pytest.mark.parametrize("attention", ["additive", "dot"])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_sentence_has_its_own_scores_in_any_batch(attention, layers):
    model = model_of(attention=attention, layers=layers)
    alone = [model(batch_of([source], [target])) for source, target in zip(SOURCES, TARGETS, strict=True)]
    torch.testing.assert_close(model(batch_of(SOURCES, TARGETS)), torch.cat(alone))


def test_the_loss_is_of_real_steps_only():
    model, batch = model_of(), batch_of(SOURCES, TARGETS)
    scores = model(batch).log_softmax(1)
    wanted = [token for target in TARGETS for token in (*target, END)]
    expected = -sum(scores[step, token] for step, token in enumerate(wanted)) / len(wanted)
    torch.testing.assert_close(loss_of(model(batch), batch), expected)


def test_the_decoder_is_one_call_for_all_steps():
    model, calls = model_of(), []
    model.decoder.register_forward_hook(lambda *_: calls.append(0))
    model(batch_of(SOURCES, TARGETS))
    assert len(calls) == 1


def test_step_by_step_the_scores_are_those_of_the_given_target():
    model, target = model_of(), [4, 5, 6]
    scores = model(batch_of([SOURCES[0]], [target]))
    memory, state = model.encode(*padded([SOURCES[0]]))
    for step, token in enumerate((START, *target)):
        answer, state = model.step(torch.tensor([token]), state, memory)
        torch.testing.assert_close(answer[0], scores[step])


def test_gradients_are_those_of_pytorchs_lstm():
    ours, batch = model_of(), batch_of(SOURCES, TARGETS)
    theirs = copy.deepcopy(ours)
    theirs.encoder, theirs.decoder = ours.encoder.to_stock(), ours.decoder.to_stock()
    for model in (ours, theirs):
        loss_of(model(batch), batch).backward()
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(
            mine.grad, other.grad, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name} {text}"
        )


def test_a_beam_of_one_is_greedy():
    model, source = model_of(2), padded(SOURCES)
    assert beam_search(model, *source, 6, 1) == greedy_search(model, *source, 6)


@pytest.mark.parametrize(("name", "longest", "width"), [("longest", 0, 1), ("width", 1, 0)])
def test_searches_for_nothing_are_refused(name, longest, width):
    with pytest.raises(ValueError, match=f"{name} must be above 0, got 0"):
        beam_search(model_of(), *padded(SOURCES), longest, width)
    with pytest.raises(ValueError, match="longest must be above 0, got 0"):
        greedy_search(model_of(), *padded(SOURCES), 0)


def logarithm(model, source, tokens):
    """Give the logarithm of a translation's probability, divided by its tokens."""
    scores = model(batch_of([source], [tokens]))
    scores[:, [PADDING, START]] = -torch.inf
    steps = scores.log_softmax(1)[torch.arange(len(tokens) + 1), [*tokens, END]]
    return float(steps.mean())


def test_a_wide_beam_finds_the_best_of_all():
    model, longest = model_of(3), 2
    with torch.no_grad():
        model.output.weight.mul_(8)
        words = [token for token in range(TOKENS) if token not in (PADDING, START, END)]
        all_of_them = [[], *([word] for word in words)]
        for source in SOURCES:
            best = max(all_of_them, key=lambda tokens, source=source: logarithm(model, source, tokens))
            assert beam_search(model, *padded([source]), longest, TOKENS**2) == [best]


def test_no_translation_is_longer_than_it_may_be():
    assert all(len(found) <= 3 for found in greedy_search(model_of(), *padded(SOURCES), 3))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden": 7}, "hidden must be even, .* got 7"),
        ({"layers": 0}, "layers must be above 0, got 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"attention": "hard"}, "attention must be one of additive, dot, got 'hard'"),
    ],
)
def test_sizes_that_are_none_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        Sizes(**sizes)
