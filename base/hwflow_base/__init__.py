"""The parts that `hwflow` and `hwflow_sim` share: errors, files, short forms of objects.  Imports neither of them."""
