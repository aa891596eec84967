#!/usr/bin/env python3
"""Builds the guide as a book in target/book, and checks it: mdBook reports nothing, and every link
to another place in the book leads to a page, a file or a heading that exists.

`scripts/install-test-tools.sh` installs mdBook; another mdBook in the PATH does as well.
"""
import pathlib
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOOK = ROOT / "target/book"
INSTALLED = ROOT / "target/test-tools/book/bin/mdbook"
# The page of all pages, and the page for addresses that do not exist.
NOT_CHAPTERS = {"print.html", "404.html"}


class Page(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if values.get("id"):
            self.ids.add(values["id"])
        target = values.get("href") or values.get("src")
        if target and tag in ("a", "img", "link", "script"):
            self.links.append(target)


def build():
    program = INSTALLED if INSTALLED.exists() else "mdbook"
    done = subprocess.run([program, "build"], cwd=ROOT, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode != 0 or "WARN" in said or "ERROR" in said:
        sys.exit(f"mdbook build failed:\n{said}")


def broken_links():
    """Yields one line for each broken link."""
    pages = {path: Page(path) for path in sorted(BOOK.rglob("*.html"))}
    for path, page in pages.items():
        if path.name in NOT_CHAPTERS:
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path.parent / unquote(parts.path) if parts.path else path
            target = target.resolve()
            if not target.is_file():
                yield f"{path.relative_to(BOOK)}: {link} does not exist"
            elif parts.fragment and unquote(parts.fragment) not in pages[target].ids:
                yield f"{path.relative_to(BOOK)}: {link} has no such heading"
    if len(pages) < 20:
        yield f"the book has only {len(pages)} pages"


def main():
    build()
    broken = list(broken_links())
    if broken:
        sys.exit("\n".join(broken))


main()
