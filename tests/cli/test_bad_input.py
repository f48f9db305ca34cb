"""What a user types wrong ends in one line, whatever the command."""

import pytest

from tests.cli.typed import output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "codec", "--storage", "dense"], "storage must be one that compresses, got 'dense'"),
        (["verify", "compare", "--preset", "nope"], "unknown preset 'nope', expected one of: test, sim"),
        (["verify", "compare", "--devices", "golden,nope"], "unknown device 'nope'"),
        (["verify", "compare", "--hidden", "0"], "hidden_size must be above 0, got 0"),
        (["verify", "compare", "--iterations", "-1"], "iterations must be above 0, got -1"),
        (["verify", "compare", "--loss", "mean"], "loss must be one of last, per-step"),
        (["verify", "compare", "--devices", "golden"], "at least two devices"),
        (["verify", "compare", "--preset", "test,test,test"], "one preset, or one for each of 2 devices"),
        (["verify", "compare", "--stall", "1.5"], "stall"),
        (
            ["verify", "compare", "--architecture", "fast"],
            "unknown architecture 'fast', expected one of: swing, dynamic, static, inference",
        ),
        (
            ["verify", "compare", "--architecture", "inference", "--storage", "ms1"],
            "architecture inference keeps its intermed",
        ),
        (
            ["verify", "compare", "--refresh", "-1"],
            "refresh must be an integer of at least 0",
        ),
        (["verify", "compare", "--input-threshold", "-1"], "input_threshold must be finite and at least 0, got -1"),
        (
            ["verify", "compare", "--input-threshold", "0.1,nan"],
            "input_threshold must be finite and at least 0, got nan",
        ),
        (["verify", "compare", "--input-threshold", "0.1,0.2"], "one for each of 1 layers, got 2: 0.1,0.2"),
        (["verify", "compare", "--input-threshold", "a"], "input_threshold must be a number for all layers"),
        (
            ["train", "--dataset", "digits", "--input-threshold", "0.1", "--refresh", "1", "--out", "/nowhere"],
            "with refresh 1 everything is sent: input_threshold must be 0, got 0.1",
        ),
        (["verify", "compare", "--slices", "0"], "slices must be above 0, got 0"),
        (["verify", "compare", "--slices", "5"], "slices must be at most the batch, 4 sequences, got 5"),
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
        (["plan", "check", "--benchmark", "ptb"], "eta-lstm plan check has no option --benchmark"),
        (["plan", "--storage", "zip"], "storage must be one of dense, ms1, ms1-bf16, got 'zip'"),
        (["plan", "--memory-budget", "9"], "a memory budget of 9 bytes is too small: this network needs at least"),
        (["verify", "compare", "--memory-budget", "0"], "memory_budget must be above 0, got 0"),
        (["verify", "compare", "--memory-budget", "9"], "a memory budget of 9 bytes is too small"),
        (["verify", "compare", "--log-share", "0"], "log_share must be above 0 and at most 1, got 0"),
        (
            ["verify", "compare", "--devices", "golden,golden", "--offload"],
            "device golden takes no intermediates from the host",
        ),
        (["plan", "--batch", "0"], "batch must be above 0, got 0"),
        (["bench", "iteration", "--steps", "0"], "steps must be above 0, got 0"),
        (["bench", "shares", "--steps", "0"], "steps must be above 0, got 0"),
        (["bench", "skip", "--densities", "0.5,2"], "densities must be numbers from 0 to 1"),
        (["hw", "verilog", "--preset", "nope", "-o", "/nowhere"], "unknown preset 'nope'"),
        (["train", "--dataset", "nope", "--out", "/nowhere"], "nope"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_ends_in_one_line_and_code_2(capsys, arguments, message):
    code, out, err = output(capsys, *arguments)
    assert code == 2
    assert message in err and err.count("\n") == 1, err
    assert not out
