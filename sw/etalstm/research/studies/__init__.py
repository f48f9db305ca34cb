"""Training with reductions: many runs, their scores and costs, and the reductions that cost no accuracy."""
