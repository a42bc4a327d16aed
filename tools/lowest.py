"""Print the lowest versions that pyproject.toml allows, as constraints for pip: `make test-lowest` installs them.

    python3 tools/lowest.py > FILE

Of the lowest release series (`1.2` of `>=1.2`) the newest fix is taken.  A dependency of a dependency has no bound
here: pip chooses its version.
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def lowest(requirements: list[str]) -> list[str]:
    """`name==1.2.*` for each `name>=1.2,...`; a requirement without a lower bound gives nothing."""
    found = (re.match(r"([\w-]+)(?:\[[\w,-]+\])?>=([\w.]+)", requirement) for requirement in requirements)
    return [f"{match[1]}=={match[2]}{'' if '.' in match[2] else '.0'}.*" for match in found if match]


if __name__ == "__main__":
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    print(*sorted(set(lowest([*project["dependencies"], *extras["dev"], *extras["synth"]]))), sep="\n")
