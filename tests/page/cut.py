"""What of a page is cut: texts wider than their places, and marks of pictures that leave these."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: A phone and a laptop.
WIDTHS = (420, 1280)

#: Elements that hold texts, of which nothing may be cut or need scrolling; and texts in the pictures of charts.
SEARCH = """() => {
  const found = [], said = (each) => each.textContent.trim().slice(0, 60);
  for (const each of document.querySelectorAll(
      "h1, h2, h3, h4, p, li, dt, dd, td, th, caption, figcaption, label, legend, summary, .wide, .scroll, nav ul")) {
    if (each.getClientRects().length && getComputedStyle(each).display !== "inline"
        && each.scrollWidth > each.clientWidth && each.clientWidth) found.push([each.tagName, said(each)]);
  }
  for (const picture of document.querySelectorAll(".chart .scroll svg")) {
    const place = picture.getBoundingClientRect();
    for (const each of place.width ? picture.querySelectorAll("text") : []) {
      const text = each.getBoundingClientRect();
      if (text.left < place.left - 1 || text.right > place.right + 1) found.push(["text", said(each)]);
    }
  }
  return found;
}"""


def cut_texts(page: Page) -> list[list[str]]:
    """The name of each element whose text is cut, and the text; of everything, folded parts opened."""
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    found: list[list[str]] = page.evaluate(SEARCH)
    return found
