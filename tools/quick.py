"""Builds what has changed and runs the tests that belong to it, within minutes: `make quick`.

    tools/quick.py              what differs from the last commit, or else what this branch has more than main
    tools/quick.py flow s3      crates, areas of tests/areas.toml, and files of tests

First come the tests of the crates themselves, then the build of all that is installed, then the quickest of the tests
that go through the program, as many as fit into KNARR_BUDGET seconds (120); those of a changed file all run.
"""

from __future__ import annotations

import fnmatch
import os
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))
import durations  # noqa: E402

PYTHON = REPOSITORY / ".venv" / "bin" / "python"
WORKERS = 2
BUDGET_S = float(os.environ.get("KNARR_BUDGET", "120"))
TABLES = tomllib.loads((REPOSITORY / "tests" / "areas.toml").read_text())
# A package without tests that uses what programs use: with it, dependencies have the features that they are built with.
WITH = ["-p", "knarr-python"]


def said(*command: str) -> str:
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout


def run(*command: str) -> None:
    """Runs a step, says what it took, and ends here if it fails."""
    print("+", shlex.join(command), flush=True)
    begin = time.monotonic()
    code = subprocess.run(command, cwd=REPOSITORY).returncode
    print(f"  {time.monotonic() - begin:.0f} s", flush=True)
    if code != 0:
        sys.exit(code)


def changed() -> list[str]:
    """Files that were changed and are not committed, or else those of the commits since this branch left main."""
    lines = said("git", "status", "--porcelain", "-uall").splitlines()
    files = [line[3:].split(" -> ")[-1].strip('"') for line in lines]
    for main in ("origin/main", "main"):
        if files or subprocess.run(["git", "rev-parse", "-q", "--verify", main], capture_output=True).returncode:
            continue
        files = said("git", "diff", "--name-only", f"{main}...HEAD").splitlines()
    return files


class Wanted:
    """What is to be tested."""

    def __init__(self) -> None:
        self.crates: set[str] = set()
        self.areas: set[str] = set()
        self.whole: set[Path] = set()
        """Files of tests that run whole."""
        self.unknown: list[str] = []

    def add_crate(self, crate: str) -> None:
        self.crates.add(crate)
        self.areas.update(TABLES["crates"].get(crate, []))

    def add_word(self, word: str) -> None:
        """What the user asks for."""
        file = REPOSITORY / "tests" / "e2e" / f"test_{word}.py"
        if word in TABLES["crates"]:
            self.add_crate(word)
        if word in TABLES["areas"]:
            self.areas.add(word)
        elif word not in TABLES["crates"]:
            path = Path(word).resolve() if Path(word).exists() else file
            if not path.is_file():
                names = ", ".join(sorted({*TABLES["areas"], *TABLES["crates"]}))
                sys.exit(f"'{word}' is no crate, no area and no file of tests: there are {names}")
            self.whole.add(path)

    def add_file(self, name: str) -> None:
        """A file that has changed."""
        path = Path(name)
        match path.parts:
            case ("crates", "hooks", library, *_):
                self.add_crate({"hdf5": "hdf5-hooks", "names": "name-hooks"}.get(library, library))
            case ("crates", crate, *_):
                self.add_crate(crate)
            case ("tests", _, file) if file.startswith("test_") and (REPOSITORY / path).exists():
                self.whole.add(REPOSITORY / path)
            case ("tests", "e2e", *_) if path.suffix != ".md":
                self.whole.update(users(path.stem if len(path.parts) == 3 else path.parts[2]))
            case ("tests", "python", _):
                self.areas.add("python")
            case ("bench", *_) if path.suffix in (".py", ".json"):
                self.areas.add("bench")
            case _ if path.suffix == ".md" or path.parts[0] in ("docs", "Makefile"):
                self.areas.add("docs")
            case _:
                self.unknown.append(name)


def users(name: str) -> set[Path]:
    """Files of tests in which a helper, or a folder of programs, is named."""
    files = (REPOSITORY / "tests" / "e2e").glob("test_*.py")
    return {file for file in files if name in file.read_text()}


def files_of(area: str) -> set[Path]:
    found = set()
    for pattern in TABLES["areas"][area]:
        folder, name = ("e2e", f"test_{pattern}.py") if pattern[0] != "/" else (pattern[1:], "test_*.py")
        files = (REPOSITORY / "tests" / folder).glob("test_*.py")
        found |= {file for file in files if fnmatch.fnmatch(file.name, name)}
    return found


def chosen(files: set[Path], whole: set[Path]) -> list[str]:
    """Tests of the files, the quickest first, that fit into the budget; all of those that run whole."""
    listed = said(str(PYTHON), "-m", "pytest", "-q", "--collect-only", *map(str, sorted(files | whole)))
    tests = [line for line in listed.splitlines() if "::" in line]
    seconds = durations.known()
    must = {str(path.relative_to(REPOSITORY)) for path in whole}

    def is_must(test: str) -> bool:
        return test.partition("::")[0] in must

    taken, left, total = [], [], 0.0
    for test in sorted(tests, key=lambda test: (not is_must(test), durations.expected(seconds, test))):
        takes = durations.expected(seconds, test) / WORKERS
        if is_must(test) or total + takes <= BUDGET_S:
            taken.append(test)
            total += takes
        else:
            left.append(test)
    print(f"{len(taken)} of {len(tests)} tests, about {total:.0f} s", flush=True)
    if left:
        files = sorted({test.partition("::")[0] for test in left})
        print(f"{len(left)} that take longer are left out, of {', '.join(files)}: KNARR_BUDGET=600 runs more of them")
    return taken


def main() -> None:
    if not PYTHON.exists():
        sys.exit("there is no .venv yet: run 'make build' first")
    wanted, words = Wanted(), sys.argv[1:]
    for word in words:
        wanted.add_word(word)
    for file in [] if words else changed():
        wanted.add_file(file)
    if wanted.unknown:
        print("no tests belong to", ", ".join(wanted.unknown))
    files = set().union(*(files_of(area) for area in wanted.areas))
    if not (wanted.crates or files or wanted.whole):
        print("nothing has changed that has tests: name an area, as in make quick AREA=s3")
        return
    print(f"crates {sorted(wanted.crates)}, areas {sorted(wanted.areas)}", flush=True)
    tested = [crate for crate in sorted(wanted.crates) if crate not in ("python", "capi-static")]
    if tested:
        packages = [word for crate in tested for word in ("-p", f"knarr-{crate}")]
        run("cargo", "test", "-q", "--release", "--locked", *packages, *WITH, "--tests")
    if files or wanted.whole:
        run("make", "-s", "build", *(["capi"] if "capi" in wanted.areas else []))
        if "python" in wanted.areas:
            run("make", "-s", "python")
        tests = chosen(files, wanted.whole)
        listing = REPOSITORY / "target" / "quick.txt"
        listing.write_text("".join(f"{test}\n" for test in tests))
        workers = ["-n", str(WORKERS), "--dist", "worksteal"] if len(tests) > 8 else []
        run(str(PYTHON), "-m", "pytest", "-q", *workers, f"@{listing}")


if __name__ == "__main__":
    main()
