"""A plan: what a design is made of and takes; its file, its check, and the core that it says."""
