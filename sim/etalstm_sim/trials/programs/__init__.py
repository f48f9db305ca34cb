"""Valid programs with one field changed, what the contract says of them, and how they end."""
