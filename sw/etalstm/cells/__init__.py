"""Cells, each declared once: what the golden reference runs, the planner emits, and storage is counted by."""
