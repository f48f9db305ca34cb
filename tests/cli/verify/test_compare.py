"""``eta-lstm verify compare``, as a user types it: golden's bits on the simulated machine."""

import json
import re

import pytest

from etalstm.cli.application import BAD_INPUT
from etalstm.cli.verify import compare as compare_command
from etalstm.device.comparison import Comparison
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.storage import Storage
from etalstm_hw.config import preset
from tests.cli.typed import output, sizes
from tests.smallest import smallest


@pytest.mark.parametrize(("loss", "stall"), [("last", 0.5), ("per-step", 0)])
@pytest.mark.parametrize("network", [(3, 5, 1, 2, 4), (8, 33, 2, 7, 5), (1, 1, 1, 1, 1), (16, 24, 3, 5, 6)], ids=str)
def test_compare_finds_golden_bits_on_the_machine(capsys, network, stall, loss):
    arguments = ["--preset", "test", *sizes(*network), "--iterations", 3, "--loss", loss, "--stall", stall, "--json"]
    code, out, err = output(capsys, "verify", "compare", *arguments)
    assert code == 0, err
    found = json.loads(out)
    assert found["mismatched_words"] == 0 and found["first_mismatch"] is None and found["iterations"] == 3
    assert found["words"] > 0


@pytest.mark.parametrize("groups", [1, 2])
def test_compare_finds_golden_bits_with_any_number_of_groups(capsys, groups):
    arguments = ["--preset", "test", *sizes(5, 9, 2, 7, 3), "--slices", 2, "--groups", groups, "--stall", 0.5, "--json"]
    code, out, err = output(capsys, "verify", "compare", *arguments)
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


@pytest.mark.parametrize(
    ("slices", "groups", "message"),
    [
        (3, 2, "groups must be one of 1 with 3 slices on this machine, got 2"),
        (4, 3, "groups must be one of 1, 2 with 4 slices on this machine, got 3"),
        (2, 0, "groups must be above 0, got 0"),
    ],
)
def test_compare_refuses_groups_that_have_no_equal_parts(capsys, slices, groups, message):
    arguments = ["--preset", "test", *sizes(5, 9, 2, 7, 3), "--slices", slices, "--groups", groups]
    code, _, err = output(capsys, "verify", "compare", *arguments)
    assert code == BAD_INPUT and message in err


def test_compare_finds_golden_bits_with_unequal_lengths(capsys):
    code, out, err = output(
        capsys,
        "verify",
        "compare",
        "--preset",
        "test",
        *sizes(5, 9, 2, 6, 5),
        "--iterations",
        2,
        "--unequal-lengths",
        "--json",
    )
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


@pytest.mark.parametrize(
    ("storage", "theta", "delta", "stall"),
    [("dense", 0, 0, 0), ("ms1", 0.1, 0.03, 0.5), ("ms1-bf16", "0.2,0.2,0.1,0.1,0.3,0.5", 0, 0.5)],
)
@pytest.mark.parametrize(("preset", "loss"), [("test", "per-step"), ("sim", "last")])
def test_compare_finds_golden_bits_with_compressed_storage_and_skipped_cells(
    capsys, preset, storage, theta, delta, stall, loss
):
    arguments = ["--preset", preset, *sizes(5, 19, 2, 6, 5), "--iterations", 2, "--loss", loss, "--stall", stall]
    arguments += ["--storage", storage, "--theta", theta, "--skip-cells", 0.5, "--delta-threshold", delta, "--json"]
    code, out, err = output(capsys, "verify", "compare", *arguments)
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


@pytest.mark.parametrize(
    ("architecture", "storage", "preset", "stall"),
    [
        ("dynamic", "dense", "test", 0.5),
        ("static", "ms1", "test", 0.5),
        ("static", "ms1", "sim", 0),
        ("inference", "dense", "test", 0),
        ("inference", "dense", "sim", 0.5),
    ],
)
def test_compare_finds_golden_bits_on_other_architectures(capsys, architecture, storage, preset, stall):
    arguments = ["--stall", stall, "--architecture", architecture, "--storage", storage]
    assert_same(capsys, preset, *arguments, "--theta", 0.1 * (storage != "dense"))


def test_compare_finds_golden_bits_on_the_boards_channels(capsys, tmp_path):
    """Two channels of a slice, so that its simulator is compiled in half the time."""
    path, few = tmp_path / "pair.toml", smallest(preset("slice"))
    differing = {name: getattr(few, name) for name in ("channels", "broadcasters", "port_bytes")}
    path.write_text("\n".join(['base = "slice"', *(f"{name} = {value}" for name, value in differing.items())]))
    assert preset(str(path)) == few
    assert_same(capsys, path, "--architecture", "dynamic")


def assert_same(capsys, preset_name, *arguments):
    """Compare two iterations of unequal lengths with skipped cells, on a preset."""
    common = ["--preset", preset_name, *sizes(5, 19, 2, 6, 5), "--iterations", 2, "--unequal-lengths"]
    code, out, err = output(capsys, "verify", "compare", *common, *arguments, "--skip-cells", 0.3, "--json")
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


