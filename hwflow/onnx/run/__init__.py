"""Evaluation: models prepared once as programs, functions, feeds, training."""
