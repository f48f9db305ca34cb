"""How fast simulators are, and what AXI checkers cost them."""
