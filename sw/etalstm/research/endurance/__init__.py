"""A long training run that meets trouble again and again (``troubles``), beside one that is left alone."""
