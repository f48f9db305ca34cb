"""Registers whose values are operands of element-wise work."""

PARAMETERS = 16
PARAMETER_ONE = 0  # as an operand 1.0, whatever the register keeps
PARAMETER_ZERO = 1  # as an operand +0.0, likewise
PARAMETER_MINUS_ZERO = 2  # as an operand -0.0, likewise: x + -0.0 is x for every x
PARAMETER_SCALE = 3  # what gradients are multiplied by: clipping
PARAMETER_WEIGHT_DECAY = 4
PARAMETER_MOMENTUM = 5
PARAMETER_MINUS_LEARNING_RATE = 6
PARAMETER_INPUT_THRESHOLDS = 3  # in a forward pass, the first of five: thresholds of what is broadcast
MOST_INPUT_THRESHOLDS = 5
PARAMETER_THRESHOLDS = 8  # the first of six: thresholds of P_i, P_f, P_g, P_o, P_s, P_r
PARAMETER_DELTA_THRESHOLD = 14  # of the gradients of gates
PARAMETER_NEEDED_SCALE = 15  # what gradients of gates are multiplied by: those below their threshold become ±0
PARAMETER_INPUT_SCALES = 14  # in a forward pass, the first of two: what changes of x and h are multiplied by, likewise
MOST_INPUT_SCALES = 2
