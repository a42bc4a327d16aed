"""The hardware of hwflow: Amaranth components (units), each with a numpy model.  Imports only amaranth and numpy."""
