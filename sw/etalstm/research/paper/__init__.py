"""The comparison of "η-LSTM" (ISCA 2021) anew: eight cases on six networks, by models and measured densities."""
