"""Facts as lines and tables of a terminal."""
