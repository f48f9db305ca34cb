"""Compressed streams: what :data:`etalstm.hw.contract.STREAM_BLOCK` describes, made and undone word by word."""
