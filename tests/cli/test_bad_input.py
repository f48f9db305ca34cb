"""What a user types wrong ends in one line, whatever the command."""

import pytest

from tests.cli.typed import output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "codec", "--storage", "dense"], "storage must be one that compresses, got 'dense'"),
        (["compare", "--preset", "nope"], "unknown preset 'nope', expected one of: test, sim"),
        (["compare", "--devices", "golden,nope"], "unknown device 'nope'"),
        (["compare", "--hidden", "0"], "hidden_size must be above 0, got 0"),
        (["compare", "--iterations", "-1"], "iterations must be above 0, got -1"),
        (["compare", "--loss", "mean"], "loss must be one of last, per-step"),
        (["compare", "--devices", "golden"], "at least two devices"),
        (["compare", "--preset", "test,test,test"], "one preset, or one for each of 2 devices"),
        (["compare", "--stall", "1.5"], "stall"),
        (
            ["compare", "--architecture", "fast"],
            "unknown architecture 'fast', expected one of: swing, dynamic, static, inference",
        ),
        (["compare", "--architecture", "inference", "--storage", "ms1"], "architecture inference keeps its intermed"),
        (
            ["compare", "--refresh", "-1"],
            "refresh must be an integer of at least 0",
        ),
        (["compare", "--input-threshold", "-1"], "input_threshold must be finite and at least 0, got -1"),
        (["compare", "--input-threshold", "0.1,nan"], "input_threshold must be finite and at least 0, got nan"),
        (["compare", "--input-threshold", "0.1,0.2"], "one for each of 1 layers, got 2: 0.1,0.2"),
        (["compare", "--input-threshold", "a"], "input_threshold must be a number for all layers"),
        (
            ["train", "--dataset", "digits", "--input-threshold", "0.1", "--refresh", "1", "--out", "/nowhere"],
            "with refresh 1 everything is sent: input_threshold must be 0, got 0.1",
        ),
        (["compare", "--slices", "0"], "slices must be above 0, got 0"),
        (["compare", "--slices", "5"], "slices must be at most the batch, 4 sequences, got 5"),
        (["bench", "iteration", "--slices", "33"], "slices must be at most the batch, 32 sequences, got 33"),
        (
            ["train", "--dataset", "digits", "--slices", "few", "--out", "/nowhere"],
            "slices must be an integer",
        ),
        (
            ["train", "--dataset", "digits", "--slices", "33", "--out", "/nowhere"],
            "slices must be at most the batch, 32",
        ),
        (["plan", "--slices", "33"], "slices must be at most the batch, 32 sequences, got 33"),
        (["plan", "--memory", "1000"], "bytes of memory, the device has 1,000"),
        (["plan", "--density", "2"], "density must be 0 to 1, got 2"),
        (["plan", "--benchmark", "mnist"], "unknown benchmark 'mnist', expected one of: trec10, ptb, imdb"),
        (["plan", "--benchmark", "ptb", "--disassemble"], "does not go together"),
        (["plan", "--benchmark", "ptb", "--check"], "does not go together"),
        (["plan", "--storage", "zip"], "storage must be one of dense, ms1, ms1-bf16, got 'zip'"),
        (["plan", "--memory-budget", "9"], "a memory budget of 9 bytes is too small: this network needs at least"),
        (["compare", "--memory-budget", "0"], "memory_budget must be above 0, got 0"),
        (["compare", "--memory-budget", "9"], "a memory budget of 9 bytes is too small"),
        (["compare", "--log-share", "0"], "log_share must be above 0 and at most 1, got 0"),
        (["compare", "--devices", "golden,golden", "--offload"], "device golden takes no intermediates from the host"),
        (["plan", "--batch", "0"], "batch must be above 0, got 0"),
        (["bench", "iteration", "--steps", "0"], "steps must be above 0, got 0"),
        (["bench", "shares", "--steps", "0"], "steps must be above 0, got 0"),
        (["bench", "skip", "--densities", "0.5,2"], "densities must be numbers from 0 to 1"),
        (["verilog", "--preset", "nope", "-o", "/nowhere"], "unknown preset 'nope'"),
        (["train", "--dataset", "nope", "--out", "/nowhere"], "nope"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_ends_in_one_line_and_code_2(capsys, arguments, message):
    code, out, err = output(capsys, *arguments)
    assert code == 2
    assert message in err and err.count("\n") == 1, err
    assert not out
