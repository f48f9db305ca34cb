"""The character devices, played by ordinary files and a pipe: the system calls are the same."""

import fcntl
import os
import subprocess
import sys

import numpy as np
import pytest

from etalstm.device.cards.nodes import CharacterNodes, LockedError
from etalstm.device.cards.xdma import CardError, XdmaTransport
from etalstm_hw.config import preset
from etalstm_hw.contract import (
    BIT_ERRORS_KNOWN,
    BIT_ERRORS_SHIFT,
    BOARD_SPACE_BYTES,
    BoardRegister,
    BoardStatus,
    Register,
)

MEMORY = np.random.default_rng(1).integers(0, 256, 1 << 16, np.uint8)


@pytest.fixture
def nodes(tmp_path):
    (tmp_path / "xdma0_c2h_0").write_bytes(MEMORY.tobytes())
    (tmp_path / "xdma0_h2c_0").write_bytes(bytes(MEMORY.size))
    (tmp_path / "xdma0_user").write_bytes(bytes(BOARD_SPACE_BYTES))
    os.mkfifo(tmp_path / "xdma0_events_0")
    for name in ("xdma0_control", "xdma10_user", "xdma2_h2c_3", "xdmaX_user", "null"):
        (tmp_path / name).touch()
    return CharacterNodes(tmp_path)


def test_cards_are_found_by_their_nodes(nodes):
    assert nodes.cards() == {0: ["c2h_0", "events_0", "h2c_0", "user"], 2: ["h2c_3"], 10: ["user"]}


def test_memory_is_read_and_written_at_an_address(nodes, tmp_path):
    node = nodes.open("xdma0_c2h_0")
    read = np.zeros(1000, np.uint8)
    assert node.read(4100, memoryview(read)) == 1000
    np.testing.assert_array_equal(read, MEMORY[4100:5100])
    assert node.read(MEMORY.size - 8, memoryview(read)) == 8
    node.close()
    node = nodes.open("xdma0_h2c_0")
    assert node.write(12, memoryview(read)) == 1000
    node.close()
    assert (tmp_path / "xdma0_h2c_0").read_bytes()[12:1012] == read.tobytes()


def test_registers_are_mapped(nodes, tmp_path):
    node = nodes.open("xdma0_user")
    node.store(0x104, 0xDEADBEEF)
    assert (node.load(0x104), node.load(0x100)) == (0xDEADBEEF, 0)
    node.close()
    assert (tmp_path / "xdma0_user").read_bytes()[0x104:0x108] == bytes.fromhex("efbeadde")


def test_an_event_is_taken_once(nodes, tmp_path):
    node = nodes.open("xdma0_events_0")
    assert not node.poll(0.01)
    driver = os.open(tmp_path / "xdma0_events_0", os.O_WRONLY)
    os.write(driver, (1).to_bytes(4, "little"))
    assert node.poll(5) and not node.poll(0)
    os.close(driver)
    node.close()


def test_the_lock_is_seen_by_other_processes_and_ends_with_its_node(nodes, tmp_path):
    program = f"import fcntl; fcntl.flock(open({str(tmp_path / 'xdma0_user')!r}), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    node = nodes.open("xdma0_user")
    node.lock()
    assert b"BlockingIOError" in subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE).stderr
    node.close()
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_the_holder_of_a_lock_is_named(nodes, tmp_path):
    program = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program, tmp_path / "xdma0_user"], **pipes) as other:
        other.stdout.readline()
        node = nodes.open("xdma0_user")
        with pytest.raises(LockedError) as caught:
            node.lock()
        other.communicate(b"\n")
    assert caught.value.pid == other.pid
    node.lock()
    with open(tmp_path / "xdma0_user") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    node.close()


def test_a_missing_node_is_an_os_error(nodes):
    with pytest.raises(FileNotFoundError):
        nodes.open("xdma7_user")


def test_the_whole_driver_works_over_files(tmp_path):
    """Both directions lead to one file, as they do to one memory."""
    config = preset("test")
    registers = np.zeros(BOARD_SPACE_BYTES // 4, np.uint32)
    registers[BoardRegister.STATUS // 4] = BoardStatus.UP
    registers[BoardRegister.TEMPERATURE // 4] = 33 | 44 << 8
    registers[BoardRegister.BIT_ERRORS // 4] = BIT_ERRORS_KNOWN | 1 << BIT_ERRORS_SHIFT | 7
    registers[Register.PRESET // 4] = config.digest
    (tmp_path / "xdma3_user").write_bytes(registers.tobytes())
    (tmp_path / "xdma3_h2c_0").write_bytes(bytes(1 << 20))
    os.link(tmp_path / "xdma3_h2c_0", tmp_path / "xdma3_c2h_0")
    os.mkfifo(tmp_path / "xdma3_events_0")
    files = CharacterNodes(tmp_path)
    with XdmaTransport(config, 3, nodes=files, memory_bytes=1 << 20, chunk_bytes=4096) as transport:
        for address, size in ((0, 1 << 20), (4, 70000), (65532, 4)):
            sent = np.random.default_rng(size).integers(0, 256, size, np.uint8)
            transport.write_memory(address, sent)
            np.testing.assert_array_equal(transport.read_memory(address, size), sent)
        assert transport.read_register(Register.PRESET) == config.digest
        assert transport.condition() == "memory at 33 and 44 °C, 7 bit errors corrected, 1 words lost"
        assert not transport.wait(0.01)
        with pytest.raises(CardError, match=f"xdma:3 is in use by process {os.getpid()}"):
            XdmaTransport(config, 3, nodes=files)
    XdmaTransport(config, 3, nodes=files).close()
