"""Limits that a design on the part should keep to, and the paths that exceed them, with the reason."""

DEEPEST_LEVELS = 12
"""LUTs between two registers: about the most that routes at 250 MHz on a part of this speed."""

LARGEST_SHARE = 0.8
"""Of each resource; the rest is for memory controller, PCIe and routing."""

MOST_USED = 0.95
"""Of each resource, of the part and of each region: what fills more is not routed."""

DEEPER_PATHS = {
    "channel": "as channel.load",
    "channel.load": "a beat is taken from the reader's FIFO in the cycle in which the lane memory has room for it, "
    "which depends on what the element-wise engine writes in that cycle",
    "top.branch": "whose turn it is, by the shares that the tree's registers hold, decides which word of the lane "
    "memories is read, and so whether the STORE engine gets its own and takes the next instruction",
    "top": "as top.sequencer: an instruction leaves if no LOAD_ROWS is expanded and its engine has room",
    "top.sequencer": "when an instruction leaves, the loops decide in the same cycle which one follows, and the buffer "
    "whether it has that one",
    "broadcaster": "as broadcaster.emitter, whose words come from broadcaster.buffer",
    "broadcaster.emitter": "the next nonzero scalar is found in the cycle in which the one before is taken",
}
"""Modules with a deeper path, and why it is there."""
