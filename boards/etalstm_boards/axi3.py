"""The memory ports of the HBM controller: AXI3, and the connection of an AXI4 manager that keeps its limits."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

ADDRESS_BITS = 33
DATA_BITS = 256
ID_BITS = 6


class AXI3(wiring.Signature):
    """A manager of one HBM port: 256 bits, bursts of at most 16 beats, IDs of 6 bits on every channel.

    The port has no lock, cache, protection and quality signals and no write data IDs (AMD PG276).
    """

    def __init__(self):
        super().__init__(
            self._address("aw")
            | {
                "wdata": Out(DATA_BITS),
                "wstrb": Out(DATA_BITS // 8),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bid": In(ID_BITS),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            }
            | self._address("ar")
            | {
                "rid": In(ID_BITS),
                "rdata": In(DATA_BITS),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )

    def _address(self, channel: str) -> dict:
        return {
            f"{channel}id": Out(ID_BITS),
            f"{channel}addr": Out(ADDRESS_BITS),
            f"{channel}len": Out(4),
            f"{channel}size": Out(3),
            f"{channel}burst": Out(2),
            f"{channel}valid": Out(1),
            f"{channel}ready": In(1),
        }

    def __eq__(self, other):
        return type(self) is type(other)


def connect_port(m, port, manager) -> None:
    """Drive an HBM port with a manager whose bursts have at most 16 beats, as every port of the accelerator does.

    IDs and lengths lose or gain high bits; channels that the manager lacks stay idle.

    Parameters
    ----------
    m : Module
        Where the connections are made.
    port : interface of AXI3
        The module's own, a manager.
    manager : interface of AXI4 or AXI4Read
        The member of a submodule, with the port's widths of data and addresses.
    """
    for name, member in manager.signature.members.items():
        here, there = getattr(port, name), getattr(manager, name)
        m.d.comb += here.eq(there) if member.flow is Out else there.eq(here)
