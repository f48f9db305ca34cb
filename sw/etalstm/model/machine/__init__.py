"""The machine as the model has it: one module for each of the hardware's, which its first line names.

``machine`` has the records of all of them, ``latencies`` the cycles that each part takes.
"""
