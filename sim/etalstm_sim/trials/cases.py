"""Numbered cases: a case is the seed of all of them and its number."""


def check_cases(count: int, seed: int, first: int) -> range:
    """Give the numbers of so many cases from the first one on.

    Raises
    ------
    ValueError
        If `count` is not above 0, or another number is below 0.
    """
    if count < 1 or seed < 0 or first < 0:
        raise ValueError(f"count must be above 0, seed and first not below, got {count}, {seed} and {first}")
    return range(first, first + count)
