"""Route `stage`: what waits in a tier is encoded again, at a level that makes it smaller, while there is time."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from conftest import REPOSITORY
from running import (  # noqa: F401  a fixture
    Runner,
    forget,
    no_spools_stay,
    nothing_moves,
    script,
    until,
    with_signal,
)
from test_stage import fast, staged_files, tiers  # noqa: F401  a fixture

# What earlier files are said to have become: level "speed" is taken first, and then turns out not to be the best.
LEARNED = {
    "pattern": "a*.h5",
    "extension": "h5",
    "levels": [
        {"ratio": 9.0, "encode": 1e-9, "decode": 1e-9},
        {"ratio": 1.5, "encode": 1e-7, "decode": 1e-8},
        {"ratio": 1.6, "encode": 1e-6, "decode": 1e-8},
    ],
    "variables": [],
}
# A file of noise moves first, and the others are written when it is held.
PROGRAM = """
def hold():
    while not os.path.exists("held noise"):
        time.sleep(0.01)

def contents(number, rows):
    random = np.random.default_rng(number)
    smooth = np.sin(np.linspace(0, 90, rows)) * 40 + random.standard_normal(rows) * 0.05
    return {"T": smooth.astype("f4").round(1), "E": random.exponential(1, rows).astype("f4").round(2)}

def put(number, rows):
    with h5py.File(f"a{number}.h5", "w") as file:
        for name, values in contents(number, rows).items():
            file[name] = values

with h5py.File("noise.h5", "w") as file:
    file["N"] = np.random.default_rng(0).random(1_000_000).astype("f4")
"""
ROWS = 500_000


@pytest.fixture
def config(run: Runner, tmp_path: Path) -> Iterator[str]:
    profile = tmp_path / "machine.json"
    profile.write_bytes((REPOSITORY / "crates/choose/src/profile/built-in.json").read_bytes())
    (tmp_path / "machine.learned.json").write_text(json.dumps({"families": [LEARNED]}))
    first = tiers("640M", "500kB/s", pattern="noise*.h5")
    return f'[machine]\nprofile = "{profile}"\n{first}[[file]]\npattern = "a*.h5"\nroute = "stage"\n'


def check(folder: Path, numbers: range, rows: int = ROWS) -> None:
    names: dict = {"np": np, "h5py": h5py}
    exec(PROGRAM.partition("def put")[0], names)
    for number in numbers:
        with h5py.File(folder / f"a{number}.h5") as file:
            for name, values in names["contents"](number, rows).items():
                np.testing.assert_array_equal(file[name][...], values)


def encoded_again(fast: Path) -> list[Path]:  # noqa: F811
    return list(fast.glob("knarr-spool-*/*.packed"))


def test_what_waits_becomes_smaller_and_readers_see_the_same(run, fast, config):  # noqa: F811
    """Also one that has it open while it is exchanged."""
    reads = f"""
hold()
put(0, {ROWS})
wanted = contents(0, {ROWS})
with h5py.File("a0.h5") as early:
    half = early["T"][:1000]
    open("opened", "w")
    while not os.path.exists("exchanged"):
        time.sleep(0.01)
    with h5py.File("a0.h5") as late:
        for file in (early, late):
            for name, values in wanted.items():
                assert (file[name][...] == values).all(), name
    size = os.path.getsize("a0.h5")
print(size)
open("read", "w")
"""
    process = run.start(*script(PROGRAM + reads), config=config)
    with nothing_moves(run.folder):
        (run.folder / "held noise").touch()
        until(lambda: (run.folder / "opened").exists(), "nothing is opened", of=process)
        until(lambda: len(encoded_again(fast)) == 1, "nothing is encoded again", of=process)
        (packed,) = encoded_again(fast)
        until(lambda: not packed.with_suffix(".image").exists(), "the other one stays", of=process)
        (run.folder / "exchanged").touch()
        until(lambda: (run.folder / "read").exists(), "nothing is read", of=process)
    ran = run.finish(process)
    assert int(ran.out) == (run.folder / "a0.h5").stat().st_size
    check(run.folder, range(1))
    forecasts = ran.result["forecasts"]
    assert forecasts["encoded_again"] == 1 and forecasts["encoded_again_saved_bytes"] > 100_000, forecasts
    assert sum(forecasts["levels"].values()) == 2
    assert "1 file was encoded again while there was time, and became" in ran.err
    file = ran.file("a0.h5")
    assert file["output_bytes"] == (run.folder / "a0.h5").stat().st_size, file


def workers_that_encode_again(fast: Path) -> list[int]:  # noqa: F811
    """Those that have begun to write the other file."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            for opened in os.listdir(f"/proc/{process}/fd"):
                path = os.readlink(f"/proc/{process}/fd/{opened}")
                if path.startswith(f"{fast}/") and ".packed" in path:
                    found.append(int(process))
        except OSError:
            continue
    return found


