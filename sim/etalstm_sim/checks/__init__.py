"""A model of the machine's checks: it executes a program's control, computes no value, and tells how the program ends.

It is written from docs/contract/contract.md, not from the hardware. Three things are not its own:

- etalstm_hw.contract: opcodes, statuses, fields, how an instruction is decoded, widths, limits, and ``cast_sums``.
- etalstm_hw.config: the sizes of a machine.
- etalstm_sim.checks.refusals, which predicts what the contract's text says: which counts may not be 0, and the
  names of the waits.

An error in one of them is not noticed by a comparison with the model. Nothing else is shared.
"""
