"""Amaranth units of hwflow.  Imports amaranth and numpy only."""
