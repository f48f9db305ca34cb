"""Latency by size: which sizes of a layer pay, on a preset's machine or on the host."""
