"""Scheme `auto` is never more than 2 % behind the best of the fixed schemes, on sets of different kinds."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

FIXED = ("agnostic", "agnostic-block", "aware", "aware-block")
RANKS = 8


def smooth(seed, *shape):
    """A field without symmetry: waves and noise in the last bits."""
    random = np.random.default_rng(seed)
    places = np.indices(shape) / 9.0
    waves = sum(np.sin(axis * random.uniform(0.5, 2) + random.uniform(0, 6)) for axis in places)
    return waves * (1 + 1e-9 * random.standard_normal(shape))


def mirrored(folder):
    """A mesh that every second rank mirrors, beside fields of its type and shape that move."""
    mesh = [np.random.default_rng(rank).standard_normal((30, 30, 40)) for rank in range(RANKS // 2)]
    for rank in range(RANKS):
        with h5py.File(folder / f"r{rank}.h5", "w") as file:
            half = mesh[rank % 4] if rank < 4 else -mesh[rank % 4][::-1]
            file["volume"] = half
            for number, name in enumerate(("u", "v", "w")):
                file[name] = smooth(10 * rank + number, 30, 30, 40)


def unequal(folder):
    """Own format, parts of unequal length of which each holds rows of the others, behind a head of its own length."""
    rows = np.random.default_rng(1).standard_normal((120, 400))
    for rank in range(RANKS):
        chosen = np.arange(7 * rank, 7 * rank + 60 + 5 * (rank % 3)) % len(rows)
        head = np.full(3 + rank, rank, "<i4")
        (folder / f"part.{rank}").write_bytes(head.tobytes() + rows[chosen].tobytes() + smooth(rank, 20, 400).tobytes())


def one_class(folder):
    """One small array that is symmetric in its first axis, which is dealt out."""
    half = np.cumsum(np.random.default_rng(3).standard_normal((4, 40, 300)), axis=2)
    for rank in range(RANKS):
        with h5py.File(folder / f"lbm{rank}.h5", "w") as file:
            file["f"] = half[rank] if rank < 4 else half[7 - rank][::-1]


def records(folder):
    """Fortran records, a level each, of fields that no rank shares."""
    for rank in range(RANKS):
        with (folder / f"fort.{rank}").open("wb") as file:
            for level in range(4):
                body = smooth(10 * rank + level, 20 + rank % 2, 300).tobytes()
                marker = np.array([len(body)], "<i4").tobytes()
                file.write(marker + body + marker)


def members(folder):
    """Own format, big-endian float32: members of an ensemble that are alike but nowhere equal."""
    start = np.random.default_rng(5).standard_normal((150, 400))
    for rank in range(RANKS):
        change = 1e-4 * np.random.default_rng(10 + rank).standard_normal(start.shape)
        (folder / f"member{rank}").write_bytes(
            f"member {rank}".ljust(64).encode() + (start + change).astype(">f4").tobytes()
        )


@pytest.mark.parametrize("write", [mirrored, unequal, one_class, records, members])
def test_auto_is_hardly_behind_any_fixed_scheme(knarr, tmp_path, write):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in")

    def size(scheme):
        target = tmp_path / scheme
        knarr("checkpoint", "pack", tmp_path / "in", "-o", target, "--scheme", scheme, "--no-base")
        return sum(path.stat().st_size for path in target.iterdir())

    fixed = {scheme: size(scheme) for scheme in FIXED}
    assert size("auto") <= 1.02 * min(fixed.values()), fixed
    knarr("checkpoint", "restore", tmp_path / "auto", "-d", tmp_path / "again")
    for path in (tmp_path / "in").iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name


def test_rows_that_come_back_far_away_in_another_rank_are_stored_once(knarr, tmp_path):
    # Every row is nearer to its twin than the end of the set, and farther than any sample or usual frame reaches.
    rows = np.random.default_rng(6).standard_normal((5000, 160))
    (tmp_path / "in").mkdir()
    for rank, part in enumerate((rows, rows[::-1])):
        (tmp_path / "in" / f"wave{rank}.dat").write_bytes(np.array([rank], "<i8").tobytes() + part.tobytes())
    knarr("checkpoint", "pack", tmp_path / "in", "-o", tmp_path / "set", "--no-base")
    assert sum(path.stat().st_size for path in (tmp_path / "set").iterdir()) < 0.55 * 2 * rows.nbytes
    knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "again")
    for path in (tmp_path / "in").iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name
