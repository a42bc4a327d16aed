"""From the request of a command to its words and back, over click.

`parameters` makes click's parameters of a dataclass of options, and its object of their values; `command` has the
commands, `project_file` what `hwflow.toml` gives them, `help` what `--help` shows.
"""
