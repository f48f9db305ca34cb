"""``eta-lstm verify``: devices against each other, arithmetic against integers, faults, programs, coverage."""
