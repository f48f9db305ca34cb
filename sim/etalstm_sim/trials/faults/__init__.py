"""Faults that are injected into a simulated machine while it trains, and their outcomes."""
