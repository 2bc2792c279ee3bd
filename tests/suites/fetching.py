"""Sources of other people's libraries, unpacked below `target/suites`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PLACE = REPOSITORY / "target" / "suites"
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")


def source(package: str) -> Path:
    """The unpacked source package of Debian, as the lists of this machine name it."""
    folder = PLACE / "source" / package
    if not (folder / "unpacked").exists():
        apt = _lists()
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", *apt, "source", "--download-only", "-qq", package], cwd=folder, check=True)
        (description,) = folder.glob("*.dsc")
        subprocess.run(["dpkg-source", "-x", description, "unpacked"], cwd=folder, check=True, capture_output=True)
    return folder / "unpacked"


def _lists() -> list[str]:
    """Options by which apt knows source packages, from lists of their own: those of the machine stay as they are."""
    folder = PLACE / "apt"
    options = [
        *("-o", "Dir::Etc::SourceList=/dev/null", "-o", f"Dir::Etc::SourceParts={folder}"),
        *("-o", f"Dir::State::lists={folder / 'lists'}", "-o", "APT::Sandbox::User=root"),
    ]
    if not (folder / "lists").exists():
        (folder / "lists" / "partial").mkdir(parents=True)
        text = re.sub("^Types: deb$", "Types: deb-src", SOURCES.read_text(), flags=re.MULTILINE)
        (folder / SOURCES.name).write_text(text)
        subprocess.run(["apt-get", *options, "update", "-qq"], check=True)
    return options
