"""Builds the documentation site: the pages into build/pages, and from them, with Zensical, the site into build/site.

    python tools/site_build.py

The pages are the files of docs/, the Markdown files beside it that they link, and the parts that are made from the code
(tools/site_pages.py).  Zensical is the successor of Material for MkDocs, whose support ends in 2027.  It reads the
pages as they are, so that they also read well on a code host, and mkdocstrings takes the Python interface from the
docstrings.  Nothing here hooks into it: another generator can build the same pages.

The exit code is 1 where Zensical has a warning, and where a link, an anchor or a page of the navigation is missing.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "zensical.toml"
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"

MARK = re.compile(r"^<!-- generated: (.+) -->$", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LINK = re.compile(r"(\]\()([^)#\s:]+\.md)((?:#[^)]*)?\))")

#: A link to a file of the repository that is no page, as data or code.
FILE_LINK = re.compile(r"\[([^]\n]*)\]\(\.\./[^)\s]+\)")

#: Files beside docs/, and the pages that they become.  The landing page has the place of the README.
BESIDE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md",
          "models/README.md": "models.md", "README.md": "index.md"}


def main() -> int:
    argparse.ArgumentParser(description="Build the documentation site.").parse_args()
    write_pages(PAGES)
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(CONFIG)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    said = COLOUR.sub("", done.stdout).partition("Traceback")[0].strip()
    if done.returncode:
        print(f"{said}\nerror: the pages must give no warning, see above", file=sys.stderr)
        return 1
    link_documents(SITE / "python-api.html")
    found = {page: Anchors(page) for page in sorted(SITE.rglob("*.html")) if page.name != "404.html"}
    problems = [*missing_pages(PAGES), *dead_links(SITE, found)]
    links = sum("://" not in link for anchors in found.values() for link in anchors.links)
    print("\n".join(problems) or f"{len(found)} pages, {links} links between them, none dead: {SITE}/index.html")
    return bool(problems)


def write_pages(folder: Path) -> None:
    """Everything that the site is made of."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    parts: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "site_pages.py"))["PARTS"]
    for page in sorted(folder.glob("*.md")):
        text = moved_links(page.read_text(encoding="utf-8"), "docs")
        page.write_text(MARK.sub(lambda mark: parts[mark[1]](), text), encoding="utf-8")
    for source, name in BESIDE.items():
        if source != "README.md":
            text = moved_links((ROOT / source).read_text(encoding="utf-8"), posixpath.dirname(source))
            (folder / name).write_text(text, encoding="utf-8")


def moved_links(text: str, folder: str) -> str:
    """The text, written in `folder` of the project, with its links as they are from docs/.

    The site has no files of the repository, so what would be a link to one is its text alone.
    """
    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        return link[1] + (BESIDE.get(target) or posixpath.relpath(target, "docs")) + link[3]

    return FILE_LINK.sub(r"\1", LINK.sub(moved, text))


def link_documents(page: Path) -> None:
    """Make links of the documents that docstrings name, as in "(docs/data-files.md)"."""
    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r"\bdocs/([a-z0-9-]+)\.md", r'<a href="\1.html">\1</a>', text), encoding="utf-8")


def missing_pages(folder: Path) -> Iterator[str]:
    """Pages that the navigation does not have, and entries without a page."""
    listed = set(entries(tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]["nav"]))
    there = {page.relative_to(folder).as_posix() for page in folder.rglob("*.md")}
    yield from (f"{CONFIG.name}: the navigation must name a page, not '{name}'" for name in sorted(listed - there))
    yield from (f"{CONFIG.name}: the navigation must have the page '{name}'" for name in sorted(there - listed))


def entries(nav: list[dict[str, Any]]) -> Iterator[str]:
    for entry in nav:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else entries(value)


class Anchors(HTMLParser):
    """What a page refers to, and what others can refer to in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for key, value in attributes:
            if value and key in ("id", "name"):
                self.names.add(value)
            if value and (key == "src" or (key == "href" and tag in ("a", "link"))):
                self.links.append(value)
                self.loaded += [value] if tag != "a" else []


def dead_links(site: Path, found: dict[Path, Anchors]) -> Iterator[str]:
    """Links to files and anchors that the site does not have, and anything that a page would load from elsewhere."""
    for page, anchors in found.items():
        for link in anchors.links:
            parts = urlsplit(link)
            place = f"{page.relative_to(site)}: the link '{link}'"
            if parts.scheme or parts.netloc:
                if link in anchors.loaded:
                    yield f"{place} must be a file of the site: pages load nothing from elsewhere"
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{place} must lead to a file of the site"
            elif parts.fragment and target in found and unquote(parts.fragment) not in found[target].names:
                yield f"{place} must lead to an anchor of that page"


if __name__ == "__main__":
    sys.exit(main())
