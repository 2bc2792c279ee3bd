"""Files that crash what reads them: others are done all the same, and nothing half written stays."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import h5py
import numpy as np

from crashing import library, workers
from running import until
from values import smooth_field

FIELD = smooth_field((8, 128, 256), seed=1)


def inputs(folder: Path, *names: str, copies: int = 1) -> list[Path]:
    folder.mkdir()
    for name in names:
        with h5py.File(folder / name, "w") as file:
            for number in range(copies):
                file[f"T{number}"] = FIELD + number
    return [folder / name for name in names]


def test_a_crash_is_the_failure_of_one_input(knarr, tmp_path):
    files = inputs(tmp_path / "in", "a.h5", "crash.h5", "z.h5")
    (tmp_path / "out").mkdir()
    preloaded = {**knarr.environment, "LD_PRELOAD": str(library(tmp_path))}
    knarr.environment, plain = preloaded, knarr.environment
    try:
        err = knarr.fails(3, "repack", *files, "-o", tmp_path / "out", names=("crash.h5: ", "SIGABRT", "1 of 3"))
        answer = knarr("repack", *files, "-o", tmp_path / "out", "--force", "--json", ok=False)
        dry = knarr("repack", *files, "-o", tmp_path / "out", "--dry-run", "--json", ok=False)
    finally:
        knarr.environment = plain
    assert "a.h5: " not in err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "a.h5",
        "a.h5.knarr.json",
        "z.h5",
        "z.h5.knarr.json",
    ]
    answer, plans = json.loads(answer.stdout), json.loads(dry.stdout)
    assert [Path(file["output"]).name for file in answer["files"]] == ["a.h5", "z.h5"]
    assert [(Path(one["input"]).name, one["exit_code"]) for one in answer["failed"]] == [("crash.h5", 3)]
    assert len(plans["plans"]) == 2 and [one["exit_code"] for one in plans["failed"]] == [3]
    for name in ("a.h5", "z.h5"):
        knarr("verify", tmp_path / "in" / name, tmp_path / "out" / name)


def test_many_inputs_give_the_bytes_that_each_gives_alone(knarr, tmp_path):
    files = inputs(tmp_path / "in", "a.h5", "b.h5")
    for folder in ("many", "alone"):
        (tmp_path / folder).mkdir()
    many = knarr.json("repack", *files, "-o", tmp_path / "many", "--max-abs-error", "T0=0.01", "--portable", "knarr")
    for path in files:
        options = ("--max-abs-error", "T0=0.01", "--portable", "knarr", "-j1")
        alone = knarr.json("repack", path, "-o", tmp_path / "alone" / path.name, *options)
        chains = [[variable["chain"] for variable in one["variables"]] for one in (alone["files"][0], many["files"][0])]
        assert chains[0] == chains[1]
        with h5py.File(tmp_path / "many" / path.name) as a, h5py.File(tmp_path / "alone" / path.name) as b:
            chunks = a["T0"].id.get_num_chunks()
            assert chunks == b["T0"].id.get_num_chunks()
            for number in range(chunks):
                at = a["T0"].id.get_chunk_info(number).chunk_offset
                assert a["T0"].id.read_direct_chunk(at) == b["T0"].id.read_direct_chunk(at)


def test_a_killed_process_leaves_nothing_and_the_rest_is_done(knarr, tmp_path):
    files = inputs(tmp_path / "in", *(f"{number}.h5" for number in range(3)), copies=3)
    (tmp_path / "out").mkdir()
    process = knarr.start("repack", *files, "-o", tmp_path / "out", "--goal", "archive", "--json")
    until(lambda: list((tmp_path / "out").glob(".*")), "packing has not begun", of=process)
    for worker in workers(process.pid):
        os.kill(worker, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 3 and "SIGKILL" in err and "--max-mem" in err
    answer = json.loads(out)
    assert len(answer["failed"]) == 1 and len(answer["files"]) == 2
    assert not list((tmp_path / "out").glob(".*"))
    for file in answer["files"]:
        knarr("verify", file["input"], file["output"])


def test_an_interrupt_stops_the_work_and_leaves_nothing(knarr, tmp_path):
    files = inputs(tmp_path / "in", "a.h5", "b.h5", copies=5)
    (tmp_path / "out").mkdir()
    # As at a terminal: all processes get the signal.
    process = knarr.start("repack", *files, "-o", tmp_path / "out", "--goal", "archive", start_new_session=True)
    until(lambda: list((tmp_path / "out").glob(".*")), "packing has not begun", of=process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted; nothing was changed" in err
    assert not list((tmp_path / "out").iterdir())


def test_who_asked_is_killed_and_the_work_stops(knarr, tmp_path):
    files = inputs(tmp_path / "in", "a.h5", "b.h5", copies=5)
    (tmp_path / "out").mkdir()
    process = knarr.start("repack", *files, "-o", tmp_path / "out", "--goal", "archive")
    until(lambda: list((tmp_path / "out").glob(".*")), "packing has not begun", of=process)
    (worker,) = workers(process.pid)
    process.kill()
    process.communicate(timeout=60)
    until(lambda: not Path(f"/proc/{worker}").exists(), "the worker goes on")
    assert not list((tmp_path / "out").iterdir())
    with h5py.File(files[0]) as file:
        assert np.array_equal(file["T0"][:], FIELD)
