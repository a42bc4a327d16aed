"""`python -m hwflow.cli`, the same as `hwflow`."""

from .entry import main

main()
