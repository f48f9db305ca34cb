"""A machine whose channels share a memory port."""

from dataclasses import replace

from etalstm.hw.config import preset

SHARED = replace(preset("test"), channels=4, channels_per_port=4, outstanding_bursts=8)
