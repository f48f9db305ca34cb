"""The comparison of "η-LSTM" (ISCA 2021) anew: eight cases on six networks, by models and measured densities.

``cases`` says what an iteration of each case takes; begin there. ``densities`` and ``energy`` are its inputs,
``claims`` the source's figures beside ours, ``document`` and ``figures`` the page.
"""
