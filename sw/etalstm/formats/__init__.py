"""Formats of data that other programs or the machine read.

``codec`` is the compressed stream of the machine and of the host, ``sealed_stream`` that stream with header and CRC.
``counters`` are the machine's counters as a table. ``interchange`` reads and writes ONNX and safetensors, ``reference``
the pages of the contract between hardware and software.
"""
