"""Between the lane memories and the memory ports: the engines of LOAD, STORE and TRANSPOSE.

``load`` and ``store`` are the engines; begin there. ``requests``, ``index`` and ``indexed`` say what is read,
``vectors`` and ``scatter`` what is written and where, ``walker`` steps through the lanes. ``log`` appends compressed
streams, ``transpose`` turns squares.
"""
