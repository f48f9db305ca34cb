"""The machine that the tests of boards use."""

from etalstm_hw.config import Config

# The smallest whose ports are as wide as the memory's: two channels on each of two ports.
SMALL = Config(
    channels=4, lanes=8, weight_depth=256, scratch_depth=256, queue_depth=64, bias_depth=16, codec_words=2,
    instruction_queue=4, broadcast_words=128, scalar_fifo=4, outstanding_bursts=2, channels_per_port=2, broadcasters=2,
    port_bytes=1 << 28,
)  # fmt: skip
