"""Finds out whether a machine works, and which part of it does not."""
