"""The contract's registers and instructions, as Markdown, JSON and a C header."""
