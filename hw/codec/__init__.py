"""Compressed streams: what :data:`etalstm.hw.contract.STREAM_BLOCK` describes, made and undone some words a cycle."""
