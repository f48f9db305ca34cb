"""Writes what hardware and software agree on for readers: a page, a C header, JSON."""
