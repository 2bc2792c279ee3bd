"""The HDF5 filter plugin (45223): other people's programs write and read through it; promises hold."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest

import plugin
from plugin import ID, filtered, python, run
from running import MPIRUN


@pytest.fixture(autouse=True, scope="module")
def registered() -> None:
    plugin.register()


@pytest.fixture(scope="module")
def field() -> np.ndarray:
    t, y, x = np.meshgrid(np.arange(12), np.arange(45), np.arange(70), indexing="ij")
    noise = np.random.default_rng(3).normal(0, 0.02, t.shape)
    return (280 + 20 * np.sin(y / 20) * np.cos(x / 30 + t / 9) + noise).astype("f4")


def write(path: Path, data: np.ndarray, chunks: tuple[int, ...], **wishes: object) -> Path:
    fill = wishes.pop("fillvalue", None)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=chunks, fillvalue=fill, **filtered(**wishes))
    return path


def read(path: Path) -> np.ndarray:
    with h5py.File(path) as file:
        return file["x"][...]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def error(a: np.ndarray, b: np.ndarray) -> float:
    finite = np.isfinite(a)
    return float(np.max(np.abs(a[finite].astype("f8") - b[finite].astype("f8")), initial=0))


COMPOUND = np.dtype([("a", "<f4"), ("b", ">i2"), ("c", "S3")])
TYPES = ["u1", "i1", ">u2", "<i2", ">i4", "u4", "i8", ">u8", "f2", ">f2", "f4", ">f4"]
TYPES += ["f8", ">f8", "?", "S7", "V5", "c8", "g"]


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_comes_back_bit_for_bit(tmp_path: Path, kind: str) -> None:
    dtype = np.dtype(kind)
    rng = np.random.default_rng(7)
    if kind == "?":
        data = rng.integers(0, 2, (50, 61)).astype("?")
    elif dtype.kind in "SV":
        data = np.frombuffer(rng.integers(65, 90, 50 * 61 * dtype.itemsize, "u1").tobytes(), dtype).reshape(50, 61)
    else:
        data = np.cumsum(rng.integers(0, 3, (50, 61)), axis=1).astype(dtype)
    assert same_bits(read(write(tmp_path / "a.h5", data, (20, 16))), data)


def test_compounds_enums_arrays_and_strings_come_back(tmp_path: Path) -> None:
    compound = np.zeros(500, COMPOUND)
    compound["a"], compound["b"], compound["c"] = np.arange(500), np.arange(500) % 9, b"xy"
    enum = h5py.enum_dtype({"low": 0, "high": 1000}, basetype=">i4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("compound", data=compound, chunks=(64,), **filtered())
        file.create_dataset("enum", data=np.arange(200) % 2 * 1000, dtype=enum, chunks=(64,), **filtered())
        file.create_dataset("array", (90,), np.dtype(("f8", (3, 2))), chunks=(20,), **filtered())
        file["array"][...] = np.arange(540.0).reshape(90, 3, 2)
        file.create_dataset("text", data=[f"row {n}" for n in range(90)], chunks=(20,), **filtered())
    with h5py.File(tmp_path / "a.h5") as file:
        assert same_bits(file["compound"][...], compound)
        assert np.array_equal(file["enum"][...], np.arange(200) % 2 * 1000)
        assert np.array_equal(file["array"][...], np.arange(540.0).reshape(90, 3, 2))
        assert list(file["text"].asstr()[...]) == [f"row {n}" for n in range(90)]


def test_many_dimensions(tmp_path: Path) -> None:
    data = np.arange(3 * 2**10, dtype="f8").reshape((3,) + (2,) * 10)
    assert same_bits(read(write(tmp_path / "a.h5", data, (2,) + (2,) * 10, abs_error=1e-9)), data)
    deep = np.arange(64, dtype="i4").reshape((1,) * 26 + (2,) * 6)
    assert same_bits(read(write(tmp_path / "b.h5", deep, (1,) * 27 + (2,) * 5)), deep)


def test_chunks_of_more_than_65535_elements(tmp_path: Path, field: np.ndarray) -> None:
    data = np.tile(field.reshape(-1), 8)
    for wishes in ({}, {"abs_error": 0.01}):
        path = write(tmp_path / "a.h5", data, (200_000,), **wishes)
        assert error(read(path), data) <= wishes.get("abs_error", 0)


def test_bounds_hold_in_big_endian_data_with_nan_and_infinity(tmp_path: Path, field: np.ndarray) -> None:
    for dtype in ("<f4", ">f4", "<f8", ">f8"):
        data = field.astype(dtype)
        data[0, 0, :3] = np.nan, np.inf, -np.inf
        path = write(tmp_path / "a.h5", data, (4, 45, 70), abs_error=0.05)
        back = read(path)
        assert same_bits(back[0, 0, :3], data[0, 0, :3])
        assert np.array_equal(np.isnan(back), np.isnan(data))
        assert 0 < error(data, back) <= 0.05
        with h5py.File(path) as file:
            assert file["x"].id.get_storage_size() < data.nbytes / 4


def test_a_fill_value_set_only_through_hdf5_stays_exact(tmp_path: Path, field: np.ndarray) -> None:
    # 1e20 is not a float32: HDF5 rounds the fill value, and so must the filter.
    for dtype, fill in (("f4", 1e20), (">f4", 1e20), ("f8", -1e10), ("f4", 281.25)):
        data = field.astype(dtype)
        mask = np.random.default_rng(1).random(field.shape) < 0.3
        data[mask] = fill
        back = read(write(tmp_path / "a.h5", data, (5, 45, 70), abs_error=0.03, fillvalue=fill))
        assert same_bits(back[mask], data[mask])
        assert not np.any(back[~mask] == data[mask][0]) or np.any(data[~mask] == data[mask][0])
        assert error(data[~mask], back[~mask]) <= 0.03


def test_a_missing_value_of_the_wishes_stays_exact(tmp_path: Path, field: np.ndarray) -> None:
    data = field.copy()
    data[:, ::3] = np.float32(9.96921e36)
    back = read(write(tmp_path / "a.h5", data, (5, 45, 70), rel_error=1e-3, missing=9.96921e36))
    assert same_bits(back[:, ::3], data[:, ::3])
    assert np.all(np.abs(back - data)[:, 1::3] <= 1e-3 * np.abs(data[:, 1::3]))


def test_values_in_protected_ranges_stay_exact(tmp_path: Path, field: np.ndarray) -> None:
    low, high = np.quantile(field, [0.25, 0.75]).astype("f4")
    wishes = {"abs_error": 0.05, "exact_up_to": float(low), "exact_from": float(high)}
    back = read(write(tmp_path / "a.h5", field, (5, 45, 70), goal="ratio", **wishes))
    protected = (field <= low) | (field >= high) | (back <= low) | (back >= high)
    assert same_bits(back[protected], field[protected])
    assert 0 < error(back[~protected], field[~protected]) <= 0.05


def test_relative_bounds(tmp_path: Path, field: np.ndarray) -> None:
    span = float(field.max()) - float(field.min())
    assert error(read(write(tmp_path / "a.h5", field, (3, 45, 70), range_error=1e-3)), field) <= 1e-3 * span
    back = read(write(tmp_path / "a.h5", field, (3, 45, 70), digits=4))
    assert 0 < np.max(np.abs(back.astype("f8") - field)) <= 0.05
    flat = np.full((6, 45, 70), 7.3, "f4")
    assert same_bits(read(write(tmp_path / "a.h5", flat, (3, 45, 70), range_error=1e-3)), flat)


def test_what_cannot_be_served_is_an_hdf5_error_with_its_reason(tmp_path: Path, field: np.ndarray) -> None:
    wish = filtered(abs_error=0.1)
    with h5py.File(tmp_path / "a.h5", "w") as file:

        def refused(data: np.ndarray, reason: str, **how: object) -> None:
            with pytest.raises(Exception, match=reason):
                file.create_dataset("x", data=data, chunks=True, **how)
            assert "x" not in file

        refused(field.astype("i4"), "type i32", **wish)
        refused(np.zeros(900, COMPOUND), "opaque", **wish)
        refused(field.astype("f2"), "type f16", **wish)
        refused(field, "another filter", shuffle=True, **wish)
        refused(field, "version 7", compression=ID, compression_opts=(7,))
        refused(field, "too many", compression=ID, compression_opts=(1, 0, 0))
        refused(field, "max_abs_error", compression=ID, compression_opts=plugin.words(abs_error=-1.0))


def test_bytes_of_another_filter_are_kept(tmp_path: Path, field: np.ndarray) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=field, chunks=(3, 45, 70), shuffle=True, fletcher32=True, **filtered())
    assert same_bits(read(tmp_path / "a.h5"), field)


def test_noise_is_never_larger_than_raw_and_a_header(tmp_path: Path) -> None:
    data = np.random.default_rng(2).integers(0, 2**32, 100_000, "u4")
    with h5py.File(write(tmp_path / "a.h5", data, (10_000,))) as file:
        assert file["x"].id.get_storage_size() <= data.nbytes + 10 * 64
        assert same_bits(file["x"][...], data)


def test_the_same_chunks_give_the_same_bytes(tmp_path: Path, field: np.ndarray) -> None:
    script = """
