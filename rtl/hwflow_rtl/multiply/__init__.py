"""Multipliers, of two operands or by a constant: in multiplier blocks, or in logic (tables and carry chains)."""
