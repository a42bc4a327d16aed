"""The search for layers that share a stage, and the choice between ways to compute a graph."""
