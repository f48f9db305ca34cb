"""From a network and a configuration to a memory map and programs."""
