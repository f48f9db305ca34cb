"""Other benches on the simulated machine, as a user types them."""

import json
import os

import pytest

from tests.cli.typed import output


def test_bench_shares_finds_a_division_for_each_machine(capsys):
    arguments = ["--preset", "test", "--input", 8, "--hidden", 8, "--batch", 2, "--steps", 3]
    code, out, err = output(capsys, "bench", "shares", *arguments, "--json")
    assert code == 0, err
    found = json.loads(out)
    for name, best in found["best"].items():
        cycles = {tuple(e[kind] for kind in best): e["cycles"] for e in found["measured"] if e["architecture"] == name}
        assert len(cycles) >= 5 and cycles[tuple(best.values())] == min(cycles.values()), f"{name}: {cycles}"
        assert sum(best.values()) == 32 and (best["outer"] == 0) == (name == "inference")


def test_bench_skip_saves_the_zeros_cycles(capsys):
    arguments = ["--preset", "sim", "--input", 32, "--hidden", 32, "--batch", 32, "--steps", 2]
    code, out, err = output(capsys, "bench", "skip", *arguments, "--densities", "1,0.5,0.1,0", "--json")
    assert code == 0, err
    found = {entry["density"]: entry for entry in json.loads(out)["densities"]}
    for product in ("backward", "gradient"):
        assert found[1][product]["cycles"] == found[1][product]["dense_cycles"]
        assert found[0.5][product]["efficiency"] > 0.97, found[0.5][product]
        cycles = [found[density][product]["cycles"] for density in (0, 0.1, 0.5, 1)]
        assert cycles == sorted(cycles), f"{product}: {cycles} cycles"


def test_bench_codec_keeps_up_and_holds_nothing_back(capsys):
    arguments = ["--preset", "sim", "--input", 16, "--hidden", 64, "--batch", 32, "--steps", 2]
    code, out, err = output(capsys, "bench", "codec", *arguments, "--densities", "0.9,0", "--json")
    assert code == 0, err
    for entry in json.loads(out)["densities"]:
        assert entry["elements_per_cycle"] > 0.8, entry  # of two steps only one overlaps
        assert -0.001 < entry["stalled"] < 0.005, entry


@pytest.mark.parametrize(("load", "told"), [(0.3, False), (1.4, True)])
def test_bench_golden_warns_where_other_programs_use_the_computer(capsys, monkeypatch, load, told):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    code, out, err = output(capsys, "bench", "golden", "--hidden", 8, "--batch", 2, "--steps", 2, "--runs", 1, "--json")
    assert code == 0 and json.loads(out)["seconds"] > 0
    assert ("other programs use this computer (load 1.4): speeds will be too low" in err) == told
