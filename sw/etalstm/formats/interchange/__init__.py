"""Trained networks in other programs' formats: ONNX (``onnx_read``, ``onnx_write``) and PyTorch's names (``state``)."""
