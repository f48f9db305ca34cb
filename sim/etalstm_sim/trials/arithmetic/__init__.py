"""The arithmetic units against references: every word of an activation, corner operands, random pairs."""
