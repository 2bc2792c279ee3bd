"""`knarr run --restart`: the files of the newest whole set come back; kills of the launcher lose nothing.

Programs are those of `test_run_checkpoint.py`.
"""

from __future__ import annotations

import re
import time

import pytest

from chances import repeated
from checkpoint_route import (
    CANNOT_BEGIN,
    THREE_STEPS,
    Route,
    content,
    contents,
    name,
    program,
    rule,
)
from conftest import sets_in
from running import Ran, forget, group_ends


def restart(route: Route, *command: object, force: bool = False, **how: object) -> Ran:
    options = ("--restart", "--force") if force else ("--restart",)
    return route(*(command or ("true",)), options=options, **how)


def test_restart_without_a_set_begins_anew(route):
    ran = restart(route, *program("write_step(1); sys.exit(3)"), ok=False)
    assert ran.code == 3
    assert f"no set is in {route.sets} yet: the program starts from its beginning" in ran.err


def test_restart_needs_a_rule(route):
    ran = restart(route, config='[[file]]\npattern = "*"\n', ok=False)
    assert ran.code == CANNOT_BEGIN and 'no rule has route "checkpoint"' in ran.err


def test_restart_brings_the_newest_set_back(route):
    route(*THREE_STEPS)
    for path in route.folder.glob("restart*"):
        path.unlink()
    ran = restart(route, *program("print(sorted(name for name in os.listdir() if 'restart' in name))"))
    assert ran.out == f"{sorted(contents(3))}\n", "they are there when the program starts"
    assert "restart from step 3: 4 of 4 files" in ran.err
    assert route.files() == contents(3)
    assert not list(route.folder.glob(".*"))
    # Files that are there stay as they are; what is missing comes.
    (route.folder / name(3, 1)).unlink()
    before = (route.folder / name(3, 0)).stat()
    ran = restart(route)
    assert "ranks write now" not in ran.err
    assert "1 of 4 files were brought back" in ran.err and "3 were there" in ran.err
    assert (route.folder / name(3, 0)).stat().st_mtime_ns == before.st_mtime_ns
    assert route.files() == contents(3)
    assert route.steps() == [1, 2, 3], "what was brought back is not packed again"
    assert "has 4 files, and 8 ranks write now" in restart(route, config=rule(ranks=8)).err


def test_restart_after_a_crash_with_an_incomplete_step(route):
    crash = program("write_step(1); write_step(2); wait_for_set(2); write(3, 0); write(3, 2, part=0.3); os.abort()")
    route(*crash, ok=False)
    left = route.files()
    ran = restart(route, *program("write_step(3)"))
    assert "restart from step 2: 0 of 4 files were brought back" in ran.err
    assert "files of step 3 were there before" in ran.err
    assert route.steps() == [1, 2, 3]
    assert route.restored(3) == contents(3)
    assert len(left[name(3, 2)]) < len(content(3, 2))


def test_restart_passes_over_a_damaged_set(route):
    route(*THREE_STEPS)
    for path in route.folder.glob("restart*"):
        path.unlink()
    route.damage(3)
    ran = restart(route)
    assert "step_3" in ran.err and "an earlier set is taken instead" in ran.err
    assert "restart from step 2" in ran.err
    assert route.files() == contents(2), "nothing of the damaged set is left"
    assert not list(route.folder.glob(".*"))
    for manifest in (route.sets / "step_2").glob("manifest*"):
        manifest.write_bytes(b"KNARR?")
    (route.folder / name(2, 0)).unlink()
    assert "restart from step 1" in restart(route).err
    # The program writes the step again, and its set is mended.
    ran = route(*program("write_step(3)"))
    assert route.restored(3) == contents(3)
    assert "restart from step 3" in restart(route).err


def test_restart_without_a_whole_set_is_an_error(route):
    route(*program("write_step(1)"))
    for path in route.folder.glob("restart*"):
        path.unlink()
    route.damage(1)
    ran = restart(route, "touch", "started", ok=False)
    assert ran.code == CANNOT_BEGIN
    assert "no set is whole" in ran.err and "leave --restart out" in ran.err
    assert not (route.folder / "started").exists() and route.files() == {}


def test_restart_replaces_no_other_file_unless_forced(route):
    route(*THREE_STEPS)
    (route.folder / name(3, 2)).write_bytes(b"edited")
    (route.folder / name(3, 3)).unlink()
    files = route.files()
    ran = restart(route, "touch", "started", ok=False)
    assert ran.code == CANNOT_BEGIN
    assert name(3, 2) in ran.err and "--force" in ran.err
    assert not (route.folder / "started").exists()
    assert route.files() == files, "all or nothing"
    restart(route, force=True)
    assert route.files() == contents(1) | contents(2) | contents(3)


def test_restart_takes_no_set_of_other_files(route):
    route(*program("write_step(1)"))
    ran = restart(route, config=rule("other_{step}_{rank}"), ok=False)
    assert ran.code == CANNOT_BEGIN
    assert "does not name for step 1" in ran.err


# Kills

MODEL = """
try:
    begin = 1 + int(open("begin").read())
except FileNotFoundError:
    begin = 1
for step in range(begin, begin + 3):
    write_step(step)
    time.sleep(0.15)
"""


@pytest.mark.kill
def test_kills_of_the_launcher_lose_no_set_and_no_file(route, chance):
    """Killed at any moment, also while sets replace others and originals are removed."""
    kills = 0
    whole: set[int] = set()
    last = 0
    while kills < repeated(30):
        begin = chance.choice([last, max(last - 2, 0)])
        (route.folder / "begin").write_text(str(begin))
        removes = chance.random() < 0.5
        config = rule(settle='"50ms"', remove_originals=str(removes).lower())
        process = route.start(*program(MODEL), config=config, start_new_session=True)
        time.sleep(chance.uniform(0.05, 1.4))
        process.kill()
        kills += process.wait() != 0
        group_ends(process.pid)
        process.communicate()
        forget(route.run.top)
        steps = {int(path.name[5:]) for path in route.sets.glob("step_*")}
        assert whole <= steps, "a set is gone"
        whole = steps
        files = route.files()
        for step in range(begin + 1, begin + 4):
            if step not in steps:
                # The program was not killed: what it wrote is there and whole.
                assert all(files[path] == data for path, data in contents(step).items() if path in files)
            elif chance.random() < 0.3 or step == max(steps):
                assert route.restored(step) == contents(step)
        last = begin + 3
    # On a busy machine no run may have come so far that it made a set.
    route(*program(MODEL))
    whole = {int(path.name[5:]) for path in route.sets.glob("step_*")}
    newest = int(re.search(r"restart from step (\d+)", restart(route).err)[1])
    assert newest in whole
    assert all(route.files()[path] == data for path, data in contents(newest).items())
    left = [name for name in sets_in(route.sets) if not name.startswith("step_")]
    assert not left, "the next run removes what killed ones left"


@pytest.mark.kill
def test_kills_of_a_restart_leave_whole_files(route, chance):
    route(*program("write_step(1)"))
    for _ in range(repeated(25)):
        for path in route.folder.glob("restart*"):
            if chance.random() < 0.8:
                path.unlink()
        process = route.start("true", options=("--restart",))
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.communicate()
        assert all(contents(1)[path] == data for path, data in route.files().items() if "/" not in path)
        forget(route.run.top)
    restart(route)
    assert route.files() == contents(1)
    assert not list(route.folder.glob(".*"))
