"""Measurements, not tests: `python -m bench` runs them and writes docs/measurements.

A section of the report is a function from `Bench` to Markdown in `bench.sections`; one that needs more than the
command line is a program of its own beside it (`quantization`, `simulation_speed`).
"""
