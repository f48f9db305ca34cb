"""The computer that this runs on: its processors, its memory, its files, and timing on it."""
