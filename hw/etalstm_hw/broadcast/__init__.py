"""The broadcaster: reads blocks from memory and sends their nonzero scalars to every channel.

``broadcaster`` is the component; begin there. In the order of the data: ``requests`` executes CAST, ``fetcher`` fills
the buffers of ``blocks``, ``masks`` remembers what is zero, ``walker`` steps through what is not, ``emitter`` sends it.
"""
