"""What `hwflow` and `hwflow_sim` share and what knows nothing of either: errors, files, short forms of objects."""
