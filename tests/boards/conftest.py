"""What several tests of boards use: builds, made once, and Yosys."""

import pytest

from etalstm_boards.build import Options, prepare
from etalstm_boards.resources import synthesis
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


def without_machine(preset, directory):
    """Write a build for the VCU128, but for the machine's own Verilog, which test_generate.py elaborates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generate, "verilog", lambda *_, **__: "")
        prepare(Options("vcu128", preset)).extract(directory)
    return directory


@pytest.fixture(scope="session")
def full(tmp_path_factory):
    """The directory of the VCU128's build, without the machine."""
    return without_machine("vcu128", tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="session")
def integers(tmp_path_factory):
    """The same for integers: of the memory's ports, which are all used, some have two users."""
    return without_machine("vcu128-int8", tmp_path_factory.mktemp("integers"))


@pytest.fixture
def yosys():
    """Skip a test where there is no Yosys."""
    try:
        synthesis.yosys()
    except synthesis.SynthesisError as error:
        pytest.skip(str(error))
