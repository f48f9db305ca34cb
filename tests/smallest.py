"""Machines of presets with few channels: control and arithmetic are the preset's, elaborated and compiled sooner."""

from dataclasses import replace

from etalstm_hw.config import Config


def smallest(config: Config) -> Config:
    """The machine of a preset with no more channels than share a port."""
    channels = config.channels_per_port
    return replace(config, channels=channels, broadcasters=min(channels, config.broadcasters), port_bytes=0)
