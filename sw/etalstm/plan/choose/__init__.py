"""Choices that a plan leaves open: how it fits the memory (``fit``), how many tokens are shared (``sharing``)."""
