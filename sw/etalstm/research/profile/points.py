"""Hysteresis points: the sizes of a layer that pay."""

from collections.abc import Mapping


def hysteresis_points(latencies: Mapping[int, float | None], tolerance: float = 0.0) -> tuple[int, ...]:
    """Give the sizes that are faster than every larger size.

    A size is a hysteresis point if the latency of each larger size is above ``(1 + tolerance)`` times its own. Any
    other size never pays: some larger network is as fast, or slower by `tolerance` at most. The largest size of a sweep
    is a point, because nothing larger was looked at. With tolerance 0 this is the definition of Yin et al.: within a
    bin smaller sizes are not faster than the point.

    Parameters
    ----------
    latencies : mapping
        From a size to its latency, in any unit; None where a machine cannot hold the size, which is no point.
    tolerance : float
        At least 0.

    Returns
    -------
    tuple of int
        In ascending order.

    Raises
    ------
    ValueError
        If the tolerance is below 0 or no number.
    """
    check_tolerance(tolerance)
    points, fastest = [], float("inf")
    for size in sorted(latencies, reverse=True):
        latency = latencies[size]
        if latency is None:
            continue
        if fastest > (1 + tolerance) * latency:
            points.append(size)
        fastest = min(fastest, latency)
    return tuple(reversed(points))


def never_pays(latencies: Mapping[int, float | None], tolerance: float = 0.0) -> float:
    """Give the share of the sizes that are no hysteresis points, of those that the machine can hold; 0 without any.

    Yin et al. call it the architecture space's redundancy. Raises as :func:`hysteresis_points`.
    """
    held = sum(latency is not None for latency in latencies.values())
    return 1 - len(hysteresis_points(latencies, tolerance)) / held if held else 0.0


def check_tolerance(tolerance: float) -> None:
    """Raise ``ValueError`` if a tolerance is below 0 or no number."""
    if not 0 <= tolerance < float("inf"):
        raise ValueError(f"tolerance must be at least 0 and finite, got {tolerance!r}")
