"""Integer products and their exact sums.

``pe`` is the Omni-PE of integers, ``lane`` many of them with what collects their sums, ``array`` the lanes of a channel
under one control, ``products`` their engine. ``sequences`` keeps an array of integers, and ``sender`` broadcasts it.
``unit`` leads from sums to words (``convert``) and from words to integers (``quantise``).
"""
