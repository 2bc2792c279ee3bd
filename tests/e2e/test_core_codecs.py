"""What the core codecs write is read by h5py with hdf5plugin, numcodecs, zarr and netCDF-C, and the reverse.

Run: pytest tests/e2e/test_core_codecs.py (builds the example `chunk` of knarr-codec).
"""

import json
import pathlib
import subprocess
import warnings

import h5py
import hdf5plugin
import netCDF4
import numcodecs.registry
import numpy as np
import pytest
import zarr

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE = (13, 31, 33)
DTYPES = {"f4": "f32", "f8": "f64", "i2": "i16", "u4": "u32", "i8": "i64", "u1": "u8"}


@pytest.fixture(scope="session")
def chunk():
    """Runs the example: chunk(action, chain, array, data, fills) -> bytes."""
    # All packages are named: what the example depends on has the features with which it is built already.
    command = ["cargo", "build", "--quiet", "--release", "--workspace", "--example", "chunk"]
    subprocess.run(command, cwd=ROOT, check=True)
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--no-deps"], cwd=ROOT, check=True, capture_output=True
    )
    program = pathlib.Path(json.loads(metadata.stdout)["target_directory"]) / "release/examples/chunk"

    def run(action, chain, array, data=b"", fills=()):
        shape = ",".join(map(str, array.shape))
        command = [program, action, chain, DTYPES[array.dtype.str[1:]], shape, *map(str, fills)]
        return subprocess.run(command, input=data, check=True, capture_output=True).stdout

    return run


def values(dtype, shape=SHAPE):
    z, y, x = np.meshgrid(*map(np.arange, shape), indexing="ij")
    wave = 40 + 30 * np.sin(0.05 * x + 0.3 * z) + 12 * np.cos(0.11 * y) + np.random.default_rng(1).random(shape)
    return wave.astype(dtype)


HDF5 = [
    "shuffle",
    "fletcher32",
    "shuffle | fletcher32",
    "bitshuffle",
    "bitshuffle:64",
    "bitshuffle:-1",
    "shuffle:2 | bitshuffle:128 | fletcher32",
    "bitround:9 | bitshuffle:-1 | fletcher32",
]


@pytest.mark.parametrize("chain", HDF5)
@pytest.mark.parametrize("dtype", DTYPES)
def test_hdf5_reads_our_chunks(chunk, tmp_path, chain, dtype):
    array = values(dtype)
    if chain.startswith("bitround") and dtype[0] != "f":
        # Whole numbers have no significand: the request is refused, not ignored.
        with pytest.raises(subprocess.CalledProcessError) as refused:
            chunk("encode", chain, array, array.tobytes())
        assert f"'bitround' does not take elements of type {DTYPES[dtype]}" in refused.value.stderr.decode()
        return
    encoded = chunk("encode", chain, array, array.tobytes())
    expected = np.frombuffer(chunk("decode", chain, array, encoded), dtype).reshape(SHAPE)
    pipeline = json.loads(chunk("forms", chain, array))["hdf5"]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(SHAPE)
        for entry in pipeline:
            if entry["id"] == 2:
                plist.set_shuffle()  # HDF5 fills in the element size
            else:
                # The filter puts version and element size before the values it is given.
                given = entry["cd_values"][3:]
                plist.set_filter(entry["id"], h5py.h5z.FLAG_MANDATORY, tuple(given))
        space = h5py.h5s.create_simple(SHAPE)
        dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(np.dtype(dtype)), space, plist)
        if "shuffle:2" in chain and np.dtype(dtype).itemsize != 2:
            return  # HDF5 overrides the size of its own shuffle
        dataset.write_direct_chunk((0, 0, 0), encoded)
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["x"][...], expected)
    if not chain.startswith("bitround"):
        np.testing.assert_array_equal(expected, array)


