"""What figures share."""

from itertools import pairwise

import pytest

from etalstm.host.drawing import log_ticks, pyplot, spread


def test_names_that_would_lie_on_each_other_are_moved_apart_as_little_as_needed():
    assert spread([0.5], 0.25) == [0.5]
    assert spread([0.2, 0.8], 0.25) == [0.2, 0.8]
    assert spread([0.5, 0.5], 0.25) == [0.375, 0.625]


@pytest.mark.parametrize("wanted", [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.5, 0.5, 1.0], []])
def test_names_stay_within_their_panel_and_in_their_order(wanted):
    found = spread(wanted, 0.25)
    assert all(below + 0.25 <= above + 1e-12 for below, above in pairwise(found))
    assert all(0.125 <= at <= 0.875 for at in found)


@pytest.mark.parametrize(
    ("limits", "ticks"), [((0.03, 1.3), [0.05, 0.1, 0.2, 0.5, 1]), ((0.4, 1.3), [0.5, 0.7, 1, 1.2])]
)
def test_a_logarithmic_axis_has_plain_numbers_within_its_limits(limits, ticks):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra study")
    figure, axes = pyplot().subplots()
    axes.set(xscale="log", xlim=limits)
    log_ticks(axes.xaxis)
    assert list(axes.get_xticks()) == pytest.approx(ticks)
    assert [label.get_text() for label in axes.get_xticklabels()] == [f"{tick:g}" for tick in ticks]
    pyplot().close(figure)
