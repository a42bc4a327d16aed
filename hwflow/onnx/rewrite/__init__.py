"""Rewriting of models without change of their meaning: inlining of functions, passes, fresh names."""
