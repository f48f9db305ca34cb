"""Compressed streams: what :data:`etalstm_hw.contract.STREAM_BLOCK` describes, made and undone.

``compress`` and ``decompress`` take a whole beat a cycle, ``buffered`` some words of it. ``select`` moves kept elements
together; ``words`` joins streams of words to beats of memory.
"""
