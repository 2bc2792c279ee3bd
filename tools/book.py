#!/usr/bin/env python3
"""Puts the pages that docs/SUMMARY.md lists into a folder, for mdBook: `tools/book.py FOLDER`.

Links in the repository's pages lead to files of the repository. In the site, a link to another page leads to that page,
and a link to anything else, such as a folder of sources, becomes its text.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SUMMARY = REPOSITORY / "docs" / "SUMMARY.md"
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)


def pages() -> list[Path]:
    """The files that the summary lists."""
    listed = [target for _, target, _ in LINK.findall(SUMMARY.read_text())]
    return [(SUMMARY.parent / target).resolve() for target in listed]


def place(page: Path) -> Path:
    """Where a page lies in the site: docs/guide.md is guide.md, bench/README.md is bench.md.

    None is called readme.md: mdBook would make it the index.
    """
    path = page.relative_to(REPOSITORY)
    if path.parts[0] == "docs":
        return path.relative_to("docs")
    folders = "-".join(path.parts[:-1])
    if path.name == "README.md":
        return Path(f"{folders or 'overview'}.md")
    return Path(folders) / path.name.lower()


def linked(text: str, page: Path, known: set[Path]) -> str:
    """The page with links that lead to places in the site."""

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        if not target or "://" in target:
            return found[0]
        to = (page.parent / target).resolve()
        if to not in known:
            return label
        return f"[{label}]({os.path.relpath(place(to), place(page).parent)}{anchor})"

    def outside_code(text: str) -> str:
        return LINK.sub(link, text)

    parts, end = [], 0
    for code in FENCED.finditer(text):
        parts += [outside_code(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, outside_code(text[end:])])


def write(folder: Path) -> None:
    known = set(pages())
    shutil.rmtree(folder, ignore_errors=True)
    for page in [SUMMARY, *known]:
        path = folder / place(page)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(linked(page.read_text(), page, known))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
