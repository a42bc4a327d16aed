"""The rules that a model must follow: one generator of findings per rule, in files by subject."""
