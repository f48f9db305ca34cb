"""Which channels stay together; and the machine with one group and several, in a cocotb bench."""

from dataclasses import replace
from pathlib import Path

import pytest

from etalstm_hw.config import PRESETS, preset
from etalstm_hw.machine.groups import branches, feeders, path_of
from etalstm_hw.machine.tree import FAN_OUT
from etalstm_sim.benches.bench import run_bench
from etalstm_sim.benches.identified import identified_machine
from tests.hw.machine.grouped import CONFIG


@pytest.mark.parametrize("name", PRESETS)
def test_a_branch_is_never_divided_between_groups(name):
    config = preset(name)
    runs = branches(config)
    assert [channel for run in runs for channel in run] == list(range(config.channels))
    assert max(map(len, runs)) <= FAN_OUT
    for count in config.group_counts:
        for run in runs:
            groups = {channel * count // config.channels for channel in run}
            assert len(groups) == 1, f"{run} lies in groups {groups} of {count}"
            assert groups <= set(feeders(config, run.start))


def test_the_board_has_as_many_branches_as_a_register_drives():
    assert len(branches(preset("vcu128"))) == FAN_OUT


def test_a_channel_is_found_in_its_branch():
    config = preset("vcu128")
    assert [path_of(config, n) for n in (0, 9, 39)] == ["branch0/channel0", "branch1/channel1", "branch7/channel7"]
    with pytest.raises(ValueError, match="channel must be 0 to 39, got 40"):
        path_of(config, 40)


def test_many_channels_of_one_group_make_branches_of_equal_size():
    runs = branches(replace(preset("vcu128"), channels=36, broadcasters=1))
    assert sorted(map(len, runs)) == [7, 7, 7, 7, 8]


def test_machine_in_groups(tmp_path):
    bench = Path(__file__).with_name("bench_groups.py")
    run_bench(identified_machine(CONFIG, "grouped"), "grouped", bench, tmp_path)
