"""From layers to the program of a shared stage: one array, one rescaler and a frame memory that compute them in turn.

`support` says which layers it can compute, `constants` what the rescaler needs room for, `frame_map` where tensors are,
`lowering` makes steps of sweeps, and `compile` all of it.
"""
