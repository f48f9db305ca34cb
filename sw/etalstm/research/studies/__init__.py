"""Training over what reduces training: many runs, what each learnt and cost, and which reductions cost nothing."""
