"""Limits that a design on the part should keep to. They hold for every module; none is exempt."""

GOAL_LEVELS = 8
"""Levels between two registers that route at 250 MHz: a period of 4 ns, a level of about 0.5 ns with its net.

A cloud vendor's shell for a part of this family asks for a report above ten.
"""

MOST_LEVELS = 10
"""Levels that are allowed now: those of the deepest paths of both boards' presets, so that no path gets deeper.

A path above :data:`GOAL_LEVELS` does not close at 250 MHz. The report lists the modules that have one. Whoever shortens
the deepest path lowers this number.
"""

LARGEST_SHARE = 0.8
"""Of each resource; the rest is for memory controller, PCIe and routing."""

MOST_USED = 0.95
"""Of each resource, of the part and of each region: what fills more is not routed."""
