"""``eta-lstm model``: what it refuses."""

import pytest

from etalstm.cli import BAD_INPUT, run


@pytest.mark.parametrize("option", ["--density", "--local-density"])
@pytest.mark.parametrize("value", ["-0.1", "1.5"])
def test_refuses_a_share_that_is_none(option, value, capsys):
    assert run(["model", option, value]) == BAD_INPUT
    assert f"{option[2:].replace('-', '_')} must be 0 to 1, got {value}" in capsys.readouterr().err


def test_lists_the_benchmarks_if_there_is_none_of_that_name(capsys):
    assert run(["model", "--benchmark", "mnist"]) == BAD_INPUT
    error = capsys.readouterr().err
    assert "unknown benchmark 'mnist'" in error and "trec10" in error and "deepbench-1024-128" in error


def test_refuses_streams_where_the_architecture_does_not_compress(capsys):
    assert run(["model", "--preset", "test", "--hidden", "6", "--architecture", "inference"]) == BAD_INPUT
    assert "inference keeps its intermediates dense" in capsys.readouterr().err
