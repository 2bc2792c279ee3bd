"""What sets hold beside the content of files (links, directories, permissions, times, holes); which ranks there are."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import struct
import time

import pytest


def tree(directory):
    """Everything below a directory, as it is there: nothing is followed."""
    found = {}
    for path in sorted(directory.rglob("*")):
        name, state = str(path.relative_to(directory)), path.lstat()
        if stat.S_ISLNK(state.st_mode):
            found[name] = ("link", os.readlink(path))
        elif stat.S_ISDIR(state.st_mode):
            found[name] = ("directory", stat.S_IMODE(state.st_mode))
        else:
            found[name] = ("file", path.read_bytes(), stat.S_IMODE(state.st_mode), state.st_mtime_ns)
    return found


def case(directory):
    """As a common CFD code lays it out, with everything else that may lie in a directory."""
    for rank in range(2):
        time_step = directory / f"processor{rank}" / "0.0016"
        (time_step / "real").mkdir(parents=True)
        (time_step / "p").write_bytes(struct.pack("<1000d", *range(rank, rank + 1000)))
        (time_step / "real" / "time").write_text("0.0016")
        (time_step / "uniform").symlink_to("real")
        (time_step / "latest").symlink_to("p")
    (directory / ".hidden").write_text("hidden")
    (directory / ".dir").mkdir()
    (directory / ".dir" / "file").write_text("in a hidden directory")
    (directory / "empty" / "below").mkdir(parents=True)
    (directory / "out").symlink_to("/etc/passwd")
    (directory / "up").symlink_to("../../..")
    (directory / "dangling").symlink_to("no such file")
    os.link(directory / ".hidden", directory / "hard")
    run = directory / "Allrun"
    run.write_text("#!/bin/sh\n")
    run.chmod(0o755)
    (directory / "secret").write_text("mine")
    (directory / "secret").chmod(0o600)
    (directory / "readonly").write_text("look")
    (directory / "readonly").chmod(0o444)
    (directory / "empty").chmod(0o750)
    for number, path in enumerate(sorted(directory.rglob("*"))):
        if path.is_file() and not path.is_symlink():
            os.utime(path, ns=(0, 1_600_000_000_123_456_789 + number * 10**9))


@pytest.fixture
def source(tmp_path):
    directory = tmp_path / "in"
    directory.mkdir()
    case(directory)
    return directory


def test_a_directory_comes_back_as_it_was(knarr, source, tmp_path):
    packed = knarr.json("checkpoint", "pack", source, "-o", tmp_path / "set")
    assert packed["links"] == 7
    assert packed["left_out"] == []
    restored = knarr.json("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out")
    assert restored["links"] == 7
    assert tree(tmp_path / "out") == tree(source)
    # Who may not read the secret may not read the set.
    assert stat.S_IMODE((tmp_path / "set").stat().st_mode) == 0o700
    assert "7 links" in knarr("checkpoint", "info", tmp_path / "set").stdout
    knarr("checkpoint", "verify", tmp_path / "set")
    knarr.fails(4, "checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out")
    knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--force")
    assert tree(tmp_path / "out") == tree(source)


def test_hidden_files_do_not_change_the_ranks_of_others(knarr, source, tmp_path):
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set")
    names = [rank["name"] for rank in knarr.json("checkpoint", "info", tmp_path / "set")["ranks"]]
    assert names[-2:] == [".dir/file", ".hidden"]
    assert names[0] == "Allrun"


def test_what_is_left_out_is_counted_and_named(knarr, source, tmp_path, monkeypatch):
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        # The whole path may be too long for a socket.
        with monkeypatch.context() as here:
            here.chdir(source)
            listening.bind("socket")
        knarr("checkpoint", "pack", source / "Allrun", "-o", source / "sets" / "first")
        said = knarr("checkpoint", "pack", source, "-o", tmp_path / "set").stdout
    assert "left out: 1 checkpoint set (sets/first), 1 pipe (pipe), 1 socket (socket)" in said
    packed = knarr.json("checkpoint", "pack", source, "-o", tmp_path / "other")
    assert {(one["name"], one["kind"]) for one in packed["left_out"]} == {
        ("pipe", "pipe"),
        ("socket", "socket"),
        ("sets/first", "checkpoint set"),
    }


def test_directories_that_may_not_be_entered_keep_others_out_of_the_set(knarr, tmp_path):
    private = tmp_path / "in" / "private"
    private.mkdir(parents=True)
    (private / "r0").write_text("x")
    private.chmod(0o700)
    knarr("checkpoint", "pack", tmp_path / "in", "-o", tmp_path / "set")
    assert stat.S_IMODE((tmp_path / "set").stat().st_mode) == 0o700
    knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out" / "private").stat().st_mode) == 0o700


def test_a_restore_writes_nothing_through_links(knarr, source, tmp_path):
    """Links that are in the way, of an earlier restore or of somebody else, lead nowhere."""
    outside = tmp_path / "outside"
    outside.mkdir()
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set")
    target = tmp_path / "out"
    target.mkdir()
    (target / "processor0").symlink_to(outside)
    (target / "Allrun").symlink_to(outside / "victim")
    for force in ([], ["--force"]):
        knarr.fails(4, "checkpoint", "restore", tmp_path / "set", "-d", target, *force)
        assert list(outside.iterdir()) == []
    (target / "processor0").unlink()
    (outside / "victim").write_text("victim")
    knarr("checkpoint", "restore", tmp_path / "set", "-d", target, "--force")
    assert (outside / "victim").read_text() == "victim"
    assert tree(target) == tree(source)


def test_a_link_with_the_name_of_a_rank_is_its_file(knarr, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    (source / "restart_0.h5").write_bytes(b"zero" * 100)
    (source / "elsewhere").write_bytes(b"one" * 100)
    (source / "restart_1.h5").symlink_to("elsewhere")
    packed = knarr.json("checkpoint", "pack", source, "-o", tmp_path / "set", "--pattern", "restart_{rank}.h5")
    assert (packed["ranks"], packed["links"]) == (2, 0)
    knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out")
    assert (tmp_path / "out" / "restart_1.h5").read_bytes() == b"one" * 100
    assert not (tmp_path / "out" / "restart_1.h5").is_symlink()


def test_holes_stay_holes(knarr, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    for rank in range(2):
        with open(source / f"r{rank}.bin", "wb") as file:
            file.truncate(3 << 30)
            file.seek((1 << 30) + 777)
            file.write(os.urandom(1000))
    began = time.monotonic()
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set")
    knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out")
    took = time.monotonic() - began
    for rank in range(2):
        one, other = source / f"r{rank}.bin", tmp_path / "out" / f"r{rank}.bin"
        assert other.stat().st_size == 3 << 30
        assert other.stat().st_blocks * 512 < 1 << 20
        with one.open("rb") as original, other.open("rb") as restored:
            original.seek(1 << 30)
            restored.seek(1 << 30)
            assert original.read(1 << 20) == restored.read(1 << 20)
    # Hashing 12 GiB of zeros is what is left to do; writing them took longer than that.
    assert took < 60


def test_files_with_zeros_of_any_length_come_back(knarr, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    for number, parts in enumerate([(1, 40_000, 5), (0, 200_000, 0), (100_000, 16_384, 7), (3, 500_001, 1)]):
        before, zeros, after = parts
        (source / f"r{number}").write_bytes(os.urandom(before) + bytes(zeros) + os.urandom(after))
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set")
    knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out")
    for path in source.iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


def ranks(directory, numbers):
    directory.mkdir()
    for number in numbers:
        (directory / f"restart_00100_{number}.h5").write_bytes(f"rank {number}".encode() * 50)
    return directory


PATTERN = ("--pattern", "restart_00100_{rank}.h5")


def test_missing_ranks_are_an_error_that_names_them(knarr, tmp_path):
    source = ranks(tmp_path / "in", [0, 1, 3, 4, 9])
    pack = ("checkpoint", "pack", source, "-o", tmp_path / "set", *PATTERN)
    said = knarr.fails(3, *pack)
    assert "there is no file of ranks 2, 5-8" in said
    assert "--ranks 0-1,3-4,9" in said
    assert not (tmp_path / "set").exists()
    assert "no file of ranks 10-15" in knarr.fails(3, *pack, "--ranks", "0-1,3-4,9-15")
    assert "rank 9, which --ranks does not name" in knarr.fails(2, *pack, "--ranks", "5")
    assert "no ranks" in knarr.fails(2, *pack, "--ranks", "0-3,2")
    assert "--pattern" in knarr.fails(2, "checkpoint", "pack", source, "-o", tmp_path / "set", "--ranks", "5")


def test_ranks_have_the_numbers_in_their_names(knarr, tmp_path):
    source = ranks(tmp_path / "in", [0, 1, 3, 4])
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set", *PATTERN, "--ranks", "0-1,3-4")
    info = knarr.json("checkpoint", "info", tmp_path / "set")
    assert [(rank["rank"], rank["name"]) for rank in info["ranks"]] == [
        (number, f"restart_00100_{number}.h5") for number in (0, 1, 3, 4)
    ]
    restored = knarr.json("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--ranks", "3")
    assert [file["rank"] for file in restored["files"]] == [3]
    assert os.listdir(tmp_path / "out") == ["restart_00100_3.h5"]
    said = knarr.fails(2, "checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "none", "--ranks", "2")
    assert "the set has ranks 0-1, 3-4" in said
    store = next((tmp_path / "set").glob("group-*"))
    store.write_bytes(store.read_bytes()[:-3] + b"xxx")
    assert "rank 4 (restart_00100_4.h5)" in knarr.fails(3, "checkpoint", "verify", tmp_path / "set")


def test_ranks_that_are_counted_from_1(knarr, tmp_path):
    source = ranks(tmp_path / "in", [1, 2, 3])
    pack = ("checkpoint", "pack", source, *PATTERN)
    assert "no file of rank 0" in knarr.fails(3, *pack, "-o", tmp_path / "set")
    knarr(*pack, "-o", tmp_path / "set", "--ranks", "1-3")
    knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--ranks", "3")
    assert os.listdir(tmp_path / "out") == ["restart_00100_3.h5"]


def test_links_are_restored_with_all_files_only(knarr, source, tmp_path):
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set")
    knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--ranks", "0")
    assert list(tree(tmp_path / "out")) == ["Allrun"]


def test_a_set_that_is_packed_again_from_what_it_restored_is_the_same(knarr, source, tmp_path):
    knarr("checkpoint", "pack", source, "-o", tmp_path / "one")
    knarr("checkpoint", "restore", tmp_path / "one", "-d", tmp_path / "out")
    knarr("checkpoint", "pack", tmp_path / "out", "-o", tmp_path / "two", "--no-base")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    shutil.rmtree(tmp_path / "one")
    assert json.loads(knarr("checkpoint", "list", tmp_path, "--json").stdout)["sets"]
