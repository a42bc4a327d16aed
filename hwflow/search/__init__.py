"""Searches for designs: for widths that keep the accuracy, and for points of the design space."""