import h5py, numpy as np, sys
with h5py.File(sys.argv[1]) as source, h5py.File(sys.argv[2], "w") as file:
    file.create_dataset("x", data=source["x"][...], chunks=(1, 45, 70), compression=45223)
"""
    source = write(tmp_path / "source.h5", field, (12, 45, 70))
    outputs = [tmp_path / "a.h5", tmp_path / "b.h5"]
    for output in outputs:
        python(script, source, output)
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_another_process_appends_under_the_same_promise(tmp_path: Path, field: np.ndarray) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "x", data=field[:6], chunks=(2, 45, 70), maxshape=(None, 45, 70), fillvalue=1e20, **filtered(abs_error=0.05)
        )
    np.save(tmp_path / "more.npy", field[6:])
    python(
        """
import h5py, numpy as np, sys
# HDF5 loads filters for reading and creating by itself; a program that only appends asks for them.
assert h5py.h5z.filter_avail(45223)
with h5py.File(sys.argv[1], "a") as file:
    more = np.load(sys.argv[2])
    file["x"].resize(6 + len(more), axis=0)
    file["x"][6:] = more
    file["x"][-1, 0, 0] = 1e20
""",
        path,
        tmp_path / "more.npy",
    )
    back = read(path)
    assert back[-1, 0, 0] == np.float32(1e20)
    back[-1, 0, 0] = field[-1, 0, 0]
    assert error(field, back) <= 0.05
    with h5py.File(path) as file:
        assert file["x"].id.get_storage_size() < field.nbytes / 4


def test_debians_programs_read_and_write(tmp_path: Path, field: np.ndarray) -> None:
    source, plain = tmp_path / "a.h5", tmp_path / "plain.h5"
    write(source, field, (3, 45, 70), abs_error=0.01)
    with h5py.File(plain, "w") as file:
        file.create_dataset("x", data=read(source))
    run("h5diff", source, plain)
    assert "FILTER_ID 45223" in run("h5dump", "-pH", source).stdout
    assert "(0,0,0)" in run("h5dump", "-d", "/x", source).stdout
    assert "45223" in run("h5ls", "-v", source).stdout
    # Another chunk shape: the words are made anew, the promise stays.
    run("h5repack", "-l", "x:CHUNK=4x9x35", source, tmp_path / "b.h5")
    run("h5diff", "-d", "0.01", plain, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        cd_values = file["x"].id.get_create_plist().get_filter(0)[2]
        assert cd_values[2:4] == plugin.words(abs_error=0.01)[2:] and cd_values[5:8] == (4, 9, 35)
    values = plugin.words(abs_error=0.5)
    spelled = ",".join(map(str, (ID, 0, len(values), *values)))
    run("h5repack", "-f", f"UD={spelled}", "-l", "CHUNK=6x45x70", plain, tmp_path / "c.h5")
    run("h5diff", "-d", "0.5", plain, tmp_path / "c.h5")
    assert (tmp_path / "c.h5").stat().st_size < plain.stat().st_size / 4


def test_netcdf_programs_read_and_write(tmp_path: Path, field: np.ndarray) -> None:
    python(
        """
