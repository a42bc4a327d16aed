"""The shared stage: one matrix array, one rescaler and a frame memory that compute one layer after another.

`steps` is what a program says, `program` its bits; `shape` has the sizes of the hardware, `stage` the component.
"""
