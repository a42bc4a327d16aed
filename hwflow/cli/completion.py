"""`hwflow completion`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import click
from click.shell_completion import get_completion_class
from hwflow_base.later import later
from hwflow_base.options import OneOf, Option

with later():
    from ..views.console.terminal import Console


@dataclass(frozen=True)
class CompletionRequest:
    """The request of `hwflow completion`."""

    shell: Annotated[str, Option(argument=True, parse=OneOf(("bash", "zsh", "fish")))]


def completion(console: Console, request: CompletionRequest) -> Mapping[str, object]:
    """Print the script with which SHELL completes hwflow's commands, options, boards and files.

    bash: eval "$(hwflow completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish: hwflow completion fish |
    source in ~/.config/fish/config.fish.
    """
    kind = get_completion_class(request.shell)
    assert kind is not None, "click has all of these"
    script = kind(click.Group(), {}, "hwflow", "_HWFLOW_COMPLETE").source()
    if not console.quiet:
        click.echo(script)
    return {"script": script}
