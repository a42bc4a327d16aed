"""Proofs of the gateware: for all inputs, all stalls and a reset at any time (docs/proofs.md).

`scene` and `contract` say what is claimed, `model`, `methods` and `certificate` decide it with yosys and z3, and the
other modules have the units.  `python -m proofs` proves all of `catalogue`.
"""