@pytest.mark.parametrize(
    ("storage", "preset", "modes", "loss", "stall"),
    [
        ("dense", "test", "spill", "last", 0.5),
        ("ms1", "test", "spill", "per-step", 0.5),
        ("ms1-bf16", "sim", "spill", "per-step", 0),
        ("dense", "sim", "offload", "per-step", 0),
        ("ms1", "test", "offload", "last", 0.5),
        ("ms1-bf16", "sim", "spill offload", "last", 0),
    ],
)
def test_compare_finds_golden_bits_with_intermediates_on_the_host(capsys, storage, preset, modes, loss, stall):
    common = ["--preset", preset, *sizes(5, 19, 2, 8, 8), "--storage", storage]
    _, _, err = output(capsys, "plan", *common, "--memory-budget", 1)
    least = int(
        re.search(r"budget of 1 bytes is too small: this network needs at least ([\d,]+)", err)[1].replace(",", "")
    )
    planned = json.loads(output(capsys, "plan", *common, "--memory-budget", least, "--json")[1])
    assert planned["segments"] > 2 and sum(planned["footprint"].values()) <= least
    theta = 0 if storage == "dense" else 0.1
    arguments = ["--theta", theta, "--skip-cells", 0.5, "--loss", loss, "--stall", stall]
    arguments += ["--memory-budget", least, "--log-share", 1] if "spill" in modes else []
    arguments += ["--offload"] if "offload" in modes else []
    arguments += ["--delta-threshold", 0.02] if storage != "dense" else []
    code, out, err = output(capsys, "verify", "compare", *common, *arguments, "--json")
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


@pytest.mark.parametrize(
    ("slices", "arguments"),
    [
        (5, ["--stall", 0.5, "--unequal-lengths", "--delta-threshold", 0.03]),
        (8, ["--skip-cells", 0.4, "--offload"]),
    ],
)
def test_compare_finds_golden_bits_of_slices(capsys, slices, arguments):
    common = ["--preset", "test", *sizes(5, 19, 2, 9, 4), "--storage", "ms1", "--slices", slices]
    code, out, err = output(
        capsys, "verify", "compare", *common, "--theta", 0.1, "--iterations", 2, *arguments, "--json"
    )
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


def test_compare_takes_delta_inputs(capsys, monkeypatch):
    shapes = []
    monkeypatch.setattr(compare_command, "run_comparison", lambda _, shape, *rest: shapes.append(shape) or Comparison())
    for arguments in ((), ("--input-threshold", "0.1/0.2,0.3"), ("--input-threshold", "0.1", "--refresh", 4)):
        assert output(capsys, "verify", "compare", "--devices", "golden,golden", "--layers", 2, *arguments)[0] == 0
    assert [shape.execution.delta_inputs for shape in shapes] == [
        DeltaInputs(), DeltaInputs(((0.1, 0.2), 0.3), 0), DeltaInputs(0.1, 4)
    ]  # fmt: skip


def test_a_threshold_switches_ms1_on_or_is_refused_with_dense_storage(capsys, monkeypatch):
    shapes = []
    monkeypatch.setattr(compare_command, "run_comparison", lambda _, shape, *rest: shapes.append(shape) or Comparison())
    theta = ["verify", "compare", "--devices", "golden,golden", "--theta", "0.1"]
    assert output(capsys, *theta)[0] == 0
    assert shapes[0].execution.storage == Storage("ms1", 0.1)
    code, _, err = output(capsys, *theta, "--storage", "dense")
    assert code == BAD_INPUT and err == "eta-lstm: dense storage prunes nothing: theta must be 0, got 0.1\n"


def test_compare_finds_golden_bits_of_a_batch_that_does_not_fit(capsys):
    common = ["--preset", "test", *sizes(5, 9, 2, 6, 12), "--storage", "ms1", "--slices", 3]
    whole = output(capsys, "plan", *common, "--memory-budget", 1)[2]
    arguments = ["--theta", 0.1, "--log-share", 1, "--stall", 0.5, "--unequal-lengths"]
    refused = output(capsys, "verify", "compare", *common, *arguments, "--memory-budget", 1)[2]
    assert "one of 3 slices does not fit" in refused
    least, undivided = (int(re.search(r"at least ([\d,]+)", e)[1].replace(",", "")) for e in (refused, whole))
    assert least < undivided
    code, out, err = output(capsys, "verify", "compare", *common, *arguments, "--memory-budget", least, "--json")
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


@pytest.mark.parametrize(("storage", "mode"), [("ms1", "--offload"), ("ms1-bf16", "--unequal-lengths")])
def test_compare_finds_golden_bits_where_rows_of_weights_are_left_out(capsys, storage, mode):
    common = ["--preset", "test", *sizes(5, 33, 2, 3, 3), "--storage", storage]
    assert json.loads(output(capsys, "plan", *common, "--json")[1])["spareable_bytes"] > 0
    arguments = ["--theta", 0.2, "--skip-cells", 0.3, "--delta-threshold", 0.02, "--stall", 0.5, mode]
    code, out, err = output(capsys, "verify", "compare", *common, *arguments, "--json")
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


def test_presets_give_the_same_weights(capsys):
    code, out, err = output(
        capsys, "verify", "compare", "--devices", "sim,sim", "--preset", "test,sim", *sizes(8, 20, 2, 6, 3),
        "--iterations", 2, "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0
