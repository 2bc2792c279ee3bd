"""What sets share: how much room it takes, when it pays, and how many copies there are of it."""

from __future__ import annotations

import os
import shutil

import pytest

from conftest import sets_in

STATIC, MOVING = 400_000, 1_600_000


@pytest.fixture
def program(tmp_path):
    """Writes steps of which a fifth stays what it is."""
    out = tmp_path / "out"
    out.mkdir()
    static = os.urandom(STATIC)

    def step(moving=MOVING):
        (out / "r0.bin").write_bytes(static + os.urandom(moving))
        return out

    return step


def on_disk(directory):
    """Bytes of all sets, files with several names counted once."""
    files = {}
    for path in directory.rglob("*"):
        if path.is_file() and path.parent != directory:
            state = path.stat()
            files[state.st_ino] = state.st_size
    return sum(files.values())


def pack(knarr, program, sets, step, *options, **how):
    return knarr.json("checkpoint", "pack", program(**how), "-o", sets / str(step), *options)


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_sets_that_are_kept_are_no_larger_than_without_sharing(knarr, program, tmp_path, keep):
    sizes = {}
    for name, options in (("shared", ()), ("apart", ("--no-base",))):
        sets = tmp_path / name
        for step in range(1, keep + 4):
            packed = pack(knarr, program, sets, step, *options)
            knarr("checkpoint", "prune", sets, "--keep", keep)
        assert len(sets_in(sets)) == keep
        sizes[name] = on_disk(sets)
        if name == "shared":
            assert packed["apart_bytes"] > STATIC / 2
    assert sizes["shared"] <= sizes["apart"] * 1.001


def test_sets_share_where_all_of_them_stay(knarr, program, tmp_path):
    sets = tmp_path / "sets"
    for step in range(1, 5):
        packed = pack(knarr, program, sets, step)
    assert packed["reused_bytes"] > STATIC / 2
    assert on_disk(sets) < 4 * MOVING + 2 * STATIC


def test_sets_share_what_stays_the_same_for_the_most_part(knarr, program, tmp_path):
    """Of three sets that are kept each would store four fifths anew: 3.75 times what is static."""
    sets = tmp_path / "sets"
    for step in range(1, 6):
        pack(knarr, program, sets, step, moving=STATIC // 4)
        knarr("checkpoint", "prune", sets, "--keep", 3)
    assert on_disk(sets) < 2.25 * STATIC


def test_a_directory_that_is_not_pruned_each_time_shares(knarr, program, tmp_path):
    sets = tmp_path / "sets"
    pack(knarr, program, sets, 1)
    knarr("checkpoint", "prune", sets, "--keep", 1)
    assert pack(knarr, program, sets, 2)["apart_bytes"] > 0
    assert pack(knarr, program, sets, 3)["reused_bytes"] > 0
    assert pack(knarr, program, sets, 4, "--base", sets / "3")["reused_bytes"] > 0


def test_a_list_counts_what_is_shared_once(knarr, program, tmp_path):
    sets = tmp_path / "sets"
    for step in range(1, 4):
        pack(knarr, program, sets, step)
    found = knarr.json("checkpoint", "list", sets)
    assert found["disk_bytes"] == on_disk(sets)
    assert found["disk_bytes"] < sum(one["stored_bytes"] for one in found["sets"])
    before = on_disk(sets)
    last = found["sets"][-1]
    shutil.rmtree(last["set"])
    assert before - on_disk(sets) == last["frees_bytes"]
    assert "on disk: " in knarr("checkpoint", "list", sets).stdout


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    with open(path, "r+b") as file:
        file.write(data)


def outcome(knarr, what, path, *more):
    return knarr("checkpoint", what, path, *more, ok=False).returncode


def test_sets_that_share_do_not_protect_each_other(knarr, program, tmp_path):
    """As docs/checkpoints.md warns: three sets, and one flipped byte damages all of them, unless `copies = 2`."""
    sets, out = tmp_path / "sets", program()
    for name in ("1", "2", "3"):
        knarr("checkpoint", "pack", out, "-o", sets / name)
    flip(next((sets / "1").glob("group-*.knarr")))
    assert [outcome(knarr, "verify", sets / name) for name in ("1", "2", "3")] == [3, 3, 3]


@pytest.mark.parametrize("which", ["first", "copy"])
def test_with_two_copies_one_flipped_byte_leaves_one_set_readable(knarr, program, tmp_path, which):
    sets = tmp_path / "sets"
    out = program()
    knarr("checkpoint", "pack", out, "-o", sets / "1", "--copies", 2)
    # All of it is shared.
    second = knarr.json("checkpoint", "pack", out, "-o", sets / "2", "--copies", 2)
    assert second["copied_bytes"] > STATIC
    assert "two copies" in knarr("checkpoint", "info", sets / "2").stdout
    copy = next((sets / "2").glob("group-*-copy.knarr"))
    first = copy.with_name(copy.name.replace("-copy", ""))
    assert first.stat().st_ino != copy.stat().st_ino
    assert first.stat().st_ino == (sets / "1" / first.name).stat().st_ino
    # Another set has links to both.
    third = knarr.json("checkpoint", "pack", out, "-o", sets / "3", "--copies", 2)
    assert third["copied_bytes"] == 0
    flip(first if which == "first" else copy)
    assert outcome(knarr, "verify", sets / "1") == (3 if which == "first" else 0)
    for name in ("2", "3"):
        said = knarr.fails(3, "checkpoint", "verify", sets / name)
        assert "the other copy serves" in said
        restored = knarr("checkpoint", "restore", sets / name, "-d", tmp_path / f"out-{name}")
        assert ("the other copy serves" in restored.stderr) == (which == "first")
        assert (tmp_path / f"out-{name}" / "r0.bin").read_bytes() == (out / "r0.bin").read_bytes()
    # A new set trusts neither of them blindly.
    knarr("checkpoint", "pack", out, "-o", sets / "4", "--copies", 2)
    knarr("checkpoint", "verify", sets / "4")
    knarr("checkpoint", "prune", sets, "--keep", 1)
    assert sets_in(sets) == ["4"]


def test_a_store_that_is_lost_is_read_from_its_copy(knarr, program, tmp_path):
    sets = tmp_path / "sets"
    out = program()
    for name in ("1", "2"):
        knarr("checkpoint", "pack", out, "-o", sets / name, "--copies", 2)
    copy = next((sets / "2").glob("group-*-copy.knarr"))
    copy.with_name(copy.name.replace("-copy", "")).unlink()
    knarr("checkpoint", "restore", sets / "2", "-d", tmp_path / "out-2")
    assert (tmp_path / "out-2" / "r0.bin").read_bytes() == (out / "r0.bin").read_bytes()
    assert len(knarr.json("checkpoint", "list", sets)["sets"]) == 2


def test_the_configuration_says_how_many_copies(knarr, program, tmp_path):
    rule = '[[file]]\npattern = "*.bin"\nroute = "checkpoint"\ncopies = {}\n'
    (tmp_path / "knarr.toml").write_text(rule.format(2))
    out = program()
    options = ("-c", tmp_path / "knarr.toml")
    for name in ("1", "2"):
        knarr("checkpoint", "pack", out, "-o", tmp_path / "sets" / name, *options)
    assert list((tmp_path / "sets" / "2").glob("*-copy.knarr"))
    (tmp_path / "knarr.toml").write_text(rule.format(3))
    assert "copies = 2" in knarr.fails(2, "checkpoint", "pack", out, "-o", tmp_path / "sets" / "3", *options)