import netCDF4, numpy as np, sys
data = np.load(sys.argv[2])
with netCDF4.Dataset(sys.argv[1], "w") as file:
    for name, length in zip("tyx", data.shape):
        file.createDimension(name, length)
    file.createVariable("T", "f4", ("t", "y", "x"), fill_value=1e20)[...] = data
""",
        tmp_path / "in.nc",
        (np.save(tmp_path / "in.npy", field), tmp_path / "in.npy")[1],
    )
    values = plugin.words(abs_error=0.05)
    spelled = ",".join(map(str, (ID, *values)))
    run("nccopy", "-c", "t/3,y/45,x/70", "-F", f"T,{spelled}", tmp_path / "in.nc", tmp_path / "out.nc")
    header = run("ncdump", "-hs", tmp_path / "out.nc").stdout
    assert f'_Filter = "{ID}' in header
    assert (tmp_path / "out.nc").stat().st_size < (tmp_path / "in.nc").stat().st_size / 2
    python(
        """
import netCDF4, numpy as np, sys
with netCDF4.Dataset(sys.argv[1]) as file:
    np.save(sys.argv[2], np.ma.getdata(file["T"][...]))
""",
        tmp_path / "out.nc",
        tmp_path / "back.npy",
    )
    assert 0 < error(np.load(tmp_path / "back.npy"), field) <= 0.05
    cdl = tmp_path / "a.cdl"
    cdl.write_text(
        'netcdf a { dimensions: x = 4000 ; variables: int n(x) ; n:_Storage = "chunked" ; n:_ChunkSizes = 1000 ;'
        f' n:_Filter = "{ID}" ; data: n = {", ".join(map(str, range(4000)))} ; }}'
    )
    run("ncgen", "-4", "-o", tmp_path / "gen.nc", cdl)
    assert "3998, 3999 ;" in run("ncdump", tmp_path / "gen.nc").stdout
    assert (tmp_path / "gen.nc").stat().st_size < 16_000


def test_a_process_that_never_asked_for_the_filter_appends_raw_chunks(tmp_path: Path, field: np.ndarray) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=field[:6], chunks=(2, 45, 70), maxshape=(None, 45, 70), **filtered())
    python(
        """
