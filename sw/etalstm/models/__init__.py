"""Models around :class:`etalstm.nn.LSTM`; they need the extra ``torch``."""
