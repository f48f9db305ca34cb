"""Finds out whether a machine works, and which part of it does not: ``selftest`` runs the checks in their order."""
