"""Networks of other sizes: what they are, and what a second and a joule do of them."""

import pytest

from etalstm.research.paper.cases import BASELINE, CASES, DYNAMIC, ETA, work_of
from etalstm.research.paper.document import Figure, Table
from etalstm.research.paper.gpu import footprint, operations
from etalstm.research.paper.sections import characteristics
from etalstm.research.paper.study import CENTRE, QUICK, SWEEPS, networks, requests_of
from tests.research.paper.compared import SWEEPS as SMALL
from tests.research.paper.compared import compared

POINTS = compared().scaling


def test_one_size_is_changed_at_a_time():
    found = list(networks(SWEEPS))
    assert len(found) == sum(map(len, SWEEPS.values()))
    for swept, one in found:
        for name in ("hidden", "layers", "steps", "batch"):
            assert name == swept or getattr(one, name) == getattr(CENTRE, name), one.name
    assert len({one.name for _, one in found}) == len(found) - len(SWEEPS) + 1, "the middle one is in every sweep"


@pytest.mark.parametrize("sweeps", [SWEEPS, QUICK], ids=["all", "quick"])
def test_each_sweep_has_the_network_in_the_middle(sweeps):
    for swept, sizes in sweeps.items():
        assert getattr(CENTRE, swept) in sizes and list(sizes) == sorted(sizes), swept
    assert len({request.key for request in requests_of(sweeps)}) == 2 * (sum(map(len, sweeps.values())) - 2)


def test_there_is_a_point_for_each_network_on_each_machine():
    keys = [(point.swept, point.size, point.row.case) for point in POINTS]
    expected = {
        (swept, size, case) for swept, sizes in SMALL.items() for size in sizes for case in (BASELINE, DYNAMIC, ETA)
    }
    assert set(keys) == expected and len(keys) == len(expected)


def test_rates_are_the_networks_operations_over_seconds_and_joules():
    for point in POINTS:
        one, row = point.benchmark, point.row
        work = 6 * 4 * one.hidden * 2 * one.hidden * one.layers * one.batch * one.steps
        assert point.operations == work == operations(work_of(one, BASELINE))
        assert point.throughput.value == pytest.approx(work / row.milliseconds.value / 1e6)
        assert point.efficiency.value == pytest.approx(work / row.joules.value / 1e9)
        assert point.efficiency.low < point.efficiency.value < point.efficiency.high


def test_provenance_names_densities_of_other_tasks_where_zeros_are_skipped():
    for point in POINTS:
        assert point.throughput.how == {BASELINE: "ML", DYNAMIC: "MA", ETA: "MCA"}[point.row.case], point.row.case
        assert {"M", "L", "A"} <= set(point.efficiency.how)


def test_the_table_has_each_network_once_on_each_machine():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra study")
    blocks = list(characteristics(compared()))
    assert sum(isinstance(block, Figure) for block in blocks) == 3
    (table,) = (block for block in blocks if isinstance(block, Table))
    names = [(row[0], row[1]) for row in table.rows]
    assert len(set(names)) == len(names) == len({(p.benchmark.name, p.row.case) for p in POINTS})
    assert {name for _, name in names} == {CASES[case] for case in (BASELINE, DYNAMIC, ETA)}
    gpu = next(point for point in POINTS if point.row.case == BASELINE)
    kept = footprint(work_of(gpu.benchmark, BASELINE))
    shares = next(row[8] for row in table.rows if row[0] == gpu.benchmark.name and row[1] == CASES[BASELINE])
    assert shares.startswith(f"{kept['intermediates'] / sum(kept.values()):.2f} and ")
