"""Changes to a float model's weights and biases that make it lose less when it becomes integer."""
