"""The machines that the tests of boards use, and which port of the memory is whose."""

from dataclasses import replace

from etalstm_boards.ports import PortMap, port_map
from etalstm_hw.config import Config

# The smallest whose ports are as wide as the memory's: two channels on each of two ports.
SMALL = Config(
    channels=4, lanes=8, weight_depth=256, scratch_depth=256, queue_depth=64, bias_depth=16, codec_words=2,
    instruction_queue=4, broadcast_words=128, scalar_fifo=4, outstanding_bursts=2, channels_per_port=2, broadcasters=2,
    port_bytes=1 << 28,
)  # fmt: skip
# Each channel has a port, which it shares with one of the other users, as on a memory that has no more ports.
SHARED = replace(SMALL, channels_per_port=1)
MACHINES = {
    "small": (SMALL, port_map(SMALL)),
    "shared": (SHARED, PortMap(channels=(0, 1, 2, 3), broadcasters=(1, 2), sequencer=0, host=3)),
}
MACHINE = "MACHINE"  # the environment variable that tells a bench the name of its machine
