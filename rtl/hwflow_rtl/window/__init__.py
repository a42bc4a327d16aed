"""The sliding window over a frame: its line buffer, its schedule and its addresses."""
