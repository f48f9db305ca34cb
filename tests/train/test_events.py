"""Event files: what TensorBoard reads in them."""

import struct

import pytest

from etalstm.train.reports import EventFile, masked_crc32c, record


def test_checksums_are_those_of_the_standard():
    """Check value of CRC-32C: 0xE3069283 of "123456789"; a record rotates it by 15 bits and adds a constant."""
    crc = 0xE3069283
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_a_record_has_length_content_and_both_checksums():
    data = record(b"abc")
    length, check = struct.unpack("<QI", data[:12])
    assert (length, check) == (3, masked_crc32c(data[:8]))
    assert data[12:15] == b"abc" and struct.unpack("<I", data[15:]) == (masked_crc32c(b"abc"),)


def test_tensorboard_reads_every_number_at_its_step(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    with EventFile(tmp_path) as events:
        for step in (0, 1, 127, 128, 300_000):
            events.scalars(step, {"train/loss": step / 4, "train/δ": -1.5})
        for value in (float("nan"), float("-inf"), 1e39):
            events.scalars(5, {"train/loss": value})
        events.scalars(6, {"train/δ": 2.0**127})
    read = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert set(read.Tags()["scalars"]) == {"train/loss", "train/δ"}
    assert [(entry.step, entry.value) for entry in read.Scalars("train/loss")] == [
        (step, step / 4) for step in (0, 1, 127, 128, 300_000)
    ]
    assert {entry.value for entry in read.Scalars("train/δ")} == {-1.5, 2.0**127}


def test_steps_that_an_interrupted_run_did_in_vain_are_left_out(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    for resumed_at, steps in ((None, (1, 2, 3)), (1, (2, 3, 4))):
        with EventFile(tmp_path, resumed_at) as events:
            for step in steps:
                events.scalars(step, {"loss": len(steps) + step + (resumed_at or 0) / 2})
    read = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert [(entry.step, entry.value) for entry in read.Scalars("loss")] == [(1, 4.0), (2, 5.5), (3, 6.5), (4, 7.5)]
