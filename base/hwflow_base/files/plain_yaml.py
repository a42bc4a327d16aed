"""YAML files that a user writes, read so that no text can do harm: plain values, no references, no deep nesting."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

#: No file that somebody writes for a model that becomes hardware is longer.
MAX_CHARACTERS = 1 << 22

#: A mapping of a file whose schema was checked: its values have the types that the schema names.
Entry = Mapping[str, Any]


class NotPlainYaml(Exception):
    """Why a text cannot be read, and in which line and column, from 1, where that is known."""

    def __init__(self, problem: str, mark: yaml.Mark | None = None):
        super().__init__(problem)
        self.problem = problem
        self.line = mark.line + 1 if mark else None
        self.column = mark.column + 1 if mark else None


def plain_yaml(text: str) -> Any:
    """The values of `text`; keys are always texts.  Raises NotPlainYaml, whatever is wrong."""
    if len(text) > MAX_CHARACTERS:
        raise NotPlainYaml(f"it must have at most {MAX_CHARACTERS} characters, not {len(text)}")
    try:
        return yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
        raise NotPlainYaml(problem, getattr(error, "problem_mark", None)) from None
    except RecursionError:
        raise NotPlainYaml("it is nested too deeply") from None
    except (ValueError, AttributeError, KeyError, TypeError) as error:  # what the library raises for values of a tag
        problem = str(error) if isinstance(error, ValueError) else "a value is not of the type of its tag"
        raise NotPlainYaml(problem) from None


def short(text: str, most: int = 60) -> str:
    """A text of the file as it stands in a message: at most so many characters of it, from both ends."""
    return text if len(text) <= most else f"{text[:most // 2]} ... {text[-(most // 2):]}"


class Loader(yaml.SafeLoader):
    """Plain YAML: every key is the text that stands there, none stands twice, nothing refers to something else."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "references (*) are not read here", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        mapping: dict[Hashable, object] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a name", key.start_mark)
            if key.value in mapping:
                message = f"the key '{short(key.value)}' must be given once, not twice"
                raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
            mapping[key.value] = self.construct_object(value, deep=True)
        return mapping


# Numbers as people and YAML 1.2 write them: in YAML 1.1, which the library reads, 1e5 and 1e-3 are texts.
Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
                             list("-+.0123456789"))
