"""Tables in ROMs: a function of an integer, and a row of numbers for each integer."""
