"""Random models, layer graphs and operators for tests.

A generator is a function of a source of choices `rng`.  numpy's generators are one such source, and give the case of a
seed.  `drawing.Drawing` is another: hypothesis makes the choices, and finds a small case where a large one fails.
"""
