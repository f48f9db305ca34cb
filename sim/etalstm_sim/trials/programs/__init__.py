"""Programs that are right but for one field, what the contract says of them, and how they end."""
