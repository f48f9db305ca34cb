"""AXI4 and AXI4-Lite interfaces with the standard's flat names."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

BURST_BEATS = 16  # the most that AXI3 allows, so that an AXI3 memory controller needs no splitter
BOUNDARY_BYTES = 4096  # no burst may cross a multiple of this
INCR = 1
OKAY, EXOKAY, SLVERR, DECERR = range(4)


class _Bus(wiring.Signature):
    """A manager's bus; two buses of the same kind and sizes are equal."""

    def __init__(self, address_bits: int, data_bits: int, id_bits: int = 0):
        if data_bits not in (8, 16, 32, 64, 128, 256, 512, 1024):
            raise ValueError(f"data_bits must be a power of two, 8 to 1024, got {data_bits}")
        if not 1 <= address_bits <= 64:
            raise ValueError(f"address_bits must be 1 to 64, got {address_bits}")
        if id_bits < 0:
            raise ValueError(f"id_bits must not be negative, got {id_bits}")
        self.address_bits, self.data_bits, self.id_bits = address_bits, data_bits, id_bits
        super().__init__(self._members())

    def _members(self) -> dict:
        raise NotImplementedError

    def _identified(self, channel: str, flow) -> dict:
        return {f"{channel}id": flow(self.id_bits)} if self.id_bits else {}

    def _address(self, channel: str) -> dict:
        return self._identified(channel, Out) | {
            f"{channel}addr": Out(self.address_bits),
            f"{channel}len": Out(8),
            f"{channel}size": Out(3),
            f"{channel}burst": Out(2),
            f"{channel}valid": Out(1),
            f"{channel}ready": In(1),
        }

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return self.data_bits // 8

    def __eq__(self, other):
        return type(self) is type(other) and self.members == other.members

    def __repr__(self):
        return f"{type(self).__name__}({self.address_bits}, {self.data_bits}, {self.id_bits})"


class AXI4Read(_Bus):
    """The read channels of an AXI4 manager. Without ID bits there are no ID signals."""

    def _members(self):
        return (
            self._address("ar")
            | self._identified("r", In)
            | {
                "rdata": In(self.data_bits),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class AXI4Write(_Bus):
    """The write channels of an AXI4 manager. Without ID bits there are no ID signals."""

    def _members(self):
        return (
            self._address("aw")
            | {
                "wdata": Out(self.data_bits),
                "wstrb": Out(self.data_bits // 8),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
            }
            | self._identified("b", In)
            | {"bresp": In(2), "bvalid": In(1), "bready": Out(1)}
        )


class AXI4(_Bus):
    """All channels of an AXI4 manager: those of :class:`AXI4Write` and of :class:`AXI4Read`."""

    def _members(self):
        return AXI4Write._members(self) | AXI4Read._members(self)


class AXI4Lite(wiring.Signature):
    """An AXI4-Lite manager."""

    def __init__(self, address_bits: int, data_bits: int = 32):
        if data_bits not in (32, 64):
            raise ValueError(f"data_bits must be 32 or 64, got {data_bits}")
        super().__init__(
            {
                "awaddr": Out(address_bits),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(data_bits),
                "wstrb": Out(data_bits // 8),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(address_bits),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(data_bits),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )

    def __eq__(self, other):
        return type(self) is type(other) and self.members == other.members


def join(m, port, *managers):
    """Drive a port with the channels of several managers, say a reader's and a writer's.

    Signals of the port that no manager has (an ID, say) stay 0; a channel may be had by one manager only.

    Parameters
    ----------
    m : Module
        Where the connections are made.
    port : interface of AXI4
        The module's own port, a manager.
    managers : interfaces of AXI4Read or AXI4Write
        Managers: the members of submodules.
    """
    for manager in managers:
        for name, member in manager.signature.members.items():
            here, there = getattr(port, name), getattr(manager, name)
            m.d.comb += here.eq(there) if member.flow is Out else there.eq(here)
