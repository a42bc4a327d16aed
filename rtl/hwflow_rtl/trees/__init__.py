"""Ensembles of decision trees: all nodes in every cycle, or a walk of one level a cycle."""
