"""How the passes read weights: as the float32 that the update works on, or rounded to bfloat16.

``float32``
    The passes read the weights.
``bf16``
    The passes read copies of the weights, rounded to nearest even at load and at each update. Weights, biases, their
    gradients and velocities stay float32, and so do all products and sums. A weight above the largest bfloat16
    (3.39e38) is rounded to an infinity.
"""

FLOAT32, BF16 = "float32", "bf16"  # weights in bf16 are what the contract calls narrow
WEIGHT_FORMATS = (FLOAT32, BF16)


def check_weight_format(name: str) -> str:
    """Give the name of a weight format, or raise ``ValueError`` if there is none of that name."""
    if name not in WEIGHT_FORMATS:
        raise ValueError(f"weight_format must be one of {', '.join(WEIGHT_FORMATS)}, got {name!r}")
    return name
