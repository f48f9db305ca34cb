"""The cycle model: the plan's own programs through a timing model of the machine, without computing a value.

``machine`` mirrors the hardware, module by module. ``run`` steps it, ``repeats`` leaves out what repeats, ``iteration``
gives the cycles of a training iteration, ``boards`` and ``pipeline`` those of several boards.
"""
