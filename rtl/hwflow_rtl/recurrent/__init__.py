"""Recurrent layers: a matrix product whose results come back as its next operand, with gates between."""