import h5py, sys
with h5py.File(sys.argv[1], "a") as file:
    file["x"].resize(8, axis=0)
    file["x"][6:] = 7
""",
        path,
    )
    back = read(path)
    assert same_bits(back[:6], field[:6]) and np.all(back[6:] == 7)


def test_two_hdf5_libraries_of_one_process_are_each_asked(tmp_path: Path) -> None:
    python(
        """
import ctypes, sys
import h5py, netCDF4, numpy as np

# netCDF4-python names no filters: its own libnetcdf is called.
objects = {line.split()[-1] for line in open("/proc/self/maps") if "libnetcdf" in line}
netcdf = ctypes.CDLL(objects.pop())
data = np.add.outer(np.arange(80.0), np.sin(np.arange(900) / 30)).astype("f4")
chunks, words = (ctypes.c_size_t * 2)(20, 300), (ctypes.c_uint * 2)(1, 0)
for turn in range(3):
    one, two = f"{sys.argv[1]}/{turn}.h5", f"{sys.argv[1]}/{turn}.nc"
    with h5py.File(one, "w") as file:
        # Identifiers of this library are others in that of netCDF4.
        spare = [file.create_group(f"g{n}") for n in range(7 * turn)]
        file.create_dataset("x", data=data, chunks=(9, 900), compression=45223)
        handle, y, x, variable = (ctypes.c_int() for _ in range(4))
        done = [
            netcdf.nc_create(two.encode(), 0x1000, ctypes.byref(handle)),
            netcdf.nc_def_dim(handle, b"y", ctypes.c_size_t(80), ctypes.byref(y)),
            netcdf.nc_def_dim(handle, b"x", ctypes.c_size_t(900), ctypes.byref(x)),
            netcdf.nc_def_var(handle, b"v", 5, 2, (ctypes.c_int * 2)(y.value, x.value), ctypes.byref(variable)),
            netcdf.nc_def_var_chunking(handle, variable, 0, chunks),
            netcdf.nc_def_var_filter(handle, variable, 45223, ctypes.c_size_t(2), words),
            netcdf.nc_put_var_float(handle, variable, data.ctypes.data_as(ctypes.POINTER(ctypes.c_float))),
            netcdf.nc_close(handle),
        ]
        assert not any(done), done
    with h5py.File(one) as a, h5py.File(two) as b, netCDF4.Dataset(two) as c:
        for values in (a["x"], b["v"], c["v"]):
            assert np.array_equal(values[...], data)
        filters = [a["x"].id.get_create_plist().get_filter(0)[2], b["v"].id.get_create_plist().get_filter(0)[2]]
        assert [one[3:5] for one in filters] == [(9, 900), (20, 300)], filters
