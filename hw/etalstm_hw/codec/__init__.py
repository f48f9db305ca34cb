"""Compressed streams: what :data:`etalstm_hw.contract.STREAM_BLOCK` describes, made and undone.

``compress`` and ``decompress`` take a whole beat a cycle, ``buffered`` one ahead, whole or some words at a time. ``select`` moves kept elements
together; ``words`` joins streams of words to beats of memory.
"""
