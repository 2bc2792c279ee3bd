"""Where reports, profiles, models and plans go: nothing of the user's is replaced, and no work is lost for a place."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from conftest import outputs
from running import script

USAGE, UNWRITABLE = 2, 4


@pytest.fixture
def source(made):
    return made("hdf5", "special_values")


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_report_is_never_put_in_place_of_an_input_an_output_or_a_plan(knarr, source, tmp_path, out, force):
    copy = tmp_path / "in.h5"
    copy.write_bytes(source.read_bytes())
    link = tmp_path / "link.html"
    link.symlink_to(copy)
    for report, what in (
        (copy, "an input"),
        (link, "an input"),
        (out / "." / "a.h5", "an output"),
        (out / "a.h5.knarr.json", "a plan"),
    ):
        knarr.fails(USAGE, "repack", copy, "-o", out / "a.h5", "--report", report, *force, names=("--report", what))
        assert copy.read_bytes() == source.read_bytes()
        assert not list(out.iterdir())


def test_a_report_replaces_an_earlier_one_and_nothing_else(knarr, source, out):
    report = out / "report.html"
    knarr("repack", source, "-o", out / "a.h5", "--report", report)
    report.write_text(report.read_text() + "<!-- old -->")
    knarr("repack", source, "-o", out / "b.h5", "--report", report)
    assert "<!-- old -->" not in report.read_text()
    thesis = out / "thesis.html"
    thesis.write_text("<!DOCTYPE html>\n<html><body>years of work</body></html>")
    knarr.fails(UNWRITABLE, "repack", source, "-o", out / "c.h5", "--report", thesis, names=("thesis.html", "--force"))
    assert "years of work" in thesis.read_text() and not (out / "c.h5").exists()
    knarr("repack", source, "-o", out / "c.h5", "--report", thesis, "--force")
    assert "<svg" in thesis.read_text()


def test_a_report_without_a_place_is_told_before_any_work(knarr, source, out):
    for report in (out / "none" / "report.html", out):
        for force in ([], ["--force"]):
            knarr.fails(UNWRITABLE, "repack", source, "-o", out / "a.h5", "--report", report, *force)
            assert not list(out.iterdir())


def test_a_run_does_not_begin_if_its_report_would_replace_something_else(knarr, tmp_path):
    (tmp_path / "knarr.toml").write_text('[[file]]\npattern = "*"\n')
    precious, begun = tmp_path / "precious", tmp_path / "begun"
    precious.write_text("precious")
    for option in ("--report", "--json"):
        command = ("run", "-c", tmp_path / "knarr.toml", option, precious, "--", "touch", begun)
        knarr.fails(125, *command, names=("precious: exists already", "not started"))
        assert precious.read_text() == "precious" and not begun.exists()


@pytest.mark.parametrize("option", ["--report", "--json"])
def test_the_exit_code_of_a_program_is_not_that_of_its_report(knarr, tmp_path, option):
    (tmp_path / "knarr.toml").write_text('[[file]]\npattern = "*"\n')
    for code, expected in ((0, UNWRITABLE), (7, 7)):
        command = ("run", "-q", "-c", tmp_path / "knarr.toml", option, tmp_path / "none" / "a", "--")
        knarr.fails(expected, *command, "sh", "-c", f"exit {code}", names=("none/a", "No such file or directory"))


@pytest.mark.parametrize("command", ["profile", "train"])
def test_profiles_and_models_replace_their_like_only(knarr, source, tmp_path, command):
    words, kind = ([command, source], "model") if command == "train" else ([command], "profile")
    notes = tmp_path / "notes.json"
    notes.write_text('{"steps": "to the summit"}')
    knarr.fails(UNWRITABLE, *words, "-o", notes, names=("notes.json", f"no {kind}"))
    assert json.loads(notes.read_text()) == {"steps": "to the summit"}
    knarr.fails(UNWRITABLE, *words, "-o", tmp_path / "none" / "a.json", names=("none", "directory"))


def test_a_profile_is_measured_anew_in_its_place(knarr, tmp_path):
    path = tmp_path / "profile.json"
    for _ in range(2):
        knarr("profile", "-o", path, "--seconds", "0.01")
    assert json.loads(path.read_text())["steps"]


def test_a_plan_replaces_a_plan_and_nothing_else(knarr, source, out):
    target = knarr.repack(source, out / "a.h5")
    target.unlink()
    knarr.repack(source, target)
    plan = out / "a.h5.knarr.json"
    for force in ([], ["--force"]):
        target.unlink()
        plan.write_text('{"mine": 1, "version": 1}')
        if force:
            knarr.repack(source, target, *force)
            assert json.loads(plan.read_text())["program"].startswith("knarr")
        else:
            knarr.fails(UNWRITABLE, "repack", source, "-o", target, names=("a.h5.knarr.json", "--force"))
            assert json.loads(plan.read_text())["mine"] == 1 and not target.exists()
            target.touch()


def test_a_run_leaves_a_file_alone_that_lies_where_a_plan_goes(run):
    mine = run.folder / "a.h5.knarr.json"
    mine.write_text("mine")
    ran = run(*script("h5py.File('a.h5', 'w').create_dataset('T', data=FIELD)"))
    assert ran.file("a.h5")["outcome"] == "packed" and mine.read_text() == "mine"
    assert "the plan of" in ran.err and "a.h5.knarr.json" in ran.err and "no plan of Knarr's" in ran.err


def names(folder: Path) -> list[str]:
    return [path.name for path in outputs(folder)]


def test_a_slash_behind_a_store_changes_nothing(knarr, source, out):
    store = out / "a.zarr"
    knarr("repack", source, "-o", f"{store}/")
    assert (store / "zarr.json").is_file() and names(out) == ["a.zarr"]
    before = sorted(path.name for path in store.iterdir())
    knarr.fails(UNWRITABLE, "repack", source, "-o", f"{store}/", names=("a.zarr", "--force"))
    knarr("repack", source, "-o", f"{store}/", "--force")
    assert sorted(path.name for path in store.iterdir()) == before and names(out) == ["a.zarr"]
    assert (out / "a.zarr.knarr.json").is_file()


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_store_of_any_name_takes_no_outputs(knarr, source, out, slash):
    knarr("repack", source, "-o", out / "a.zarr")
    store = (out / "a.zarr").rename(out / "store")
    before = sorted(path.name for path in store.iterdir())
    knarr.fails(USAGE, "repack", source, "-o", f"{store}{slash}", "--force", names=("store", "is a Zarr store"))
    knarr.fails(USAGE, "repack", source, made_copy(source, out), "-o", f"{store}{slash}", names=("2 inputs",))
    assert sorted(path.name for path in store.iterdir()) == before


def made_copy(source: Path, folder: Path) -> Path:
    copy = folder / "copy.h5"
    copy.write_bytes(source.read_bytes())
    return copy


def test_a_plan_that_has_no_place_leaves_no_output(knarr, source, out):
    target = out / "a.h5"
    (out / "a.h5.knarr.json").mkdir()
    for force in ([], ["--force"]):
        knarr.fails(UNWRITABLE, "repack", source, "-o", target, *force, names=("a.h5.knarr.json",))
        assert [path.name for path in out.iterdir()] == ["a.h5.knarr.json"]


@pytest.mark.parametrize("name", ["pipe.h5", "link.h5"])
def test_what_is_no_file_is_never_replaced(knarr, source, out, name):
    os.mkfifo(out / "pipe.h5")
    (out / "link.h5").symlink_to("pipe.h5")
    knarr.fails(UNWRITABLE, "repack", source, "-o", out / name, "--force", names=(name, "a pipe"))
    assert stat.S_ISFIFO((out / name).stat().st_mode) and len(list(out.iterdir())) == 2


def test_an_output_in_place_of_its_input_is_compared_with_what_was_there(knarr, source, out):
    path = out / "a.h5"
    path.write_bytes(source.read_bytes())
    before = path.stat().st_size
    report = knarr.json("repack", path, "-o", path, "--force")["files"][0]
    assert (report["input_bytes"], report["output_bytes"]) == (before, path.stat().st_size)
    assert before != path.stat().st_size
