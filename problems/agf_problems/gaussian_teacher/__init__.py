"""Teacher and student on Gaussian inputs, with the population loss in closed form ([GB24] for one neuron)."""
