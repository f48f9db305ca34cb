"""Cycles between the middle of the machine and its channels: plain numbers, for hardware and timing model alike."""

TRUNK_STAGES = 3
"""The first register lies in the middle, and each of the two borders between regions of the chip has one behind it."""

LEAF_STAGES = 1

STAGES = TRUNK_STAGES + LEAF_STAGES
"""Cycles from the middle to a channel, and from a channel to the middle."""

JOIN_STAGES = 1
"""What the branches say of room is joined in a register."""

ROUND_TRIP = 2 * STAGES + JOIN_STAGES + 1
"""The most that arrives after a receiver has said that it has no room: what is sent until the sender knows of it."""

SETTLING = ROUND_TRIP + 2
"""Until a reset has come to every channel, and what a channel says after that has come back."""
