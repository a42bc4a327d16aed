"""New weights for a routed design: what the design was made of, and its new contents."""
