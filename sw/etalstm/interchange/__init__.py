"""Models to and from other programs: PyTorch's names, ONNX files."""
