"""The memory port of channels that share it, in the model."""

from dataclasses import replace

import numpy as np

from etalstm.model.machine import axi
from etalstm.model.machine.axi import READ_PORT, READER, WRITE_PORT, WRITER
from etalstm.model.machine.state import CAST, DONE, NEVER, PARTS, STORE
from etalstm_hw.config import preset
from etalstm_sim.trials.model.compare import compare
from etalstm_sim.trials.model.configurations import Configuration
from tests.model.python import from_python

step_read_port, step_write_port = from_python(axi.step_read_port, axi.step_write_port)
LATENCY, LENGTH, UNLIMITED = 10, 8, 64


def readers_that_offer(count, cycle):
    readers = np.zeros(count, READER)
    readers["offered"], readers["lengths"], readers["tail"] = cycle, LENGTH, 1
    return readers


def first_beats(readers, outstanding):
    """Give the cycle of each reader's first beat."""
    port, wakes = np.zeros(1, READ_PORT)[0], np.zeros((len(readers), PARTS), np.int64)
    for cycle in range(4 * (LATENCY + LENGTH)):
        step_read_port(cycle, port, readers, outstanding, LATENCY, wakes)
    return readers["starts"][:, 0].tolist()


def test_a_reader_that_is_alone_has_no_register_before_the_memory():
    assert first_beats(readers_that_offer(1, 5), UNLIMITED) == [5 + LATENCY]


def test_readers_are_served_in_turn_the_one_behind_the_last_first():
    second = 5 + 1 + LATENCY
    assert first_beats(readers_that_offer(2, 5), UNLIMITED) == [second + LENGTH, second]


def test_an_address_waits_for_the_end_of_a_burst_that_is_in_flight():
    ends = 5 + 1 + LATENCY + LENGTH - 1
    assert first_beats(readers_that_offer(2, 5), 1) == [ends + 1 + 1 + LATENCY, 5 + 1 + LATENCY]


def answers_of(count, offered):
    """Give the cycle of the response to each writer's burst; a beat is always there."""
    writers, port = np.zeros(count, WRITER), np.zeros(1, WRITE_PORT)[0]
    writers["offered"], writers["lengths"], writers["tail"] = offered, LENGTH, 1
    done, wakes = np.zeros((count, CAST + 1), DONE), np.zeros((count, PARTS), np.int64)
    writers["finals"] = 1
    for cycle in range(4 * (LATENCY + LENGTH)):
        writers["shown_from"] = np.minimum(writers["shown_from"], cycle)
        step_write_port(cycle, port, writers, done, wakes, wakes, LATENCY)
    assert (writers["offered"] == NEVER).all() and (done[:, STORE]["count"] == 1).all()
    return writers["answers"][:, 0].tolist()


def test_data_are_taken_from_the_cycle_after_their_address_on():
    assert answers_of(1, 5) == [5 + LENGTH + LATENCY]


def test_data_go_out_in_the_order_of_their_addresses():
    of_second = 5 + 1 + LENGTH + LATENCY
    assert answers_of(2, 5) == [of_second + LENGTH, of_second]


def test_channels_that_share_a_port_drift_apart_as_in_the_verilog():
    machine = replace(preset("test"), channels=4, channels_per_port=4, outstanding_bursts=8)
    found = compare(Configuration("shared", "test", 9, 20, 2, 7, 4), machine)
    assert found["model_cycles"] == found["cycles"]
