"""A model of the machine's checks: it executes a program's control, but no arithmetic, and predicts how it ends.

It is written from docs/contract/contract.md, not from the hardware. It shares three things with others:

- etalstm_hw.contract: opcodes, statuses, fields, how an instruction is decoded, widths, limits, and ``cast_sums``.
- etalstm_hw.config: the sizes of a machine.
- etalstm_sim.checks.refusals, which predicts endings by the contract's text: which counts may not be 0, which
  memories, operations, and arrays and places of integers are allowed, and the names of the waits.

A comparison with the model does not find an error in one of them.
"""
