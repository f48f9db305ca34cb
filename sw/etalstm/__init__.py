"""η-LSTM: an open accelerator that trains LSTMs, and the software that drives it.

``network`` says what is computed, ``golden`` computes it exactly, ``plan`` makes programs of it, ``model`` counts their
cycles, and ``device`` runs them. ``train`` (the package's own trainer) and ``nn`` (PyTorch) learn on any device.
``data`` has data sets, ``formats`` what is written for other programs, ``host`` what concerns this computer, ``cli``
the command line, ``research`` the studies. Begin with :func:`etalstm.device.open_device`, or with ``etalstm.nn.LSTM``.
"""
