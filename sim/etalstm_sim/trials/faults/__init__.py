"""Faults put into a simulated machine while it trains, and what becomes of them."""
