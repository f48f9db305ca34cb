"""The map from ports of the accelerator to ports of the memory, and from channels to regions of the chip.

The memory of the cards is 32 pseudo channels of 256 MiB, each with a port of its own. Through the controller's switch
every port reaches the whole memory, and its own pseudo channel with the least delay. If ``port_bytes`` of a
configuration is that size, its channels' windows lie behind their own ports, which are therefore the first ones. Where
ports are left, the next one is the sequencer's, and programs lie behind it. The host sees the memory at address 0 of
its DMA.
"""

from dataclasses import dataclass

from etalstm_boards.axi3 import ADDRESS_BITS, DATA_BITS
from etalstm_hw.config import Config

PORTS = 32
PORT_BYTES = 1 << 28  # of the pseudo channel behind a port
MEMORY_BYTES = PORTS * PORT_BYTES
REGIONS = 3  # of the chip (SLRs); memory and PCIe are in the first


@dataclass(frozen=True)
class PortMap:
    """Ports of the memory by their users. A port has one user, or a channel's port has one other user too.

    Members
    -------
    channels : tuple of int
        For each port that channels share, in the order of :class:`etalstm_hw.machine.top.Top`.
    broadcasters : tuple of int
        Likewise.
    sequencer, host : int
    """

    channels: tuple[int, ...]
    broadcasters: tuple[int, ...]
    sequencer: int
    host: int

    @property
    def accelerator(self) -> tuple[int, ...]:
        """The port of the memory for each of the accelerator's, in its order."""
        return (*self.channels, *self.broadcasters, self.sequencer)

    @property
    def used(self) -> tuple[int, ...]:
        """All connected ports, in ascending order."""
        return tuple(sorted({*self.accelerator, self.host}))

    @property
    def shared(self) -> tuple[int, ...]:
        """The ports with two users, in ascending order."""
        users = (*self.accelerator, self.host)
        return tuple(port for port in self.used if users.count(port) > 1)


def port_map(config: Config) -> PortMap:
    """Give the first ports to the channels, in order, the next to sequencer and broadcasters, and the last to the host.

    So each of the controller's two halves has a used port, from which it takes its clock. Where ports are lacking, the
    first of these other users share ports of channels. The shared ports are spread evenly, over both halves.

    Raises
    ------
    ValueError
        If there are more channel ports, or more other users, than ports, or the accelerator's ports have other widths
        than the memory's, or windows of another size.
    """
    if (config.beat_bits, config.address_bits) != (DATA_BITS, ADDRESS_BITS):
        raise ValueError(
            f"the card's memory ports have {DATA_BITS} bits of data and {ADDRESS_BITS} of address, the accelerator's "
            f"{config.beat_bits} and {config.address_bits}"
        )
    if config.port_bytes != PORT_BYTES:
        raise ValueError(f"behind each of the card's memory ports are {PORT_BYTES} bytes, not {config.port_bytes}")
    of_channels = config.channel_ports
    others = config.ports - of_channels + 1  # sequencer, broadcasters, host
    if max(of_channels, others) > PORTS:
        raise ValueError(
            f"{config.channels} channels, {config.channels_per_port} to a port, need {of_channels} memory ports, "
            f"{config.broadcasters} broadcasters, the sequencer and the host {others}; the card has {PORTS}, and only "
            f"one of either can share one"
        )
    lacking = max(0, others - (PORTS - of_channels))
    spread = [(number + 1) * of_channels // lacking - 1 for number in range(lacking)]
    sequencer, *free = [*spread, *range(of_channels, PORTS)]
    return PortMap(
        channels=tuple(range(of_channels)),
        broadcasters=tuple(free[: others - 2]),
        sequencer=sequencer,
        host=PORTS - 1,
    )


def channels_by_region(config: Config) -> list[int]:
    """Count the channels of each region."""
    regions = [region_of_channel(config, channel) for channel in range(config.channels)]
    return [regions.count(region) for region in range(REGIONS)]


def region_of_channel(config: Config, channel: int) -> int:
    """Give the region of the chip (SLR) of a channel; the channels of a port are together, the regions equally full.

    The first region also has the controllers of memory and host link, so it gets the fewest channels.
    """
    shared = config.channel_ports
    port = channel // config.channels_per_port
    return REGIONS - 1 - (shared - 1 - port) * REGIONS // shared
