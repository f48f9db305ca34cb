"""What of the machine the simulated programs reach: instructions in every situation, and the control logic's bits."""
