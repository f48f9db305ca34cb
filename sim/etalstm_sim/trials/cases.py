"""Numbered cases: the common seed and the number determine a case."""


def check_cases(count: int, seed: int, first: int) -> range:
    """Give the numbers of `count` cases from number `first` on.

    Raises
    ------
    ValueError
        If `count` is not above 0, or another number is below 0.
    """
    if count < 1 or seed < 0 or first < 0:
        raise ValueError(f"count must be above 0, seed and first not below, got {count}, {seed} and {first}")
    return range(first, first + count)