@pytest.mark.parametrize(
    "chain, options",
    [
        ("shuffle", dict(shuffle=True)),
        ("shuffle | fletcher32", dict(shuffle=True, fletcher32=True)),
        ("bitshuffle", hdf5plugin.Bitshuffle(cname="none")),
        ("bitshuffle:64", hdf5plugin.Bitshuffle(nelems=64, cname="none")),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_our_chunks_are_those_of_hdf5(chunk, tmp_path, chain, options, dtype):
    array = values(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", data=array, chunks=SHAPE, **dict(options))
        plist = dataset.id.get_create_plist()
        written = [plist.get_filter(i) for i in range(plist.get_nfilters())]
        _, theirs = dataset.id.read_direct_chunk((0, 0, 0))
    assert chunk("encode", chain, array, array.tobytes()) == theirs
    ours = json.loads(chunk("forms", chain, array))["hdf5"]
    assert [(entry["id"], tuple(entry["cd_values"])) for entry in ours] == [(f[0], f[2]) for f in written]


ZARR = ["shuffle", "fletcher32", "shuffle | fletcher32", "delta", "delta | shuffle", "pcodec", "pcodec:3 | fletcher32"]


@pytest.mark.parametrize("chain", ZARR)
@pytest.mark.parametrize("dtype", DTYPES)
def test_zarr_reads_our_chunks(chunk, tmp_path, chain, dtype):
    array = values(dtype)
    codecs = json.loads(chunk("forms", chain, array))["zarr"]
    if codecs is None:
        assert (dtype[0] == "f" and "delta" in chain) or (dtype == "u1" and "pcodec" in chain)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_array(tmp_path, shape=SHAPE, chunks=SHAPE, dtype=dtype, filters=None, compressors=None)
        metadata = json.loads((tmp_path / "zarr.json").read_text())
        metadata["codecs"] = codecs
        (tmp_path / "zarr.json").write_text(json.dumps(metadata))
        (tmp_path / "c/0/0").mkdir(parents=True)
        (tmp_path / "c/0/0/0").write_bytes(chunk("encode", chain, array, array.tobytes()))
        np.testing.assert_array_equal(zarr.open_array(tmp_path)[...], array)


@pytest.mark.parametrize("dtype, keepbits", [("f4", 5), ("f4", 12), ("f8", 20)])
def test_bitround_is_that_of_numcodecs(chunk, dtype, keepbits):
    array = values(dtype)
    theirs = numcodecs.registry.get_codec({"id": "bitround", "keepbits": keepbits}).encode(array)
    assert chunk("encode", f"bitround:{keepbits}", array, array.tobytes()) == theirs.tobytes()


@pytest.mark.parametrize(
    ("dtype", "digits"), [("f4", 1), ("f4", 3), ("f4", 6), ("f8", 1), ("f8", 2), ("f8", 7), ("f8", 14)]
)
def test_granular_is_that_of_netcdf(chunk, tmp_path, dtype, digits):
    random = np.random.default_rng(3)
    magnitudes = 10.0 ** random.uniform(-30, 30, 20_000)
    array = np.concatenate([magnitudes, -magnitudes, 10.0 ** np.arange(-20, 21), 2.0 ** np.arange(-20, 21)])
    array = np.concatenate([array, np.nextafter(array.astype(dtype), 0)]).astype(dtype)
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("n", len(array))
        options = dict(significant_digits=digits, quantize_mode="GranularBitRound", zlib=True)
        file.createVariable("x", dtype, ("n",), **options)[:] = array
        theirs = file["x"][:].data
    ours = np.frombuffer(chunk("encode", f"granular:{digits}", array, array.tobytes()), dtype)
    different = np.flatnonzero(ours != theirs)
    assert different.size == 0, list(zip(array[different], ours[different], theirs[different], strict=True))[:10]
    relative = np.abs(ours - array.astype("f8")) / 10.0 ** np.floor(np.log10(np.abs(array.astype("f8"))))
    assert relative.max() <= 0.5 * 10.0 ** (1 - digits) * (1 + 1e-6)


@pytest.mark.parametrize("step", ["binary", "decimal", "full"])
def test_quantize_keeps_the_bound_and_special_values(chunk, step):
    array = values("f4")
    array.flat[:6] = [np.nan, np.inf, -np.inf, -0.0, 1e20, 0.0]
    fill = np.float32(1e20).view("u4")
    out = np.frombuffer(chunk("encode", f"quantize:0.01,step={step}", array, array.tobytes(), [fill]), "f4")
    assert out[:6].tobytes() == array.flat[:6].tobytes()
    assert np.abs(out[6:].astype("f8") - array.ravel()[6:]).max() <= 0.01
