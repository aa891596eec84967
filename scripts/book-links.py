#!/usr/bin/env python3
"""A preprocessor of mdBook: links to files outside docs/ become links to the repository.

On the repository's site, relative links between all files work. The book has only docs/.
"""
import json
import posixpath
import re
import sys

LINK = re.compile(r"(\]\()([^)#:\s]+)(#[^)\s]*)?(\))")


def rewrite(text, folder, base):
    def replace(match):
        start, target, anchor, end = match.groups()
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if path.startswith("docs/"):
            # mdBook calls the page of a README `index`.
            page = re.sub(r"(^|/)README\.md$", r"\1index.md", target)
            return f"{start}{page}{anchor or ''}{end}"
        return f"{start}{base}/{path}{anchor or ''}{end}"

    return LINK.sub(replace, text)


def walk(items, base):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter is None:
            continue
        if chapter.get("path"):
            folder = posixpath.dirname(chapter["path"])
            chapter["content"] = rewrite(chapter["content"], folder, base)
        walk(chapter["sub_items"], base)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    repository = context["config"]["output"]["html"]["git-repository-url"]
    walk(book.get("items") or book.get("sections"), f"{repository}/blob/main")
    json.dump(book, sys.stdout)


main()
