"""Changes to the weights and biases of a float model that reduce its loss of accuracy by quantization."""
