"""What must be in files, and what calls must have returned, by what the programs of `faults/life.h` have noted.

It knows nothing of Knarr. A put that came back with 0 is *accepted*: its numbers are in the file until the same rank
puts others there. One that failed, or never came back, may be there or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401  files may have any filter, also Knarr's
import netCDF4
import numpy as np
import zarr

import knarr  # noqa: F401

SHIFT = 22
"""The number of a put stands above these bits, the place below."""
FILL = -2147483647
F_ROW = -1
PRINTS = re.compile("knarr|thread|HDF5-DIAG")
"""How lines begin that a library must not print. PnetCDF prints what MPI says of some errors."""

Place = tuple[int, int]
"""A row, and the rank whose part of it is meant."""
Seeds = dict[Place, set[int]]
"""Of which puts the numbers of each part are: 0 for none, -1 for numbers that belong elsewhere."""


@dataclass
class Line:
    """What a rank noted. Without a code the call never came back."""

    rank: int
    letter: int
    call: str
    file: str = ""
    numbers: tuple[int, ...] = ()
    code: int | None = None


@dataclass
class Generation:
    """A file from one `create` on."""

    puts: dict[Place, list[tuple[int, bool]]] = field(default_factory=dict)
    """The puts of each part in their order, and which of them were accepted."""
    is_closed: bool = False
    """All ranks were told that it is."""
    is_told: bool = False
    """Some rank was told that something went wrong."""
    is_in_doubt: bool = False
    """It was closed with an error: what is under its name is another one, perhaps."""
    is_given_up: bool = False
    held: list[tuple[Place, int]] | None = None
    """Puts that came back with 0, since the file was opened again: those which its library may have in its memory."""

    def put(self, place: Place, seed: int, is_accepted: bool) -> None:
        """Notes a put. One that the library holds is accepted when it is written."""
        puts = self.puts.setdefault(place, [])
        if is_accepted and self.held is not None:
            self.held.append((place, len(puts)))
        puts.append((seed, is_accepted and self.held is None))

    def written(self) -> None:
        """All that the library held is in the file."""
        for place, at in self.held or ():
            self.puts[place][at] = (self.puts[place][at][0], True)
        self.held = None if self.held is None else []

    def allowed(self, place: Place) -> set[int]:
        """Puts that may be seen there."""
        found = {0}
        for seed, is_accepted in self.puts.get(place, []):
            found = {seed} if is_accepted else found | {seed}
        return found

    def has_accepted(self) -> bool:
        return any(is_accepted for puts in self.puts.values() for _, is_accepted in puts)

    def wrong(self, seeds: Seeds, of: str) -> Iterator[str]:
        """What is not as it must be in what was found."""
        for place in sorted(self.puts.keys() | seeds.keys()):
            found, allowed = seeds.get(place, {0}), self.allowed(place)
            if found <= allowed:
                continue
            row, owner = place
            where = f"{of} {'F' if row == F_ROW else f'T row {row}'} of rank {owner}"
            older = {seed for seed, _ in self.puts.get(place, [])} & found
            what = "LOST" if found & {0} else "OLDER" if older and found <= older else "WRONG"
            yield f"{what}: {where} has {sorted(found)}, not {sorted(allowed)}"


@dataclass
class Told:
    """All that ranks have noted."""

    lines: list[Line]
    ranks: int
    printed: str
    ended: int
    """How many ranks came to their end."""
    holds: bool = False
    """The library may keep what it is given for a file that is opened again, until that is closed."""

    @property
    def has_begun(self) -> bool:
        return bool(self.lines)

    def files(self) -> dict[str, list[Generation]]:
        return self._read()[0]

    def wrong(self) -> list[str]:
        """What calls have returned that they must not."""
        wrong = self._read()[1]
        wrong += [f"PRINTED: {line[:200]}" for line in self.printed.splitlines() if PRINTS.match(line)]
        return wrong

    def codes(self) -> list[str]:
        """Calls that failed."""
        return [f"{line.call} {line.code}" for line in self.lines if line.code not in (0, None)]

    def _read(self) -> tuple[dict[str, list[Generation]], list[str]]:
        files: dict[str, list[Generation]] = {}
        wrong: list[str] = []
        # Ranks put into their own parts only, so the order among them does not matter.
        by_letter: dict[int, list[Line]] = {}
        for line in self.lines:
            by_letter.setdefault(line.letter, []).append(line)
        for letter in sorted(by_letter):
            lines = by_letter[letter]
            self._agree(lines, wrong)
            for line in lines:
                generations = files.setdefault(line.file, []) if line.file else []
                if line.call == "create" and line is next(one for one in lines if one.call == "create"):
                    generations.append(Generation())
                now = generations[-1] if generations else Generation()
                now.is_told |= line.code not in (0, None)
                if line.call == "put":
                    row, owner, seed = line.numbers
                    now.put((row, owner), seed, line.code == 0)
                elif line.call == "get" and line.code == 0 and generations and not now.is_in_doubt:
                    row, owner, *seeds = line.numbers
                    at, of = (row, owner), f"get by rank {line.rank} of {line.file}"
                    wrong += Generation({at: now.puts.get(at, [])}).wrong({at: set(seeds)}, of)
                elif line.call == "openw" and line.code == 0:
                    now.is_closed = False
                    now.held = [] if self.holds and now.held is None else now.held
                elif line.call == "close":
                    codes = [one.code for one in lines if one.call == "close"]
                    now.is_closed = len(codes) == self.ranks and all(code == 0 for code in codes)
                    now.is_in_doubt |= not now.is_closed
                    if now.is_closed:
                        now.written()
                elif line.call == "abort":
                    now.is_given_up = True
        return files, wrong

    def _agree(self, lines: list[Line], wrong: list[str]) -> None:
        for call in ("create", "open", "openw", "close"):
            codes = {line.rank: line.code for line in lines if line.call == call and line.code is not None}
            if len({code == 0 for code in codes.values()}) > 1:
                wrong.append(f"CODES: {call} returned {codes}, not alike on all ranks")


def told(folder: Path, ranks: int, holds: bool = False) -> Told:
    """What ranks have noted in a folder. `holds` is as in `Told`."""
    lines: list[Line] = []
    printed, ended = "", 0
    for rank in range(ranks):
        begun: list[Line] = []
        path = folder / str(rank)
        for text in path.read_text().splitlines() if path.exists() else []:
            letter, call, *words = text.split(" ")
            if call == "ended":
                ended += 1
            elif call == "begins":
                call, file, *numbers = words
                begun.append(Line(rank, int(letter), call, file, tuple(map(int, numbers))))
                lines.append(begun[-1])
            elif call not in ("defined", "skipped"):
                file, *numbers = words
                values = list(map(int, numbers))
                if call == "get":
                    row, owner, code, *seeds = values
                    lines.append(Line(rank, int(letter), call, file, (row, owner, *seeds), code))
                    continue
                line = Line(rank, int(letter), call, file, tuple(values[:-1]), values[-1])
                # It takes the place of what began.
                is_it = (line.letter, call[:4], line.numbers)
                earlier = next((one for one in begun if (one.letter, one.call[:4], one.numbers) == is_it), None)
                if earlier:
                    earlier.call, earlier.code = line.call, line.code
                else:
                    lines.append(line)
        extra = folder / f"printed.{rank}"
        printed += extra.read_text(errors="replace") if extra.exists() else ""
    return Told(lines, ranks, printed, ended, holds)


def seeds_of(numbers: np.ndarray, row: int, ranks: int, part: int) -> Seeds:
    """Of which puts the numbers of a row are."""
    columns = np.arange(numbers.size) + max(row, 0) * ranks * part
    seeds = (numbers.astype(np.int64) & 0xFFFF_FFFF) >> SHIFT
    seeds = np.where((numbers & ((1 << SHIFT) - 1) == columns) & (seeds > 0), seeds, -1)
    seeds = np.where((numbers == 0) | (numbers == FILL), 0, seeds)
    return {(row, owner): set(seeds[owner * part : (owner + 1) * part].tolist()) for owner in range(ranks)}


def found_in(path: Path, ranks: int, part: int) -> Seeds:
    """What is in a file."""
    if path.is_dir():
        group = zarr.open_group(path, mode="r")
        t, f = group["T"][:], group["F"][:]
    elif path.suffix == ".bin":
        numbers = np.fromfile(path, "i4")
        rows = np.zeros(-(-max(len(numbers), ranks * part) // (ranks * part)) * ranks * part, "i4")
        rows[: len(numbers)] = numbers
        f, *t = rows.reshape(-1, ranks * part)
    elif path.suffix == ".h5":
        with h5py.File(path) as file:
            t, f = file["T"][:], file["F"][:]
    else:
        with netCDF4.Dataset(path) as file:
            file.set_auto_maskandscale(False)
            t, f = np.asarray(file["T"][:]), np.asarray(file["F"][:])
    seeds = seeds_of(f.astype(np.int64), F_ROW, ranks, part)
    for row in range(len(t)):
        seeds |= seeds_of(t[row].astype(np.int64), row, ranks, part)
    return seeds


def seeds_got(noted: Told) -> Seeds | None:
    """What a program got that has read a file; `None` if there was none."""
    gets = [line for line in noted.lines if line.call == "get"]
    return {line.numbers[:2]: set(line.numbers[2:]) if line.code == 0 else {-1} for line in gets} or None


def wrong_transfer(noted: Told, reader: Told, code: int, is_there: bool) -> list[str]:
    """What is wrong with what another program got. If it did not get all, that must be in the file, or the exit code
    must say so."""
    wrong = reader.wrong()
    generations = noted.files().get("hist_1", [])
    gets = [line for line in reader.lines if line.call == "get"]
    for line in gets:
        if line.code == 0 and generations:
            row, owner, *seeds = line.numbers
            of = f"get of the reader of {line.file}"
            place = (row, owner)
            seen = Generation({place: generations[-1].puts.get(place, [])})
            wrong += seen.wrong({place: set(seeds)}, of)
    is_whole = bool(gets) and all(line.code == 0 for line in gets)
    has_accepted = any(generation.has_accepted() for generation in generations)
    if code == 0 and not is_whole and has_accepted and not is_there:
        wrong.append("LOST: the reader got nothing, or not all, and no exit code says so")
    return wrong


def wrong_in(generations: list[Generation], seeds: Seeds | None, name: str, is_kept: bool) -> list[str]:
    """What is wrong with what was found under a name at the end; `None` if nothing is there. Values may only be lost if
    they are not kept when a close has failed."""
    newest = generations[-1]
    if newest.is_given_up:
        return []
    if not is_kept and not newest.is_closed:
        # It is one of those that were made, whole.
        none = seeds is None and not any(one.is_closed for one in generations)
        whole = seeds is not None and any(not list(one.wrong(seeds, name)) for one in generations)
        return [] if none or whole else [f"LOST: {name} is none of those that were made"]
    # Of a file that failed when it was created, or nothing was put into, the one before it may be there.
    is_nothing = not newest.has_accepted() and (newest.is_told or not newest.is_closed)
    if seeds is None:
        if is_nothing and not any(one.has_accepted() for one in generations[:-1]):
            return []
        return [f"LOST: {name} is not there"] if not is_nothing else []
    wrong = list(newest.wrong(seeds, name))
    for number, earlier in enumerate(generations[:-1]):
        if wrong and not list(earlier.wrong(seeds, name)):
            return [] if is_nothing else [f"OLDER: {name} is that of create {number + 1} of {len(generations)}"]
    return [] if is_nothing and wrong and not seeds else wrong


def wrong_files(noted: Told, found: Mapping[str, Seeds | None], is_kept: bool) -> list[str]:
    """What is wrong with the files."""
    files = noted.files().items()
    return [what for name, made in files for what in wrong_in(made, found.get(name), name, is_kept)]
