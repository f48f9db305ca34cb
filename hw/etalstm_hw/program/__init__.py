"""Programs in the machine: ``buffer`` fetches, ``loops`` repeats, ``dispatch`` hands out; ``sequencer`` joins them.

``rows`` makes LOADs of the rows of weights that are needed, which ``rowmaps`` reads.
"""
