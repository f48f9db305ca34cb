"""What a design on the part should keep to, and which of its paths do not, with the reason."""

DEEPEST_LEVELS = 12
"""LUTs between two registers: about what routes at 250 MHz on a part of this speed."""

LARGEST_SHARE = 0.8
"""Of each resource; the rest is for memory controller, PCIe and routing."""

DEEPER_PATHS = {
    "channel": "as channel.load and channel.compute",
    "channel.compute": "whether an element can be computed, its operands' places and the slots of the PEs decide in "
    "the same cycle whether the MAC is, and so which word of the queue is read",
    "channel.load": "a beat is taken from the reader's FIFO in the cycle in which the lane memory has room for it, "
    "which depends on what the element-wise engine writes in that cycle",
    "top.branch": "as channel: what its PEs did in a cycle goes to a register of the counters",
    "broadcaster": "as broadcaster.emitter, whose words come from broadcaster.buffer",
    "broadcaster.emitter": "the next nonzero scalar is found in the cycle in which the one before is taken",
}
"""Modules with a deeper path, and why it is there."""
