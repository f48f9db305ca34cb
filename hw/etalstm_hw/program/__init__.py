"""From a program in memory to the instructions that engines wait with."""
