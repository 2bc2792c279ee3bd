"""Codecs as the simulator sees them, measured here: what `knarr repack` takes on one core for a file of the values."""

from __future__ import annotations

import json
import subprocess
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from .runs import KNARR
from .values import maker, seed_of

COUNT = 300_000
CHAINS = {
    "lz4": "lz4",
    "deflate 1": "deflate:1",
    "deflate 6": "deflate:6",
    "shuffle, deflate 1": "shuffle | deflate:1",
    "zstd 3": "zstd:3",
    "bzip2": "bzip2",
}
OWN_DEFLATE = "zlib 1 of the program"
GOALS = ("speed", "balanced", "ratio")


@dataclass(frozen=True)
class Codec:
    name: str
    ratio: float
    encode: float
    """Core-seconds for a raw byte, the proof that it can be decoded among them where Knarr makes it."""
    decode: float
    choosing: float = 0.0
    """Seconds that it takes to choose the chains of a file."""


NONE = Codec("none", 1.0, 0.0, 0.0)


def measure(kind: str, folder: Path) -> list[Codec]:
    """The codecs of the comparison, and the goals of Knarr with the filters that HDF5 itself has."""
    source = folder / "calibration.h5"
    with h5py.File(source, "w") as file:
        for name, values in maker(kind)(COUNT, seed_of(0, 0)).items():
            file[name] = values
    chains = [(name, ["--chain", chain, "--portable", "standard"]) for name, chain in CHAINS.items()]
    goals = [(f"goal {goal}", ["--goal", goal, "--portable", "core"]) for goal in GOALS]
    found = [packed(name, options, source) for name, options in [*chains, *goals]]
    source.unlink()
    return [*found, own_deflate(maker(kind)(COUNT, seed_of(0, 0)))]


def own_deflate(values: dict[str, np.ndarray]) -> Codec:
    """Shuffle and deflate 1 with the zlib of the system, as a program's HDF5 has them: slower than Knarr's."""
    raw = stored = 0
    encode = decode = 0.0
    for array in values.values():
        begin = time.process_time()
        shuffled = np.ascontiguousarray(array.view("u1").reshape(-1, array.itemsize).T).tobytes()
        encoded = zlib.compress(shuffled, 1)
        middle = time.process_time()
        zlib.decompress(encoded)
        encode, decode = encode + middle - begin, decode + time.process_time() - middle
        raw, stored = raw + array.nbytes, stored + len(encoded)
    return Codec(OWN_DEFLATE, raw / stored, encode / raw, decode / raw)


def packed(name: str, options: Iterable[str], source: Path) -> Codec:
    target = source.with_name("calibrated.h5")
    command = [KNARR, "repack", source, "-o", target, "--force", "--jobs", "1", "--json", *options]
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    told = json.loads(done.stdout)
    measured = [variable["measured"] for file in told["files"] for variable in file["variables"]]
    raw = sum(variable["raw_bytes"] for file in told["files"] for variable in file["variables"])
    stored = sum(one["encoded_bytes"] for one in measured)
    encode, decode = (sum(one[f"{key}_seconds"] for one in measured) for key in ("encode", "decode"))
    for path in (target, Path(f"{target}.knarr.json")):
        path.unlink(missing_ok=True)
    choosing = sum(file["choosing_seconds"] for file in told["files"])
    return Codec(name, raw / stored, (encode + decode) / raw, decode / raw, choosing)
