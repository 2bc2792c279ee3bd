"""The tests themselves: the page that lists them is complete, each belongs to an area, and each crate has areas.

`KNARR_WRITE_DOCS=1 python -m pytest tests/e2e/test_listed.py` writes the list anew.
"""

from __future__ import annotations

import ast
import fnmatch
import os
import tomllib
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS / "e2e" / "README.md"
TABLES = tomllib.loads((TESTS / "areas.toml").read_text())
BEGIN, END = "<!-- generated: begin -->\n", "<!-- generated: end -->\n"


def about(file: Path) -> str:
    """The first sentences of a file: those before its first empty line."""
    said = ast.get_docstring(ast.parse(file.read_text())) or ""
    return " ".join(said.split("\n\n")[0].split()).rstrip(".").replace("|", "\\|")


def areas(file: Path) -> list[str]:
    def has(pattern: str) -> bool:
        if pattern.startswith("/"):
            return file.parent.name == pattern[1:]
        return file.parent.name == "e2e" and fnmatch.fnmatch(file.name, f"test_{pattern}.py")

    return [area for area, patterns in TABLES["areas"].items() if any(map(has, patterns))]


def name(file: Path) -> str:
    return file.name if file.parent == PAGE.parent else f"../{file.parent.name}/{file.name}"


def listed() -> str:
    files = sorted(TESTS.glob("*/test_*.py"), key=lambda file: (file.parent.name != "e2e", file))
    text = "| file | areas | what |\n|---|---|---|\n"
    text += "".join(f"| `{name(file)}` | {', '.join(areas(file))} | {about(file)} |\n" for file in files)
    helpers = sorted(file for file in PAGE.parent.glob("*.py") if not file.name.startswith("test_"))
    text += "\nWhat they share:\n\n| file | what |\n|---|---|\n"
    return text + "".join(f"| `{file.name}` | {about(file)} |\n" for file in helpers)


def test_the_page_lists_all_tests():
    before, rest = PAGE.read_text().split(BEGIN)
    found, after = rest.split(END)
    if os.environ.get("KNARR_WRITE_DOCS"):
        PAGE.write_text(before + BEGIN + listed() + END + after)
    else:
        assert found == listed(), "run KNARR_WRITE_DOCS=1 python -m pytest tests/e2e/test_listed.py"


def test_every_test_is_in_an_area():
    files = [*TESTS.glob("e2e/test_*.py"), *TESTS.glob("python/test_*.py"), *TESTS.glob("bench/test_*.py")]
    without = [file.name for file in files if not areas(file)]
    assert len(files) > 80 and not without


def test_every_crate_has_areas_that_there_are():
    manifests = TESTS.parent.glob("crates/**/Cargo.toml")
    crates = {tomllib.loads(path.read_text())["package"]["name"].removeprefix("knarr-") for path in manifests}
    assert set(TABLES["crates"]) == crates
    assert {area for of_crate in TABLES["crates"].values() for area in of_crate} <= set(TABLES["areas"])


def test_every_name_of_an_area_is_a_file():
    for patterns in TABLES["areas"].values():
        for pattern in patterns:
            folder, file = ("e2e", f"test_{pattern}.py") if pattern[0] != "/" else (pattern[1:], "test_*.py")
            assert list((TESTS / folder).glob(file)), pattern
