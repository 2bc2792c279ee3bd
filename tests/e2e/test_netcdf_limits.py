"""What HDF5 has and netCDF lacks: Knarr says of an output called .nc what ncdump and netCDF4 make of it."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

FIELD = np.arange(2000, dtype="f4").reshape(20, 100)
READ = "import sys, netCDF4; data = netCDF4.Dataset(sys.argv[1]); [v.ncattrs() for v in data.variables.values()]"


def add_time(file: h5py.File) -> None:
    h5py.h5d.create(file.id, b"R", h5py.h5t.UNIX_D32LE.copy(), h5py.h5s.create_simple((3,)))


def add_bits(file: h5py.File) -> None:
    h5py.h5d.create(file.id, b"R", h5py.h5t.STD_B8LE.copy(), h5py.h5s.create_simple((3,)))


def add_loop(file: h5py.File) -> None:
    deep = file.create_group("g/deep")
    deep["up"] = file["g"]


def put(name: str, value: object):
    return lambda file: file.__setitem__(name, value)


def add_references(file: h5py.File) -> None:
    file["R"] = np.array([file["T"].ref], dtype=h5py.ref_dtype)


# What is added to a file, and what is said of it.
REFUSED = {
    "external link": (
        put("R", h5py.ExternalLink("none.h5", "/x")),
        "link 'R' leads into 'none.h5', which is not there",
    ),
    "external link to nothing": (
        put("R", h5py.ExternalLink("other.h5", "/no")),
        "link 'R' leads to '/no' in 'other.h5'",
    ),
    "soft link": (put("R", h5py.SoftLink("/none")), "link 'R' to '/none' leads nowhere"),
    "circle": (add_loop, "links lead from group '/g' back to itself"),
    "named number": (put("R", np.dtype("f4")), "type 'R' has a name"),
    "time": (add_time, "variable 'R' is of type time"),
}
HIDDEN = {
    "references": (add_references, "do not show 'R' (reference)"),
    "bits": (add_bits, "do not show 'R' (bits[1]"),
    "arrays": (
        lambda file: file.create_dataset("R", (3,), np.dtype(("f4", (2,)))),
        "do not show 'R' (array[8] of f32)",
    ),
}
UNNAMED = {
    "bool": (put("R", np.zeros(3, bool)), "do not show 'R' (bool) before its release 4.9.3"),
    "compound": (put("R", np.zeros(3, "c16")), "do not show 'R' (compound[16]) before"),
    "opaque": (put("R", np.zeros(3, "V5")), "do not show 'R' (opaque[5]) before"),
}
# netCDF-C opens these and shows all there is.
SERVED = {
    "nothing": lambda file: None,
    "external link": put("R", h5py.ExternalLink("other.h5", "/x")),
    "external group": put("R", h5py.ExternalLink("other.h5", "/g")),
    "soft link": put("R", h5py.SoftLink("/T")),
    "hard link": lambda file: file.__setitem__("R", file["T"]),
    "two names of a group": lambda file: file.__setitem__("R", file.create_group("g")),
    "strings": put("R", np.array(["a", "b"], dtype=h5py.string_dtype())),
    "named compound": put("R", np.dtype([("a", "f4")])),
}


@pytest.fixture
def repacked(knarr, tmp_path):
    """Makes a file with something in it, repacks it beside itself, and returns the copy with what was said."""
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(3.0)
        file["g/y"] = 1.0

    def make(add) -> tuple[Path, str]:
        source, target = tmp_path / "in.h5", tmp_path / "out.nc"
        with h5py.File(source, "w") as file:
            file["T"] = FIELD
            add(file)
        done = knarr("repack", source, "-o", target, "--report", tmp_path / "page.html")
        notes = knarr.json("repack", source, "-o", target, "--force")["files"][0]["notes"]
        told = re.findall(r"^knarr: (.*netCDF-C.*)$", done.stderr, re.MULTILINE)
        assert told == [note for note in notes if "netCDF-C" in note]
        assert ("netCDF-C" in (tmp_path / "page.html").read_text()) == bool(told)
        return target, "\n".join(told)

    return make


MOST_MEMORY = 1 << 30
"""Bytes. Of groups that contain themselves ncdump lists more and more until it has no memory."""


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def opens(path: Path) -> list[bool]:
    """Whether the programs of two releases of netCDF-C list what is in the file."""
    commands = (["ncdump", "-h", path], [sys.executable, "-c", READ, path])
    return [subprocess.run(command, capture_output=True, preexec_fn=limited).returncode == 0 for command in commands]


def shown(path: Path) -> str:
    return subprocess.run(["ncdump", "-h", path], capture_output=True, text=True).stdout


@pytest.mark.parametrize("what", REFUSED)
def test_what_netcdf_programs_do_not_open_is_told(repacked, what):
    add, said = REFUSED[what]
    path, told = repacked(add)
    assert opens(path) == [False, False]
    assert "will not open it: " in told and said in told and "end its name in .h5" in told


@pytest.mark.parametrize("what", [*HIDDEN, *UNNAMED])
def test_what_netcdf_programs_leave_out_is_told(repacked, what):
    add, said = {**HIDDEN, **UNNAMED}[what]
    path, told = repacked(add)
    assert opens(path) == [True, True]
    assert " R" not in shown(path) or what in UNNAMED
    assert said in told


@pytest.mark.parametrize("what", SERVED)
def test_nothing_is_said_of_what_netcdf_programs_show(repacked, what):
    path, told = repacked(SERVED[what])
    assert opens(path) == [True, True]
    assert told == ""


def test_attributes_of_several_dimensions_stop_who_lists_them(repacked):
    path, told = repacked(lambda file: file["T"].attrs.create("matrix", np.zeros((2, 2))))
    assert opens(path) == [False, False]
    assert "attribute 'matrix' of 'T'" in told


def test_variables_without_values_stop_new_releases(repacked):
    path, told = repacked(put("R", h5py.Empty("f4")))
    assert False in opens(path)
    assert "variable 'R' has no values (null dataspace)" in told


def test_numbers_of_half_precision_are_told(repacked):
    path, told = repacked(put("R", np.linspace(0, 1, 3000, dtype="f2")))
    assert "netCDF has no numbers of half precision" in told and "'R'" in told
    read = subprocess.run([sys.executable, "-c", "import sys, netCDF4; netCDF4.Dataset(sys.argv[1])['R'][:]", path])
    assert read.returncode != 0, "they can be read by now: say so no more"


def test_a_link_that_the_output_does_not_find_is_told(knarr, tmp_path, out):
    """Found from the input, but not from where the output lies."""
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1.0
    with h5py.File(tmp_path / "in.nc", "w") as file:
        file["T"] = FIELD
        file["R"] = h5py.ExternalLink("other.h5", "/x")
    told = knarr("repack", tmp_path / "in.nc", "-o", out / "a.nc").stderr
    assert "link 'R' leads into 'other.h5', which is not there" in told
    assert opens(out / "a.nc") == [False, False]
    assert "netCDF" not in knarr("repack", tmp_path / "in.nc", "-o", out / "a.h5").stderr


def test_a_copy_byte_for_byte_is_no_better(knarr, tmp_path):
    with h5py.File(tmp_path / "in.nc", "w", libver="latest") as file:
        file["T"] = 1.0
        file["R"] = h5py.SoftLink("/none")
    done = knarr("repack", tmp_path / "in.nc", "-o", tmp_path / "out.nc")
    assert "copied byte for byte" in done.stdout
    assert "link 'R' to '/none' leads nowhere" in done.stderr
