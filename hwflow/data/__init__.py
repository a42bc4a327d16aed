"""Rows of data: data files, arrays, and the input shapes that follow from them."""
