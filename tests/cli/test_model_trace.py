"""``eta-lstm model trace``: a file that Perfetto reads."""

import gzip
import json
from itertools import groupby, pairwise

from etalstm.cli.main import run

SIZES = ["--preset", "test", "--input", "5", "--hidden", "19", "--batch", "4", "--steps", "6"]


def test_slices_of_a_track_do_not_overlap_and_programs_follow_each_other(tmp_path, capsys):
    path = tmp_path / "trace.json.gz"
    assert run(["model", "trace", *SIZES, "--density", "0.5", "--out", str(path)]) == 0
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert f"{len(events):,} events" in capsys.readouterr().out
    named = {(event["pid"], event.get("tid")) for event in events if event["name"] == "thread_name"}
    slices = [event for event in events if event["ph"] == "X"]
    place = lambda event: (event["pid"], event["tid"])  # noqa: E731
    assert {place(event) for event in slices} == named
    for _, track in groupby(sorted(slices, key=lambda event: (place(event), event["ts"])), key=place):
        for one, other in pairwise(track):
            assert one["args"]["cycle"] + one["args"]["cycles"] <= other["args"]["cycle"]
    programs = [event for event in slices if place(event) == (0, 0)]
    assert [event["name"] for event in programs] == ["forward", "backward", "update"]
    assert {"MAC forward", "MAC backward", "SIGMOID", "CAST deltas"} <= {event["name"] for event in slices}


def test_refuses_what_is_no_share_and_what_is_no_number_of_cycles(tmp_path, capsys):
    for options, message in (
        (["--density", "1.5"], "density must be 0 to 1, got 1.5"),
        (["--cycles", "0"], "cycles must be above 0, got 0"),
    ):
        assert run(["model", "trace", *SIZES, *options, "--out", str(tmp_path / "t.gz")]) == 2
        assert message in capsys.readouterr().err
