"""Compressed streams: what :data:`etalstm_hw.contract.STREAM_BLOCK` describes, made and undone some words a cycle."""
