"""The output for people: the console, tables, one module for each report."""
