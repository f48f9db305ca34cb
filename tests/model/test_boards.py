"""The time of an iteration on several boards, against sums made by hand."""

from dataclasses import replace

import pytest

from etalstm.model.boards import Links, activations_seconds, gradients_seconds, iteration, network_bytes
from etalstm.network.shape import NetworkShape

NETWORK = NetworkShape(3, 5, 2)
LINKS = Links(pcie=100, network=10, host=1000, latency=0.5)


def test_one_board_exchanges_nothing():
    found = iteration(2.0, 1, NETWORK, 4, 6, LINKS)
    assert (found.machine, found.gradients) == (2.0, 0.0)
    assert found.activations == 4 * 6 * 4 * 2 * (3 + 5) / 100


def test_activations_pass_rank_0_and_each_board_has_its_own_pcie():
    moved = 4 * 6 * 4 * 2 * 8
    assert activations_seconds(4, NETWORK, 4, 6, LINKS) == moved * 0.75 / 10 + moved / 4 / 100


def test_a_layer_is_exchanged_while_the_next_is_read():
    exchange = 2 * 0.75 * 200 / 10 + 2 * 3 * 0.5 + 3 * 200 / 1000
    assert gradients_seconds([200], 4, LINKS) == pytest.approx(200 / 100 + exchange + 200 / 100)
    assert gradients_seconds([200, 200], 4, LINKS) == pytest.approx(200 / 100 + 2 * exchange + 400 / 100)


def test_reading_is_waited_for_where_it_takes_longer():
    links = Links(pcie=1, network=1e9, host=1e9, latency=1e-9)
    assert gradients_seconds([10, 10], 2, links) == pytest.approx(20 + 20)


def test_gradients_move_while_the_layers_below_are_worked_on():
    exchange = 2 * 0.75 * 200 / 10 + 2 * 3 * 0.5 + 3 * 200 / 1000
    hidden = gradients_seconds([200, 200], 4, LINKS, [1.0, 50.0])
    assert hidden == pytest.approx(200 / 100 + exchange + 400 / 100), "only the first layer's are left"
    waiting = gradients_seconds([200, 200], 4, LINKS, [1.0, 0.5])
    assert waiting == pytest.approx(gradients_seconds([200, 200], 4, LINKS) - 0.5), "reading takes longer than 0.5"


def test_all_weights_and_biases_are_exchanged():
    sizes = [4 * 20 * (5 + 5 + 1), 4 * 20 * (3 + 5 + 1)]
    assert iteration(0.0, 2, NETWORK, 4, 6, LINKS).gradients == gradients_seconds(sizes, 2, LINKS)


def test_two_words_of_each_gradient_are_moved_where_whole_sums_are_added():
    sizes = [2 * 4 * 20 * (5 + 5 + 1), 2 * 4 * 20 * (3 + 5 + 1)]
    links = replace(LINKS, gradient_words=2)
    assert iteration(0.0, 2, NETWORK, 4, 6, links).gradients == gradients_seconds(sizes, 2, LINKS)
    assert network_bytes(NETWORK, 4, 6, 2, links) - network_bytes(NETWORK, 4, 6, 2, LINKS) == sum(sizes)


@pytest.mark.parametrize("name", ["pcie", "network", "host", "latency"])
def test_refuses_what_is_not_above_zero(name):
    with pytest.raises(ValueError, match=f"{name} must be above 0, got 0"):
        Links(**{name: 0})
