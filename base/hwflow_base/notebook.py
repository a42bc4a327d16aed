"""How results show themselves in a notebook: as HTML that the top of the project draws.

A result does not import what draws it, because imports go one way.  So its `_repr_html_` finds the drawing module by
its name, when a notebook asks for it.
"""

from __future__ import annotations

import importlib

#: The module that has `html_of`.
DRAWS = "hwflow.views.page.notebook"


def drawn_html(self: object) -> str:
    """The `_repr_html_` of a class that `html_of` of the module `DRAWS` knows."""
    html: str = importlib.import_module(DRAWS).html_of(self)
    return html
