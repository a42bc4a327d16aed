"""A page as its parser sees it."""

from __future__ import annotations

from html.parser import HTMLParser

#: Attributes by which a browser asks for something; `href` does in these elements.
_ASKING = frozenset({"src", "srcset", "poster", "background", "xlink:href"})
_LINKING = frozenset({"link", "use", "image"})


class Page(HTMLParser):
    """The elements, identifiers and links of a page, and what it would ask the network for."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.requests: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            value = value or ""
            if name == "id":
                self.ids.append(value)
            if name == "href" and tag == "a":
                self.links.append(value)
            if (name in _ASKING or (name == "href" and tag in _LINKING)) and not value.startswith(("data:", "#")):
                self.requests.append(value)
            if name == "style" and "url(" in value:
                self.requests.append(value)
