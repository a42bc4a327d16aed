"""Evaluation of models: programs (prepared once, run often), functions, feeds, training."""
