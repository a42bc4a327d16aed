"""Frozen facts of a model, a plan, a routed design and a run: numbers and names, without text for people or HTML."""
