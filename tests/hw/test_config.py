"""A configuration that cannot be is refused, with the values that do not go together."""

from dataclasses import replace

import pytest

from etalstm_hw.config import preset


def test_channels_share_the_memory_behind_their_port():
    assert preset("vcu128").local_window_bytes == 128 << 20
    assert preset("test").local_window_bytes == 0


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


def write(path, text):
    path.write_text(text)
    return str(path)


def test_a_file_says_what_differs_from_a_preset(tmp_path):
    text = 'base = "slice"\nchannels = 8\nclock_mhz = 200\n'
    assert preset(write(tmp_path / "mine.toml", text)) == replace(preset("slice"), channels=8, clock_mhz=200)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("channels = 8", "base must be one of test, .*, got None"),
        ("base = 3", "base must be one of test, .*, got 3"),
        ('base = "mine"', "base must be one of test, .*, got 'mine'"),
        ('base = "test"\nlane = 8', "there is no 'lane', expected some of: channels, lanes, "),
        ('base = "test"\nlanes = "8"', "lanes must be an integer, got '8'"),
        ('base = "test"\nlanes = 8.0', "lanes must be an integer, got 8.0"),
        ('base = "test"\nscratch_reads = true', "scratch_reads must be an integer, got True"),
        ('base = "test"\nscratch_banks = 2', "scratch_banks must be 1 with 2 scratch_reads, got 2"),
        ('base = "test"\nclock_mhz = nan', "clock_mhz must be positive, got nan"),
        ('base = "test"\nlanes = 24', "lanes must be a power of two, got 24"),
        ("base = ", "Invalid value"),
        ('base = "\udcff"', "can't decode byte 0xff in position 8"),
    ],
)
def test_a_file_that_describes_no_configuration_is_named(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=f"^{path}: .*{message}"):
        preset(str(path))


def test_an_unknown_name_says_that_a_file_would_do():
    with pytest.raises(ValueError, match=r"unknown preset 'mine', expected one of: .*; or a file that ends in \.toml"):
        preset("mine")
