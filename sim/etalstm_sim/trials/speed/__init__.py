"""Speed of simulators, and the cost of AXI checkers."""
