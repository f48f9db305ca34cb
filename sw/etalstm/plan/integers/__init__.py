"""Plans with integers: how layers are divided, where integers lie, and the programs of their products."""
