#!/usr/bin/env python3
"""A preprocessor of mdBook.

Links to files outside docs/ become links to the repository: on the repository's site, relative
links between all files work, but the book has only docs/. Lines of Chinese text are joined, because
a browser shows a line end as a space.
"""
import json
import posixpath
import re
import sys

CHINESE = "\u3000-\u303f\u4e00-\u9fff\uff00-\uffef"
LINE_END = re.compile(f"(?<=[{CHINESE}])\\n *(?=[{CHINESE}])")
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
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


def join_chinese(text):
    pieces = FENCED.split(text)
    pieces[::2] = [LINE_END.sub("", piece) for piece in pieces[::2]]
    return "".join(pieces)


def walk(items, base):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter is None:
            continue
        if chapter.get("path"):
            folder = posixpath.dirname(chapter["path"])
            chapter["content"] = join_chinese(rewrite(chapter["content"], folder, base))
        walk(chapter["sub_items"], base)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    repository = context["config"]["output"]["html"]["git-repository-url"]
    walk(book.get("items") or book.get("sections"), f"{repository}/blob/main")
    json.dump(book, sys.stdout)


main()
