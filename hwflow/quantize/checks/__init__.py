"""Safety nets: what a rewrite or the import computes, compared with what it was made of."""