def test_new_values_are_encoded_though_somebody_encodes_again(run, knarr, fast, config):  # noqa: F811
    """Who does so is stopped, even if it does not hear that. The room that it has taken is given back."""
    writes = f"""
hold()
put(0, {4 * ROWS})
while not os.path.exists("held"):
    time.sleep(0.01)
put(1, {ROWS})
"""
    process = run.start(*script(PROGRAM + writes), config=config.replace("500kB/s", "1MB/s"))

    def counted() -> int:
        runs = json.loads(knarr("tiers", "--json").stdout)["runs"]
        return next(found["tiers"][1]["bytes"] for found in runs if found["pid"] == process.pid)

    def there() -> int:
        return sum(path.stat().st_blocks * 512 for path in fast.glob("knarr-spool-*/*.*") if path.is_file())

    with nothing_moves(run.folder):
        (run.folder / "held noise").touch()
        (held,) = until(lambda: workers_that_encode_again(fast)[:1], "nothing is encoded again", of=process)
        with_signal(held, signal.SIGSTOP)
        (run.folder / "held").touch()
        until(lambda: len(staged_files(fast)) == 3, "the new file is not encoded", of=process)
        until(lambda: not Path(f"/proc/{held}").exists(), "whoever does not hear goes on", of=process)
        # Others may have begun again.
        until(lambda: abs(counted() - there()) < 1_000_000, "the room is not given back", of=process)
    ran = run.finish(process)
    assert ran.file("a0.h5")["outcome"] == ran.file("a1.h5")["outcome"] == "packed", ran.err
    check(run.folder, range(1), 4 * ROWS)
    check(run.folder, range(1, 2))


def test_a_file_that_was_damaged_is_not_encoded_again(run, knarr, fast, config):  # noqa: F811
    """It would have a checksum of what is wrong."""
    writes = f"\nhold()\nput(0, {4 * ROWS})\n"
    process = run.start(*script(PROGRAM + writes), config=config)
    with nothing_moves(run.folder):
        (run.folder / "held noise").touch()
        (held,) = until(lambda: workers_that_encode_again(fast)[:1], "nothing is encoded again", of=process)
        with_signal(held, signal.SIGSTOP)
        (image,) = [path for path in fast.glob("knarr-spool-*/*.image") if path.stat().st_size > 3_500_000]
        begin = image.read_bytes()
        # Values that are stored as they are, or the first bytes of chunks: whoever reads may see nothing of it.
        places = range(100_000, len(begin), 100_000)
        with image.open("r+b") as file:
            for place in places:
                file.seek(place)
                file.write(bytes([begin[place] ^ 1]))
        with_signal(held, signal.SIGCONT)
        (link,) = [path for path in fast.glob("knarr-spool-*/*/image") if path.resolve() == image]
        # The last thing that it does: it has read what was damaged long after it had closed what it has made.
        until(lambda: not list(link.parent.glob("packed*")), "what was made of it stays", of=process)
        assert link.resolve() == image
    ran = run.finish(process)
    assert "was damaged there: its CRC-32C is" in ran.err and not (run.folder / "a0.h5").exists()
    image.write_bytes(begin)
    knarr("run", "--recover", fast)
    check(run.folder, range(1), 4 * ROWS)
    shutil.rmtree(run.scratch, ignore_errors=True)


@pytest.mark.parametrize("seed", range(4))
def test_whoever_is_killed_while_files_are_encoded_again_loses_none(run, knarr, fast, config, seed):  # noqa: F811
    writes = f"\nhold()\nfor number in range(3):\n    put(number, {ROWS})\ntime.sleep(600)\n"
    process = run.start(*script(PROGRAM + writes), config=config, start_new_session=True)
    with nothing_moves(run.folder):
        (run.folder / "held noise").touch()
        until(lambda: len(staged_files(fast)) == 4, "files are not encoded", of=process)
        until(lambda: workers_that_encode_again(fast) or encoded_again(fast), "nothing is encoded again", of=process)
        time.sleep(random.Random(seed).random() * 0.6)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    forget(run.top)
    knarr("run", "--recover", fast)
    check(run.folder, range(3))
    shutil.rmtree(run.scratch, ignore_errors=True)
