"""A plan that was saved beside an output is carried out again: on the same file, on others like it, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from values import smooth_field


def month(path: Path, steps: int, shift: float, kind: str = "f4") -> Path:
    with netCDF4.Dataset(path, "w") as file:
        for name, length in (("time", None), ("lat", 45), ("lon", 90)):
            file.createDimension(name, length)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(steps) + shift
        field = smooth_field((steps, 45, 90)) + shift
        for name in ("tas", "pr"):
            file.createVariable(name, kind, ("time", "lat", "lon"))[:] = field
    return path


@pytest.fixture
def january(tmp_path: Path) -> Path:
    return month(tmp_path / "january.nc", 31, 0.0)


def plan_of(path: Path) -> Path:
    return path.with_name(path.name + ".knarr.json")


def choices(path: Path) -> dict[str, dict]:
    plan = json.loads(plan_of(path).read_text())
    return {one["path"]: one["action"]["encode"] for one in plan["variables"] if "encode" in one["action"]}


def test_the_same_file_becomes_the_same_bytes_and_nothing_is_chosen(knarr, january, out):
    first = knarr.repack(january, out / "a.nc", "--goal", "ratio")
    for number, meant in enumerate((first, plan_of(first))):
        again = knarr.repack(january, out / f"again-{number}.nc", "--plan", meant)
        assert again.read_bytes() == first.read_bytes()
        assert all(choice["sample_bytes"] == 0 for choice in choices(again).values())
    assert "as planned: " in knarr("explain", again).stdout
    assert json.loads(plan_of(first).read_text())["destination"] == "hdf5"


def test_the_same_bound_gives_the_same_values(knarr, january, out):
    """The history of a lossy output has the command and the time, so that its bytes are others."""
    first = knarr.repack(january, out / "a.nc", "--significant-digits", "4", "--max-abs-error", "tas=0.01")
    again = knarr.repack(january, out / "b.nc", "--plan", first)
    assert knarr.variable_hashes(first) == knarr.variable_hashes(again)
    assert [choice["bound"] for choice in choices(first).values()] == [c["bound"] for c in choices(again).values()]


def test_another_month_gets_the_chains_and_the_bound(knarr, january, tmp_path, out):
    first = knarr.repack(january, out / "january.nc", "--max-abs-error", "tas=0.01", "--chunks", "pr=7x45x90")
    february = month(tmp_path / "february.nc", 28, 17.5)
    second = knarr.repack(february, out / "february.nc", "--plan", first)
    chains = [{name: choice["chain"] for name, choice in choices(path).items()} for path in (first, second)]
    assert chains[0] == chains[1]
    with h5py.File(second) as file, h5py.File(february) as original:
        assert file["pr"].chunks == (7, 45, 90)
        assert np.array_equal(file["pr"][:], original["pr"][:])
        error = np.abs(file["tas"][:].astype("f8") - original["tas"][:].astype("f8")).max()
        assert 0 < error <= 0.01
    knarr("verify", february, second)


def test_many_files_by_one_plan(knarr, january, tmp_path, out):
    first = knarr.repack(january, out / "first.nc")
    files = [month(tmp_path / f"{number}.nc", 20 + number, number) for number in range(3)]
    (out / "many").mkdir()
    knarr("repack", *files, "-o", out / "many", "--plan", first)
    for file in files:
        knarr("verify", file, out / "many" / file.name)
        assert all(choice["reason"].startswith("as planned: ") for choice in choices(out / "many" / file.name).values())


def test_a_store_has_a_plan_of_its_own(knarr, january, out):
    first = knarr.repack(january, out / "a.zarr")
    second = knarr.repack(january, out / "b.zarr", "--plan", first)
    assert knarr.content_hash(first) == knarr.content_hash(second)
    knarr.fails(2, "repack", january, "-o", out / "c.nc", "--plan", first, names=("the plan is for a Zarr store",))


def test_plans_that_do_not_fit_leave_nothing(knarr, january, tmp_path, out):
    first = knarr.repack(january, out / "a.nc")
    before = set(out.iterdir())
    double = month(tmp_path / "double.nc", 31, 0.0, "f8")
    knarr.fails(2, "repack", double, "-o", out / "b.nc", "--plan", first, names=("tas", "f32 with 3 dimensions"))
    knarr.fails(
        2, "repack", january, "-o", out / "b.nc", "--plan", first, "--goal", "ratio", names=("--plan", "--goal")
    )
    knarr.fails(5, "repack", january, "-o", out / "b.csv", "--plan", first, names=("no plan",))
    absent = knarr.fails(3, "repack", january, "-o", out / "b.nc", "--plan", out / "nothing.nc")
    assert "nothing.nc.knarr.json" in absent
    assert set(out.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "not a plan"),
        ("no JSON", "not a plan"),
        ('{"version": 1, "program": "knarr 0"}', "a damaged plan"),
        ('{"version": 99, "program": "knarr 9"}', "version 99"),
    ],
)
def test_what_is_no_plan_is_told(knarr, january, out, text, told):
    plan = out / "x.json"
    plan.write_text(text)
    for arguments in (("repack", january, "-o", out / "b.nc", "--plan", plan), ("explain", plan)):
        done = knarr(*arguments, ok=False)
        assert done.returncode != 0
        assert told in done.stderr
        assert "hint: " in done.stderr
    assert not (out / "b.nc").exists()


def test_python_takes_a_plan(knarr, january, out):
    package = pytest.importorskip("knarr")
    first = package.repack(january, out / "a.nc")
    second = package.repack(january, out / "b.nc", plan=out / "a.nc")
    assert (out / "a.nc").read_bytes() == (out / "b.nc").read_bytes()
    assert first.output_bytes == second.output_bytes
    with pytest.raises(ValueError, match="plan and goal exclude each other"):
        package.repack(january, out / "c.nc", plan=out / "a.nc", goal="ratio")
