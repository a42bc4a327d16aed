"""Graphs as pictures: the nodes of a model, the stages of a design, the frontier of a search."""
