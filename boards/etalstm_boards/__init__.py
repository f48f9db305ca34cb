"""The accelerator on cards: clocks, memory, host link, and the files that Vivado makes a bitstream of."""