""",
        tmp_path,
    )


def test_knarr_and_the_plugin_read_each_other(knarr, tmp_path: Path, field: np.ndarray) -> None:
    source = write(tmp_path / "a.h5", field, (5, 45, 70))
    assert knarr.json("hash", source)["variables"]
    standard = knarr.repack(source, tmp_path / "standard.h5")
    assert same_bits(read(standard), field)
    own = knarr.repack(standard, tmp_path / "own.h5", "--portable", "knarr", "--chain", "grid")
    knarr("verify", source, own)
    with h5py.File(own) as file:
        assert file["x"].id.get_create_plist().get_filter(0)[0] == ID
        assert same_bits(file["x"][...], field)
    run("h5diff", own, source)


def test_verify_knows_the_promise_of_the_filter(knarr, tmp_path: Path, field: np.ndarray) -> None:
    plain, packed = tmp_path / "plain.h5", tmp_path / "packed.h5"
    with h5py.File(plain, "w") as file:
        file["x"] = field
    for wishes in ({"abs_error": 0.01}, {"range_error": 1e-4}, {"digits": 3}):
        write(packed, field, (4, 45, 70), **wishes)
        [row] = knarr.json("verify", plain, packed, "--values-only")["variables"]
        assert row["difference"] == "within-bound", row
    with h5py.File(plain, "r+") as file:
        file["x"][3, 3, 3] += 5
    assert knarr("verify", plain, packed, "--values-only", ok=False).returncode == 1


def test_inspect_names_the_chains_in_the_chunks(knarr, tmp_path: Path, field: np.ndarray) -> None:
    path = tmp_path / "x.h5"
    mixed = np.stack([field[0], np.random.default_rng(3).integers(0, 2**32, field[0].shape, "u4").view("f4")])
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=mixed, chunks=(1, *mixed.shape[1:]), **filtered(goal="ratio", abs_error=0.01))
        file["y"] = 1.0
    shown = knarr("inspect", path).stdout
    assert "knarr:goal=ratio, max_abs_error=0.01 = " in shown
    frames = knarr.json("inspect", path)["files"][0]["frames"]
    assert list(frames) == ["/x"]
    assert sum(frames["/x"].values()) == 2
    # A damaged head is an error with its place.
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"KNRF") + 9] ^= 1
    path.write_bytes(damaged)
    done = knarr("inspect", path, ok=False)
    assert done.returncode == 3
    assert f"{path}: variable 'x': chunk [0, 0, 0]: checksum" in done.stderr


def test_no_flipped_byte_gives_wrong_data(tmp_path: Path) -> None:
    data = (np.arange(600, dtype="f4").reshape(20, 30) ** 0.5).round(2)
    path = tmp_path / "a.h5"
    # Format 'latest' has checksums on the library's own metadata: what is left is the filter's business.
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=data, chunks=(10, 30), track_times=False, **filtered())
    with h5py.File(path) as file:
        chunks = [file["x"].id.get_chunk_info(at) for at in range(2)]
    inside = [at for chunk in chunks for at in range(chunk.byte_offset, chunk.byte_offset + chunk.size)]
    script = """
import h5py, json, sys
from pathlib import Path
clean, wanted = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]).read_bytes()
noticed = set()
for at in range(len(clean)):
    for flip in (1, 0x80, 0xFF):
        damaged = clean[:at] + bytes([clean[at] ^ flip]) + clean[at + 1:]
        try:
            with h5py.File(h5py.h5f.open_file_image(damaged)) as file:
                back = file["x"][...]
                if back.tobytes() != wanted:
                    raise SystemExit(f"byte {at} flipped by {flip}: wrong data")
        except (OSError, KeyError, RuntimeError, ValueError):
            noticed.add(at)
