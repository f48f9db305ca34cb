"""Declarations of cells: matrices, element-wise operations, what is kept, local gradients.

``cell`` and ``operation`` are the language; ``lstm`` is the example to follow; ``named`` lists the cells that a run may
name.
"""
