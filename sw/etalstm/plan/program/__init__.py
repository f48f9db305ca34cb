"""Programs under construction.

``emit`` is what passes call: instructions in terms of arrays. ``program`` collects them, ``tracker`` finds what each
has to wait for, ``fold`` makes loops and machine words of them, ``walk`` executes a finished program's control.
"""
