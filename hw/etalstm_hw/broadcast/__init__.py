"""The broadcaster: reads blocks from memory and sends their nonzero scalars to every channel."""
