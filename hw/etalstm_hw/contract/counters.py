"""What the machine counts."""

from enum import IntEnum


class Cycle(IntEnum):
    """What a channel's PEs did in a cycle: each cycle of each channel counts once, so the sum is channels × cycles."""

    MAC = 0  #: a MAC was issued
    ELEMENTWISE = 1  #: an element-wise operation was issued to the PEs
    SUMS_PORT = 2  #: MAC held back: the read port of the partial sums served an activation or a store
    HAZARD = 3  #: MAC held back: its partial sum is still in the adder
    BROADCAST_EMPTY = 4  #: MAC held back: no scalar has arrived
    WAIT_LOAD = 5  #: the next MAC instruction waits for weights
    WAIT_VECTOR = 6  #: ... for element-wise work
    WAIT_STORE = 7  #: ... for results to be written
    NO_MAC = 8  #: no MAC instruction is queued, element-wise work or transfers run
    IDLE = 9  #: no engine of the channel has work
    SHARE = 10  #: something was ready, the cycle belonged to work of another kind: lost to fixed SHARES


class Counter(IntEnum):
    """64-bit counters, in the order in which the registers show them."""

    CYCLES = 0  #: clock cycles between start and end
    CYCLE_KINDS = 1  #: one for each Cycle, summed over channels
    MAC_PHASE = 12  #: channel-cycles from a MAC instruction's start to its last MAC
    ACTIVATION = 13  #: activation-unit operations issued (one lane's value each)
    SCALARS_SEEN = 14  #: scalars that the broadcaster had to send
    SCALARS_SKIPPED = 15  #: those of them that were zero, and not sent
    ROWS_SEEN = 16  #: rows of LOAD_ROWS, of one channel
    ROWS_SKIPPED = 17  #: those of them that the map leaves out
    READ_BEATS = 18  #: one for each Traffic, LOAD and CAST, summed over channels; and maps, with DELTAS
    WRITE_BEATS = 22  #: likewise, STORE and TRANSPOSE
    PROGRAM_BEATS = 26  #: beats of instructions that were fetched
    COUNT = 27  #: of counters
