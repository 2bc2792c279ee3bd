"""`knarr checkpoint advise`: how long to compute between two checkpoints, from given times and from measured ones."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import knarr as package
from checkpoint_route import Route, program
from conftest import COSTS
from test_checkpoint_watch import Watch, write_h5

PAUSE_S = 0.4


def daly(checkpoint: float, mtbf: float) -> float:
    ratio = checkpoint / (2 * mtbf)
    return (2 * checkpoint * mtbf) ** 0.5 * (1 + ratio**0.5 / 3 + ratio / 9) - checkpoint


def costs(sets: Path) -> list[dict]:
    """What was measured, line by line."""
    return [json.loads(line) for line in (sets / COSTS).read_text().splitlines()]


def advise(knarr, sets: Path, *options: object) -> dict:
    return knarr.json("checkpoint", "advise", sets, "--mtbf", "8h", *options)


def test_the_interval_is_that_of_the_papers(knarr):
    """Daly's own example: a checkpoint of 5 min and a restart of 10 min on a machine that fails once a day."""
    said = json.loads(
        knarr("checkpoint", "advise", "--cost", "5min", "--restart", "10min", "--mtbf", "1day", "--json").stdout
    )
    assert said["young_s"] == pytest.approx((2 * 300 * 86400) ** 0.5)
    assert said["interval_s"] == pytest.approx(daly(300, 86400))
    assert 1.05 < said["run_time_factor"] < 1.15


def test_words_for_people(knarr):
    said = knarr("checkpoint", "advise", "--cost", "12s", "--restart", "30s", "--mtbf", "8h").stdout
    assert said.startswith("compute 13m 43s between two checkpoints (Daly 2006; Young 1974: 13m 51s)\n"), said
    assert "1.031 times as long" in said


@pytest.mark.parametrize(
    ("cost", "mtbf", "words"),
    [("0s", "8h", "the time for which it stops"), ("12s", "0s", "mean time between failures"), ("12", "8h", "--cost")],
)
def test_what_gives_no_interval_is_refused(knarr, cost, mtbf, words):
    done = knarr("checkpoint", "advise", "--cost", cost, "--restart", "30s", "--mtbf", mtbf, ok=False)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.fixture
def dated(tmp_path: Path) -> Path:
    """A folder whose file system says when files were made."""
    made = subprocess.run(["stat", "-c", "%W", tmp_path], capture_output=True, text=True, check=True).stdout.strip()
    if made in ("0", "-"):
        pytest.skip("the file system of temporary files does not tell when files were made")
    return tmp_path


def test_a_watch_measures_how_long_the_program_writes(knarr, dated):
    watch = Watch(knarr, dated)
    watch.start()
    spent = []
    for step in (1, 2, 3):
        begin = time.monotonic()
        for rank in range(4):
            write_h5(watch.out / f"restart_{step}_{rank}.h5", rank, 500)
            time.sleep(PAUSE_S if rank < 3 else 0)
        spent.append(time.monotonic() - begin)
        watch.has(step)
    assert watch.stop()[0] == 0
    measured = costs(watch.sets)
    assert [line["by"] for line in measured] == ["watch"] * 3
    stopped = [line["stopped_s"] for line in measured]
    # File systems date by a clock that ticks every few milliseconds.
    assert all(3 * PAUSE_S - 0.02 <= one <= whole + 0.02 for one, whole in zip(stopped, spent, strict=True)), stopped
    assert all(line["packed_s"] > 0 for line in measured)

    said = advise(knarr, watch.sets)
    median = statistics.median(stopped)
    assert said["checkpoint"] == {
        "seconds": pytest.approx(median),
        "from": "program",
        "count": 3,
        "least_s": pytest.approx(min(stopped)),
        "most_s": pytest.approx(max(stopped)),
        "by": ["knarr checkpoint watch"],
    }
    assert said["interval_s"] == pytest.approx(daly(median, 8 * 3600))
    assert said["restart"] is None and said["run_time_factor"] is None

    target = dated / "restored"
    knarr("checkpoint", "restore", watch.set(3), "-d", target, "--ranks", "0-1")
    assert advise(knarr, watch.sets)["restart"] is None, "a part is no restart"
    knarr("checkpoint", "restore", watch.set(3), "-d", target, "--force")
    said = advise(knarr, watch.sets)
    assert said["restart"]["count"] == 1 and said["restart"]["by"] == ["knarr checkpoint restore"]
    assert said["run_time_factor"] > 1
    text = knarr("checkpoint", "advise", watch.sets, "--mtbf", "8h").stdout
    assert "a checkpoint stops the program for " in text
    assert ": median of 3 (" in text and "measured by knarr checkpoint watch\n" in text
    assert "a restart takes " in text and "measured by knarr checkpoint restore\n" in text

    given = advise(knarr, watch.sets, "--cost", "12s", "--restart", "30s")
    assert given["checkpoint"] == {"seconds": 12, "from": "option"} and given["restart"]["seconds"] == 30
    assert given["interval_s"] == pytest.approx(daly(12, 8 * 3600))


def test_files_from_before_the_watch_tell_packing_alone(knarr, tmp_path):
    watch = Watch(knarr, tmp_path)
    for rank in range(4):
        write_h5(watch.out / f"restart_1_{rank}.h5", rank, 500)
    watch.once()
    [line] = costs(watch.sets)
    assert set(line) == {"by", "packed_s"}


