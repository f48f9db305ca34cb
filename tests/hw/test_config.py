"""A configuration that cannot be is refused, with the values that do not go together."""

from dataclasses import replace

import pytest

from etalstm.hw.config import preset


def test_channels_share_the_memory_behind_their_port():
    assert preset("vcu128").share_bytes == 128 << 20
    assert preset("test").share_bytes == 0


def test_the_slice_is_the_board_with_fewer_channels():
    board, part = preset("vcu128"), preset("slice")
    assert part == replace(board, channels=part.channels, broadcasters=part.broadcasters)
    assert part.broadcasters == max(part.group_counts)
    assert part.channels % board.channels_per_port == 0 and part.channels > board.channels_per_port


def test_there_is_no_number_format_to_choose():
    """Activation and codec refuse anything but binary32, so a configuration must not offer it."""
    assert "format" not in preset("test").as_dict()


@pytest.mark.parametrize(("name", "counts"), [("vcu128", (1, 2, 4, 5)), ("slice", (1, 2, 4)), ("bench", (1,))])
def test_groups_are_equal_and_each_has_a_broadcaster(name, counts):
    assert preset(name).group_counts == counts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"port_bytes": -8192}, "port_bytes must be a multiple of 8192, 2 windows of whole pages, got -8192"),
        ({"port_bytes": 4096}, "port_bytes must be a multiple of 8192, 2 windows of whole pages, got 4096"),
        ({"port_bytes": 1 << 29}, "port_bytes of 20 ports must be within 8589934592 addresses, got 536870912 each"),
        ({"channels": 41}, r"channels_per_port must divide channels \(41\), got 2"),
        ({"broadcasters": 3}, r"broadcasters must divide channels \(40\), got 3"),
        ({"broadcasters": 16}, "broadcasters must be 1 to 15, got 16"),
        ({"lanes": 24}, "lanes must be a power of two, got 24"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(preset("vcu128"), **change)
