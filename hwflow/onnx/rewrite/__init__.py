"""Rewriting of models: inlining of functions, passes that keep the meaning, fresh names."""
