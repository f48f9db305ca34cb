"""``eta-lstm plan``, as a user types it."""

import json
import re

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from tests.cli.typed import output, sizes


def test_plan_says_where_windows_lie(capsys):
    small = sizes(3, 5, 1, 2, 2)
    out = output(capsys, "plan", "--preset", "vcu128", *small)[1]
    assert re.search(r"40 windows of [\d,]+ bytes, 2 behind each memory port, 0x8000000 from one to the\s", out), out
    assert "the programs from address 0x140000000 on" in out
    out = output(capsys, "plan", "--preset", "test", *small)[1]
    assert re.search(r"2 windows of [\d,]+ bytes, one behind the other, then the programs, from address 0x", out), out
    placement = json.loads(output(capsys, "plan", "--preset", "vcu128", *small, "--json")[1])["placement"]
    assert (placement["base"], placement["stride"], placement["programs"]) == (0, 1 << 27, 20 << 28)


def test_plan_prints_one_line_for_each_benchmark(capsys):
    lines = output(capsys, "plan", "--preset", "vcu128", "--benchmark", "deepbench-512-64", "--json")[1].splitlines()
    (found,) = map(json.loads, lines)
    assert found["benchmark"] == "deepbench-512-64" and found["storage"] == "ms1-bf16" and found["groups"] == 5
    assert 0 < found["program_bytes"] < 4 << 20 and found["program_bytes"] < found["memory_bytes"]
    assert found["plan_seconds"] > 0


@pytest.mark.parametrize(("slices", "groups"), [("auto", 5), (4, 2), (8, 2), (3, 1), (1, 1)])
def test_plan_takes_the_fastest_groups_that_the_slices_allow(capsys, slices, groups):
    arguments = ["--preset", "vcu128", "--benchmark", "deepbench-512-64", "--slices", slices]
    found = json.loads(output(capsys, "plan", *arguments, "--json")[1])
    assert found["groups"] == groups and found["slices"] == (5 if slices == "auto" else slices)


def test_plan_says_how_many_groups_work_at_once(capsys):
    arguments = ["plan", "--preset", "test", *sizes(3, 5, 1, 4, 2)]
    assert json.loads(output(capsys, *arguments, "--json")[1])["groups"] == 1
    chosen = output(capsys, *arguments, "--slices", "auto")[1]
    assert "2 groups of channels" in chosen and "cycles; in 1 groups, the runner-up, " in chosen
    assert json.loads(output(capsys, *arguments, "--slices", "auto", "--json")[1])["slices"] == 2


def test_plan_says_in_how_many_tiles_the_batch_is_worked_on(capsys):
    arguments = ["plan", "--preset", "sim", *sizes(3, 5, 1, 40, 2)]
    tiles = json.loads(output(capsys, *arguments, "--json")[1])["batch_tiles"]
    assert tiles > 1 and f"Batch tiles of a group: {tiles} of up to {-(-40 // tiles)} " in output(capsys, *arguments)[1]


def test_plan_says_which_benchmarks_dense_storage_does_not_fit(capsys):
    arguments = ["plan", "--preset", "vcu128", "--benchmark", "deepbench-512-64", "--memory", 190_000_000]
    assert "dense storage would take" in output(capsys, *arguments)[1]
    assert "dense storage would take" not in output(capsys, *arguments[:-2])[1]


def test_the_largest_benchmark_fits_a_card(capsys):
    found = json.loads(output(capsys, "plan", "--preset", "vcu128", "--benchmark", "babi", "--json")[1])
    assert found["memory_bytes"] < 8 << 30 < found["dense_bytes"]


def test_plan_says_which_weights_are_read_at_most(capsys):
    common = ["plan", "--preset", "test", *sizes(5, 33, 1, 3, 3), "--storage"]
    spareable = json.loads(output(capsys, *common, "ms1", "--json")[1])["spareable_bytes"]
    assert re.search(rf"read at most.*: {spareable:,} bytes", output(capsys, *common, "ms1")[1])
    assert "at most" not in output(capsys, *common, "dense")[1]


def test_plan_compares_storage_policies(capsys):
    arguments = ["--preset", "test", *sizes(8, 8, 1, 4, 3), "--json"]
    found = {}
    for density in (0.1, 1):
        out = output(capsys, "plan", *arguments, "--storage", "all", "--density", density)[1]
        found[density] = json.loads(out)["policies"]
        for kind in ("intermediates", "deltas"):
            for policy, cost in found[density].items():
                alone = json.loads(output(capsys, "plan", *arguments, "--storage", policy, "--density", density)[1])
                assert alone["footprint"][kind] == cost["footprint"][kind]
                assert alone["traffic"][kind] == cost["traffic"][kind]
    kept = {density: {name: cost["footprint"]["intermediates"] for name, cost in policies.items()}
            for density, policies in found.items()}  # fmt: skip
    assert kept[0.1]["dense"] == kept[1]["dense"]
    assert kept[0.1]["ms1-bf16"] < kept[0.1]["ms1"] < kept[1]["ms1-bf16"] < kept[1]["ms1"]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("storage", ["ms1", "ms1-bf16"])
def test_plan_knows_the_traffic_of_streams(monkeypatch, storage, groups):
    """Nothing is zero, no lane without a unit: what is counted is what a density of 1 moves."""
    monkeypatch.setattr("etalstm.plan.choose.fit.group_costs", lambda *_: {groups: 1.0})
    network = NetworkShape(8, 8)
    shape = TrainingShape(network, 4, 3, Execution(storage=Storage(storage), slices=2))
    generator = np.random.default_rng(1)
    x, dy, h0, c0 = (
        generator.standard_normal(size, np.float32)
        for size in (shape.x_shape, shape.y_shape, shape.state_shape, shape.state_shape)
    )
    with open_device("sim", "test") as device:
        session = device.create(shape)
        session.load(initial_parameters(network, 1))
        session.forward(x, h0=h0, c0=c0)
        session.backward(dy)
        session.update(0.1)
        counters, planned = session.counters(), session.plan.traffic()
    for kind in ("weights", "activations", "intermediates", "deltas"):
        assert counters["read_bytes"][kind] == planned[kind]["read"], kind
        assert counters["write_bytes"][kind] == planned[kind]["written"], kind
