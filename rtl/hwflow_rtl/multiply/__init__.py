"""Products and constant factors: in multiplier blocks, or in tables and carry chains."""