def test_knarr_run_measures_checkpoints_and_restarts(run, knarr, dated):
    route = Route(run, knarr)
    wait = f"time.sleep({PAUSE_S})"
    step = f"write(step, 0); {wait}; [write(step, n) for n in (1, 2, 3)]; wait_for_set(step)"
    route(*program(f"for step in (1, 2): {step}"))
    first = costs(route.sets)
    assert [line["by"] for line in first] == ["run"] * 2
    assert all(PAUSE_S - 0.02 <= line["stopped_s"] < 300 for line in first)
    for path in route.folder.glob("restart*"):
        path.unlink()
    route("true", options=("--restart",))
    assert costs(route.sets)[-1]["by"] == "run" and costs(route.sets)[-1]["restart_s"] > 0
    route("true", options=("--restart",))
    assert len(costs(route.sets)) == 3, "files that were there tell nothing of what bringing them back takes"
    said = advise(knarr, route.sets)
    assert said["checkpoint"]["by"] == said["restart"]["by"] == ["knarr run"]


def test_the_library_measures_its_calls(knarr, tmp_path):
    field = np.random.default_rng(3).normal(size=(200, 300))
    spent = 0.0

    def timed(call: Callable[[], object]) -> object:
        nonlocal spent
        begin = time.monotonic()
        result = call()
        spent += time.monotonic() - begin
        return result

    totals = []
    with package.Checkpoint(tmp_path) as checkpoint:
        for step in (1, 2, 3):
            timed(lambda step=step: checkpoint.begin(step))
            if step > 1:
                totals.append(spent)
            time.sleep(PAUSE_S)
            timed(lambda: checkpoint.put("T", field))
            timed(checkpoint.commit)
            timed(checkpoint.wait)
        totals.append(spent)
    stopped = [line["stopped_s"] for line in costs(tmp_path)]
    assert len(stopped) == 3 and all(line["by"] == "library" for line in costs(tmp_path))
    # All that calls took, and nothing of what was computed between them.
    assert 0.5 * totals[-1] < sum(stopped) <= totals[-1] + 0.01
    with package.Checkpoint(tmp_path) as checkpoint:
        begin = time.monotonic()
        restart = checkpoint.restart()
        assert (restart.read("T") == field).all()
        read = time.monotonic() - begin
        checkpoint.begin(4)
        checkpoint.put("T", field)
        checkpoint.commit()
    [line] = [line for line in costs(tmp_path) if "restart_s" in line]
    assert line["by"] == "library" and 0 < line["restart_s"] <= read + 0.01
    said = advise(knarr, tmp_path)
    assert said["checkpoint"]["by"] == said["restart"]["by"] == ["the checkpoint library"]
    assert said["checkpoint"]["count"] == 4


def pack(knarr, folder: Path, name: str = "set") -> None:
    source = folder / "in"
    source.mkdir(exist_ok=True)
    for rank in range(2):
        (source / f"r{rank}").write_bytes(bytes(range(256)) * 500)
    knarr("checkpoint", "pack", source, "-o", folder / "sets" / name)


def test_packing_alone_is_said_to_be_that(knarr, tmp_path):
    pack(knarr, tmp_path)
    pack(knarr, tmp_path, "other")
    said = advise(knarr, tmp_path / "sets")
    assert said["checkpoint"]["from"] == "packing" and said["checkpoint"]["count"] == 2
    text = knarr("checkpoint", "advise", "--mtbf", "8h", cwd=tmp_path / "sets").stdout
    assert "a checkpoint is taken to cost what packing takes, " in text and ": median of 2 (" in text
    assert "what else stops the program was not measured: --cost says it" in text
    assert "of which none was measured: --restart says it" in text


def test_without_measurements_it_says_how_to_get_some(knarr, tmp_path):
    words = knarr.fails(3, "checkpoint", "advise", tmp_path, "--mtbf", "8h")
    assert f"{tmp_path}: no checkpoint was measured there; " in words
    assert "'knarr checkpoint watch'" in words and "--cost" in words
    knarr.fails(3, "checkpoint", "advise", tmp_path / "none", "--mtbf", "8h", names=(tmp_path / "none",))
    # A restart alone says nothing of checkpoints.
    (tmp_path / COSTS).write_text('{"by":"restore","restart_s":3}\n')
    knarr.fails(3, "checkpoint", "advise", tmp_path, "--mtbf", "8h")


def test_lines_that_say_nothing_are_passed_over(knarr, tmp_path):
    good = '{"by":"watch","stopped_s":2.0,"packed_s":900,"of_later_versions":1}\n'
    (tmp_path / COSTS).write_bytes(b'\xff\x00\n{"by":"w\n[]\n{"stopped_s":1}\n' + good.encode() + b'{"by":"watch","st')
    said = advise(knarr, tmp_path)
    assert (said["checkpoint"]["seconds"], said["checkpoint"]["count"]) == (2.0, 1)
    # Packing that takes longer than the interval is worth a word.
    text = knarr("checkpoint", "advise", tmp_path, "--mtbf", "8h").stdout
    assert "packing a step takes 15m, longer than the interval: checkpoints will wait for each other" in text


def test_no_set_fails_for_want_of_a_measurement(knarr, tmp_path):
    (tmp_path / "sets" / COSTS).mkdir(parents=True)
    pack(knarr, tmp_path)
    knarr("checkpoint", "restore", tmp_path / "sets" / "set", "-d", tmp_path / "out")
    assert [row["set"] for row in knarr.json("checkpoint", "list", tmp_path / "sets")["sets"]] == [
        str(tmp_path / "sets" / "set")
    ]
    knarr.fails(3, "checkpoint", "advise", tmp_path / "sets", "--mtbf", "8h", names=("no checkpoint was measured",))


def test_measurements_are_no_files_of_ranks(knarr, tmp_path):
    pack(knarr, tmp_path)
    (tmp_path / "sets" / "r0").write_bytes(b"a file of a rank")
    knarr("checkpoint", "pack", tmp_path / "sets", "-o", tmp_path / "packed")
    assert len(knarr.json("checkpoint", "info", tmp_path / "packed")["ranks"]) == 1
