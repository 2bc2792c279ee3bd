"""`knarr train`: a model from the user's own files, used by every way there is to name one, refused when damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest


@pytest.fixture(scope="session")
def fields(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files with fields of different noise, and one that is no data."""
    folder = tmp_path_factory.mktemp("fields")
    y, x = np.meshgrid(np.linspace(0, 9, 180), np.linspace(0, 7, 200), indexing="ij")
    for number in range(4):
        random = np.random.default_rng(number)
        with h5py.File(folder / f"f{number}.h5", "w") as file:
            for level, name in enumerate(("a", "b", "c")):
                noise = random.normal(0, 10.0 ** (number - 3 - level), x.shape)
                file[name] = (np.sin(x + number) * np.cos(y) + noise).astype("f4")
    (folder / "notes.txt").write_text("not data\n")
    return folder


@pytest.fixture(scope="session")
def trained(knarr, fields, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """A model, and what training said of it."""
    path = tmp_path_factory.mktemp("model") / "model.json"
    return path, knarr.json("train", fields, "-o", path, "--seconds", 20, "--samples", 1, "--force")


def predicted(answer: dict) -> list[float]:
    """What prediction alone expected, of every candidate of every variable."""
    actions = [variable["action"]["encode"] for plan in answer["plans"] for variable in plan["variables"]]
    return [candidate["predicted_ratio"] for action in actions for candidate in action["candidates"]]


def test_training_reports_what_it_gained_on_files_kept_out(trained):
    path, report = trained
    assert report["model"] == str(path)
    assert report["families"] == 4
    assert report["samples"] >= 8
    assert set(report["regret"]) == {"speed", "balanced", "ratio", "archive", "energy"}
    before, after = report["quality"]["before"], report["quality"]["after"]
    for target in ("ratio", "encode", "decode"):
        assert 1.0 <= after[target]["factor"] < 2 * before[target]["factor"], target
    model = json.loads(path.read_text())
    assert model["version"] == 1
    assert path.stat().st_size < 200_000


def loss(report: dict, side: str) -> float:
    return sum(sum(lost[side].values()) for lost in report["regret"].values())


def test_a_model_is_replaced_by_a_better_one_only(knarr, fields, trained, tmp_path):
    path, report = trained
    assert report["written"] and report["better"] == (loss(report, "after") < loss(report, "before"))
    for lost in report["regret"].values():
        assert all(0 <= share < 1 for side in lost.values() for share in side.values()), "no goal loses everything"
    model = tmp_path / "model.json"
    shutil.copy(path, model)
    before = model.read_bytes()
    # The model has seen these files: one that is judged on files kept out does not beat it.
    again = knarr.json("train", fields, "-o", model, "--seconds", 20, "--samples", 1)
    assert again["written"] == again["better"] == (loss(again, "after") < loss(again, "before"))
    assert (model.read_bytes() == before) == (not again["written"])
    if not again["written"]:
        said = knarr("train", fields, "-o", model, "--seconds", 20, "--samples", 1).stdout
        assert "not written" in said or model.read_bytes() != before


def test_a_model_is_used_however_it_is_named(knarr, fields, trained, tmp_path):
    path, _ = trained
    source = fields / "f1.h5"
    plain = predicted(knarr.json("advise", source))
    by_option = predicted(knarr.json("advise", source, "--model", path))
    assert plain != by_option
    shutil.copy(path, tmp_path / "model.json")
    (tmp_path / "knarr.toml").write_text('[machine]\nmodel = "model.json"\n[[file]]\npattern = "*"\n')
    assert predicted(knarr.json("advise", source, "--config", tmp_path / "knarr.toml")) == by_option
    (tmp_path / "knarr").mkdir()
    shutil.copy(path, tmp_path / "knarr" / "model.json")
    users = type(knarr)(XDG_CONFIG_HOME=str(tmp_path))
    assert predicted(users.json("advise", source)) == by_option


def test_files_packed_with_a_model_hold_the_same_data(knarr, fields, trained, out):
    packed = knarr.repack(fields / "f0.h5", out / "packed.h5", "--model", trained[0])
    knarr("verify", fields / "f0.h5", packed)


def test_damaged_and_unknown_models_are_refused(knarr, fields, trained, tmp_path):
    path, _ = trained
    source, broken = fields / "f0.h5", tmp_path / "broken.json"
    model = json.loads(path.read_text())
    damages = {
        "version 7": json.dumps({**model, "version": 7}),
        "is no model": path.read_text()[:1000],
        "triangle": json.dumps({**model, "covariance": model["covariance"][:-1]}),
        "surplus": json.dumps({**model, "surplus": 1}),
    }
    for name, text in damages.items():
        broken.write_text(text)
        knarr.fails(2, "advise", source, "--model", broken, names=(broken, name, "knarr train"))
    knarr.fails(2, "advise", source, "--model", source, names=(source, "is no model written by 'knarr train'"))
    knarr.fails(3, "advise", source, "--model", tmp_path / "none.json", names=("none.json",))


def test_training_needs_data(knarr, fields, tmp_path):
    knarr.fails(2, "train", fields / "f0.h5", "--seconds", 0, names=("--seconds",))
    knarr.fails(3, "train", fields / "none.h5", names=("none.h5",))
    (tmp_path / "empty").mkdir()
    knarr.fails(2, "train", tmp_path / "empty", "-o", tmp_path / "m.json", names=("empty",))
    with h5py.File(tmp_path / "small.h5", "w") as file:
        file["a"] = np.arange(10.0)
    knarr.fails(2, "train", tmp_path / "small.h5", "-o", tmp_path / "m.json", names=("hold nothing to learn from",))
    assert not (tmp_path / "m.json").exists()
