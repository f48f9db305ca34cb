"""η-LSTM: an open accelerator that trains LSTMs, and the software that drives it."""
