"""Studies on top of the accelerator. Nothing but the command line imports them.

``paper`` makes the comparison of the source paper anew, ``studies`` trains many times and compares, ``compress`` grows
and prunes networks, ``translate`` is a translation model, ``profile`` says which sizes pay, ``reduced`` and ``layouts``
are the ideas in plain PyTorch, ``endurance`` kills a long run again and again, and resumes it.
"""