print(json.dumps(sorted(noticed)))
"""
    (tmp_path / "wanted").write_bytes(data.tobytes())
    answer = python(script, path, tmp_path / "wanted").stdout
    # Bytes that nothing refers to may change unnoticed; those of chunks may not.
    assert set(inside) <= set(json.loads(answer))


def test_damage_is_named(tmp_path: Path, field: np.ndarray) -> None:
    path = write(tmp_path / "a.h5", field, (12, 45, 70))
    with h5py.File(path) as file:
        chunk = file["x"].id.get_chunk_info(0)
    clean = path.read_bytes()
    middle = chunk.byte_offset + chunk.size // 2
    path.write_bytes(clean[:middle] + bytes([clean[middle] ^ 4]) + clean[middle + 1 :])
    # HDF5 2 throws away what filters say while they decode; older versions show it.
    with pytest.raises(OSError, match=r"filter returned failure|knarr filter: checksum"):
        read(path)
    shown = run("h5dump", "--enable-error-stack", path, ok=False)
    assert shown.returncode > 0
    assert "knarr filter: checksum of the frame's payload" in shown.stderr


def test_threads(tmp_path: Path, field: np.ndarray) -> None:
    failures: list[str] = []

    def work(number: int) -> None:
        data = field + np.float32(number)
        for turn in range(5):
            path = write(tmp_path / f"{number}.h5", data, (2 + turn, 45, 70), abs_error=0.01)
            if error(read(path), data) > 0.01:
                failures.append(f"{number}, {turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures


@pytest.mark.parametrize("seed", range(12))
def test_random_shapes_and_bounds(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 14, rng.integers(1, 5)))
    chunks = tuple(int(rng.integers(1, n + 1)) for n in shape)
    dtype = ["<f4", ">f4", "<f8", ">f8"][seed % 4]
    data = (rng.normal(0, 10.0 ** rng.integers(-6, 7), shape)).astype(dtype)
    data.reshape(-1)[rng.random(data.size) < 0.05] = rng.choice([np.nan, np.inf, 1e20, 0.0])
    bound = float(10.0 ** rng.integers(-8, 3))
    back = read(write(tmp_path / "a.h5", data, chunks, abs_error=bound, fillvalue=1e20))
    special = ~np.isfinite(data) | (data == data.dtype.type(1e20))
    assert same_bits(back[special], data[special])
    assert np.all(np.abs(back[~special].astype("f8") - data[~special].astype("f8")) <= bound)


C_PROGRAM = r"""
#include <hdf5.h>
#include <stdlib.h>
#include <math.h>
#ifdef H5_HAVE_PARALLEL
#include <mpi.h>
#define STORED H5T_IEEE_F32LE /* collective writes take no conversion */
#else
#define STORED H5T_IEEE_F32BE
#endif
#define ROWS 64
#define COLUMNS 3000
int main(int argc, char **argv) {
    int rank = 0, size = 1;
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
#ifdef H5_HAVE_PARALLEL
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
#endif
    hsize_t shape[2] = {ROWS, COLUMNS}, chunk[2] = {12, 1000};
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hid_t space = H5Screate_simple(2, shape, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
    unsigned words[4] = {1, 16, 1202590843, 1065646817}; /* max_abs_error 0.01 */
    H5Pset_chunk(list, 2, chunk);
    if (H5Pset_filter(list, 45223, H5Z_FLAG_MANDATORY, 4, words) < 0) return 2;
    hid_t set = H5Dcreate2(file, "x", STORED, space, H5P_DEFAULT, list, H5P_DEFAULT);
    if (set < 0) return 3;
    hsize_t rows = ROWS / size, start[2] = {rank * rows, 0}, count[2] = {rows, COLUMNS};
    float *data = malloc(rows * COLUMNS * sizeof *data);
    for (hsize_t i = 0; i < rows * COLUMNS; i++)
        data[i] = (float)(280 + sin((start[0] + i / COLUMNS) / 9.0) * cos((i % COLUMNS) / 40.0));
    hid_t memory = H5Screate_simple(2, count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    if (H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, transfer, data) < 0) return 4;
    H5Dclose(set);
    H5Sclose(space);
    H5Sclose(memory);
    H5Pclose(list);
    H5Pclose(transfer);
    H5Pclose(access);
    H5Fclose(file);
#ifdef H5_HAVE_PARALLEL
    MPI_Finalize();
#endif
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["h5cc", "h5pcc"])
def test_c_programs_write_alone_and_together(tmp_path: Path, compiler: str) -> None:
    launcher = [*MPIRUN, "2"] if compiler == "h5pcc" else []
    for tool in [compiler, *launcher[:1]]:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: packages libhdf5-dev, libhdf5-openmpi-dev, openmpi-bin")
    source, program, output = tmp_path / "w.c", tmp_path / "w", tmp_path / "out.h5"
    source.write_text(C_PROGRAM)
    run(compiler, "-shlib", source, "-o", program, "-lm", cwd=tmp_path)
    run(*launcher, program, output)
    rows, columns = np.meshgrid(np.arange(64), np.arange(3000), indexing="ij")
    wanted = (280 + np.sin(rows / 9) * np.cos(columns / 40)).astype("f4")
    assert error(read(output), wanted) <= 0.0101
    with h5py.File(output) as file:
        assert file["x"].dtype == np.dtype("<f4" if launcher else ">f4")
        assert file["x"].id.get_storage_size() < wanted.nbytes / 4
