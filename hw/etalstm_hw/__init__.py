"""The accelerator, described in Amaranth."""
