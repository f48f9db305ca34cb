"""A machine as a device: what lies in its memory, and which program runs when.

``hardware`` is the device, ``session`` a network on it, ``accelerator`` the registers and programs behind both, and
``parts`` works on batches that are too large for the memory.
"""
