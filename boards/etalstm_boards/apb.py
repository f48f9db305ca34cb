"""AMBA APB, the bus of the memory controllers' registers."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

ADDRESS_BITS = 22  # of the registers of a memory stack


class APB(wiring.Signature):
    """APB 3 with 32 data bits, seen from the requester; names as in the standard (ARM IHI 0024)."""

    def __init__(self):
        super().__init__(
            {
                "paddr": Out(ADDRESS_BITS),
                "psel": Out(1),
                "penable": Out(1),
                "pwrite": Out(1),
                "pwdata": Out(32),
                "prdata": In(32),
                "pready": In(1),
                "pslverr": In(1),
            }
        )
