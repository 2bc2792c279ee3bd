"""Arrays, attributes and mistakes as Python programs give them to an output."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from thread_ranks import Ranks, on_ranks

import knarr


def output(path: Path, **options: Any) -> knarr.Output:
    made = knarr.Output(path, jobs=1, **options)
    made.def_dim("y", 3)
    made.def_dim("x", 4)
    return made


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
def test_arrays_of_any_layout_are_what_they_are(tmp_path: Path, dtype: str) -> None:
    values = np.arange(12).reshape(3, 4).astype(dtype)
    with output(tmp_path / "a.nc") as file:
        for name, array in {
            "plain": values,
            "fortran": np.asfortranarray(values),
            "swapped": values.astype(np.dtype(dtype).newbyteorder(">")),
            "strided": np.repeat(values, 2, axis=1)[:, ::2],
            "masked": np.ma.MaskedArray(values),
        }.items():
            file.def_var(name, dtype, ["y", "x"])
            file.put(name, array)
        file.def_var("scalar", dtype, [])
        file.put("scalar", np.array(7, dtype))
        file.def_var("empty", dtype, ["x"])
        file.put("empty", np.zeros(0, dtype), start=[4])
    with netCDF4.Dataset(tmp_path / "a.nc") as found:
        found.set_auto_mask(False)
        for name in ("plain", "fortran", "swapped", "strided", "masked"):
            assert found[name].dtype == np.dtype(dtype) and np.array_equal(found[name][...], values), name
        assert found["scalar"][...] == 7
        assert np.array_equal(found["empty"][...], np.full(4, netCDF4.default_fillvals[dtype], dtype))


def test_attributes_are_text_and_numbers(tmp_path: Path) -> None:
    with output(tmp_path / "a.nc") as file:
        given = {"units": "K", "one": 1.5, "many": np.arange(3, dtype="i2"), "list": [1, 2]}
        file.def_var("T", "f4", ["x"], fill_value=-1, attributes=given)
        file.set_attributes("T", later="yes")
        file.set_attributes(title="a file", version=np.int32(3))
    with netCDF4.Dataset(tmp_path / "a.nc") as found:
        variable = found["T"]
        assert (variable.units, variable.one, variable.later, found.title, found.version) == (
            "K",
            1.5,
            "yes",
            "a file",
            3,
        )
        assert (
            variable.many.dtype == np.int16 and variable.many.tolist() == [0, 1, 2] and variable.list.tolist() == [1, 2]
        )
        assert variable._FillValue == -1 and variable[...].mask.all()


@pytest.mark.parametrize(
    ("wrong", "kind", "expected"),
    [
        (lambda file: file.put("T", np.ma.MaskedArray(np.zeros((3, 4), "f4"), mask=True)), TypeError, "masked"),
        (lambda file: file.put("T", np.zeros((3, 4), complex)), TypeError, "complex128"),
        (lambda file: file.put("T", np.zeros((3, 4), "f8")), ValueError, "its elements are f32, not f64"),
        (lambda file: file.put("T", np.zeros((3, 4), "f4"), start=[0.5, 0]), TypeError, "float"),
        (lambda file: file.put("T", np.zeros((3, 4), "f4"), start=[-1, 0]), OverflowError, "negative"),
        (lambda file: file.put("T", np.zeros((3, 4), "f4"), start=[1, 0]), ValueError, "dimension 'y'"),
        (lambda file: file.def_var("U", "U3", ["x"]), TypeError, "not served"),
        (lambda file: file.def_var("U", "i4", ["x"], fill_value=1.5), TypeError, "same_kind"),
        (lambda file: file.def_var("U", "f4", ["z"]), ValueError, "dimension 'z' is not defined"),
        (lambda file: file.def_var("U", "f4", ["x"], wishes={"max_error": 1}), ValueError, "max_error"),
        (lambda file: file.set_attributes(a=np.zeros((2, 2))), TypeError, "one dimension"),
        (lambda file: file.set_attributes("U", a=1), ValueError, "there is no variable 'U'"),
        (lambda file: file.def_dim("z", 0), ValueError, "its length is 0"),
    ],
)
def test_what_is_caught_and_forgotten_still_writes_no_file(
    tmp_path: Path, wrong: Any, kind: type[Exception], expected: str
) -> None:
    file = output(tmp_path / "a.nc")
    file.def_var("T", "f4", ["y", "x"])
    file.put("T", np.zeros((3, 4), "f4"))
    with pytest.raises(kind, match=expected):
        wrong(file)
    with pytest.raises(Exception, match=expected):
        file.end_step()
    with pytest.raises(Exception, match=expected):
        file.close()
    assert list(tmp_path.iterdir()) == []


def test_a_forked_process_leaves_the_parents_output_alone(tmp_path: Path) -> None:
    file = output(tmp_path / "a.nc")
    file.def_var("T", "f4", ["x"])
    child = os.fork()
    if child == 0:
        try:
            file.put("T", np.zeros(4, "f4"))
            os._exit(1)
        except ValueError:
            file.close()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    file.put("T", np.arange(4, dtype="f4"))
    assert file.close() is not None
    with netCDF4.Dataset(tmp_path / "a.nc") as found:
        assert found["T"][...].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"goal": 5}, "goal is 5"),
        ({"max_rel_eror": 1}, "max_rel_eror"),
        ({"goal": "fast"}, "fast"),
        ({"chunks": {"x": "a"}}, "chunks['x']"),
    ],
)
def test_options_that_are_wrong_on_one_rank_are_an_error_on_all(
    tmp_path: Path, wrong: dict[str, Any], named: str
) -> None:
    """The others would wait for it."""

    def create(comm: Ranks, rank: int) -> None:
        knarr.Output(tmp_path / "a.nc", comm, **(wrong if rank == 1 else {}))

    errors = on_ranks(3, create)
    assert all(isinstance(error, TypeError | ValueError) and named in str(error) for error in errors), errors
    assert "rank 1 of 3" in str(errors[0]) and "rank 1 of 3" in str(errors[2]), errors
    assert list(tmp_path.iterdir()) == []


def test_options_and_bounds_are_those_of_repack(tmp_path: Path) -> None:
    values = np.random.default_rng(1).random((3, 4000)).astype("f4")
    sizes = {}
    for name, options in {"exact": {}, "bounded": {"max_abs_error": 0.01}, "raw": {"chain": "raw"}}.items():
        with knarr.Output(tmp_path / f"{name}.nc", jobs=1, goal="ratio", spool=tmp_path, **options) as file:
            file.def_dim("y", 3)
            file.def_dim("x", 4000)
            file.def_var("T", "f4", ["y", "x"])
            file.put("T", values)
        with netCDF4.Dataset(tmp_path / f"{name}.nc") as found:
            error = np.abs(found["T"][...] - values).max()
            assert (error == 0) == (name != "bounded") and error <= 0.01
        sizes[name] = (tmp_path / f"{name}.nc").stat().st_size
    assert sizes["bounded"] < sizes["exact"] < sizes["raw"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bounded.nc", "exact.nc", "raw.nc"]
    for options in ({"goal": "best"}, {"jobs": 0}, {"max_abs_error": -1.0}, {"colour": 1}):
        with pytest.raises((TypeError, ValueError)):
            knarr.Output(tmp_path / "b.nc", **options)
