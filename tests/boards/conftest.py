"""Builds that several tests look at: made once."""

import pytest

from etalstm_boards.build import Options, prepare
from etalstm_hw import config as configurations
from etalstm_hw import generate
from tests.boards.machines import SMALL


@pytest.fixture(scope="session")
def small_preset():
    """The name of a preset for a small machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(configurations.PRESETS, "small", SMALL)
        yield "small"


@pytest.fixture(scope="session")
def small(small_preset, tmp_path_factory):
    """The directory of a small machine's build for the U280 with eight lanes."""
    directory = tmp_path_factory.mktemp("small")
    prepare(Options("u280", small_preset, "x8")).extract(directory)
    return directory


@pytest.fixture(scope="session")
def full(tmp_path_factory):
    """The directory of the VCU128's build, but for the machine's own Verilog, which test_generate.py elaborates."""
    directory = tmp_path_factory.mktemp("full")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generate, "verilog", lambda *_, **__: "")
        prepare(Options("vcu128", "vcu128")).extract(directory)
    return directory
