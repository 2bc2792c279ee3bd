"""`knarr run` with `when = "write"`: datasets get filters as the program creates them."""

from __future__ import annotations

import json
import subprocess

import h5py
import netCDF4
import numpy as np
import pytest

from running import ALL, FIELD, c_program, is_packed, script

WRITE = ALL + 'when = "write"\n'
CANNOT_BEGIN = 125
# Found on HDF5's plugin path some filters cannot reach a wheel's HDF5; `import hdf5plugin` leads them there.
HDF5PLUGIN = {"HDF5_PLUGIN_PATH": ""}


def filters(path, name: str = "T") -> list[int]:
    with h5py.File(path) as file:
        plist = file[name].id.get_create_plist()
        return [plist.get_filter(number)[0] for number in range(plist.get_nfilters())]


def test_datasets_of_h5py_get_filters_as_they_are_created(run):
    ran = run(
        *script("""
        with h5py.File("a.h5", "w") as file:
            dataset = file.create_dataset("group/T", data=FIELD)
            print(dataset.chunks, dataset.compression, dataset.shuffle)  # as the program made it
            file.create_dataset("own", data=FIELD, chunks=(1, 128, 256), compression="lzf")
            file.create_dataset("grows", data=FIELD, maxshape=(None, 128, 256))
            file.create_dataset("bytes", data=FIELD.view("u1")[:, :, :1000])
        """),
        config=WRITE,
    )
    assert ran.out == "None None False\n"
    path = run.folder / "a.h5"
    assert filters(path, "group/T") == filters(path, "grows") == [2, 1]
    assert filters(path, "own") == [32000] and filters(path, "bytes") == [1]
    with h5py.File(path) as file:
        for name in ("group/T", "own", "grows"):
            assert np.array_equal(file[name][:], FIELD)
        assert np.array_equal(file["bytes"][:], FIELD.view("u1")[:, :, :1000])
    found = ran.file("a.h5")
    assert found["outcome"] == "written"
    assert (
        "3 datasets compressed" in found["reason"]
        and "1 dataset not: the program has chosen filters" in found["reason"]
    )


def test_filters_of_the_program_cost_knarr_nothing(run):
    ran = run(
        *script("""
        with h5py.File("a.h5", "w") as file:
            file.create_dataset("own", data=FIELD, chunks=(1, 128, 256), compression="gzip")
        """),
        config=WRITE,
    )
    found = ran.file("a.h5")
    assert "0 datasets compressed" in found["reason"] and found["energy"]["seconds"]["encode"] == 0, found
    assert "encoding took it" not in ran.err


def test_what_was_saved_and_what_it_cost_is_told(run):
    ran = run(
        *script("""
        for name in ("a", "b"):
            with h5py.File(name + ".h5", "w") as file:
                file.create_dataset("T", data=FIELD)
        """),
        config=WRITE,
    )
    sizes = {name: (run.folder / name).stat().st_size for name in ("a.h5", "b.h5")}
    for name, size in sizes.items():
        file = ran.file(name)
        assert (file["input_bytes"], file["output_bytes"]) == (FIELD.nbytes, size)
        assert file["energy"]["source"] == "model" and file["energy"]["seconds"]["encode"] > 0
    assert ran.result["totals"]["input_bytes"] == 2 * FIELD.nbytes
    assert ran.result["totals"]["output_bytes"] == sum(sizes.values())
    table = {line.split()[0]: line for line in ran.err.splitlines() if line.strip()}
    assert "J (model)" in table["a.h5"] and "1.0 MB" in table["a.h5"] and "2.1 MB" in table["total"]


def test_variables_of_netcdf_get_filters(run):
    ran = run(
        *script("""
        with netCDF4.Dataset("a.nc", "w") as dataset:
            dataset.createDimension("t", None)
            for name, length in zip("zyx", FIELD.shape):
                dataset.createDimension(name, length)
            dataset.createVariable("T", "f4", ("z", "y", "x"))[:] = FIELD
            dataset.createVariable("U", "f8", ("t", "y", "x"))[:] = FIELD
            dataset.createVariable("z", "f4", ("z",))[:] = 1
            dataset["T"].units = "K"
        with netCDF4.Dataset("a.nc", "a") as dataset:
            dataset["U"][8:16] = FIELD
        """),
        config=WRITE,
    )
    assert ran.file("a.nc")["outcome"] == "written", ran.err
    path = run.folder / "a.nc"
    assert filters(path) == filters(path, "U") == [2, 1] and filters(path, "z") == []
    with netCDF4.Dataset(path) as dataset:
        assert np.array_equal(dataset["T"][:], FIELD)
        assert np.array_equal(dataset["U"][:], np.concatenate([FIELD, FIELD]).astype("f8"))


def test_what_must_stay_contiguous_does(run):
    ran = run(
        *script("""
        import numpy as np
        with h5py.File("a.h5", "w") as file:
            file["scalar"] = 3.0
            file["small"] = np.arange(100)
            file["empty"] = h5py.Empty("f4")
            file["zero"] = np.zeros((0, 5))
            file["text"] = ["a", "b"] * 10000
            file["fixed_text"] = np.array([b"abc", b"de"] * 10000)
            file["references"] = np.array([file["small"].ref] * 5000, dtype=h5py.ref_dtype)
            file["pairs"] = np.zeros(10000, dtype=[("a", "f4"), ("b", "i2")])
            file.create_dataset("external", (100000,), "f4", external=[("a.raw", 0, 400000)])
            layout = h5py.VirtualLayout((100,), "i8")
            layout[:] = h5py.VirtualSource(file["small"])
            file.create_virtual_dataset("virtual", layout)
            compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            compact.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple((8000,))
            h5py.h5d.create(file.id, b"compact", h5py.h5t.NATIVE_FLOAT, space, compact)
            early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            dataset = h5py.h5d.create(file.id, b"early", h5py.h5t.NATIVE_FLOAT, space, early)
            assert dataset.get_offset() is not None
        with h5py.File("memory.h5", "w", driver="core") as file:
            file["T"] = FIELD
        with h5py.File("family_%02d.h5", "w", driver="family", memb_size=1 << 20) as file:
            file["T"] = FIELD
        with h5py.File("split.h5", "w", driver="split") as file:
            file["T"] = FIELD
        with h5py.File("swmr.h5", "w", libver="latest") as file:
            file.swmr_mode = True
        """),
        config=WRITE,
    )
    with h5py.File(run.folder / "a.h5") as file:
        chunked = [name for name, dataset in file.items() if dataset.chunks]
    assert chunked == ["fixed_text", "pairs"]
    for name in ("family_%02d.h5", "split.h5"):
        assert ran.file(name)["reason"] == "HDF5 keeps it in several files"
    with h5py.File(run.folder / "memory.h5") as file:
        assert file["T"].chunks is None and np.array_equal(file["T"][:], FIELD)


def test_a_chain_and_chunks_that_were_asked_for(run):
    config = WRITE + 'variables.T = { chain = "shuffle | zstd:3", chunks = "2x64x256" }\nvariables.U.chain = "raw"\n'
    ran = run(
        *script("""
        with h5py.File("a.h5", "w") as file:
            for name in "TUV":
                file.create_dataset(name, data=FIELD)
            file["W"] = FIELD  # which h5py creates without a name, and names then
        """),
        config=config,
    )
    path = run.folder / "a.h5"
    assert [filters(path, name) for name in "TUVW"] == [[2, 32015], [], [2, 1], []]
    assert "it gets its name only later" in ran.file("a.h5")["reason"]
    with h5py.File(path) as file:
        assert file["T"].chunks == (2, 64, 256)
        assert all(np.array_equal(file[name][:], FIELD) for name in "TUV")


@pytest.mark.parametrize(
    ("chain", "ids"),
    [
        ("bitshuffle:-1 | zstd:3", [32008, 32015]),
        ("bitshuffle | lz4", [32008, 32004]),
        ("blosc:lz4,level=5,shuffle=byte", [32001]),
        ("blosc2:zstd,level=5,filter=bytedelta", [32026]),
        ("shuffle | bzip2:9", [2, 307]),
    ],
)
def test_filters_of_plugins(run, chain, ids):
    """Some of them change their client data when a dataset is created."""
    ran = run(
        *script("""
        import hdf5plugin
        with h5py.File("a.h5", "w") as file:
            file.create_dataset("T", data=FIELD)
        """),
        config=WRITE + f'variables."*".chain = "{chain}"\n',
        env=HDF5PLUGIN,
    )
    assert filters(run.folder / "a.h5") == ids, ran.err
    with h5py.File(run.folder / "a.h5") as file:
        assert np.array_equal(file["T"][:], FIELD)


def test_a_filter_that_the_program_lacks(run):
    """The dataset is as the program wanted it; other data get the usual chain."""
    config = WRITE + 'variables.T.chain = "shuffle | zstd:3"\n'
    program = script("""
        with h5py.File("a.h5", "w") as file:
            file.create_dataset("T", data=FIELD)
            file.create_dataset("U", data=FIELD)
        """)
    ran = run(*program, config=config, env={"HDF5_PLUGIN_PATH": "/nowhere"})
    path = run.folder / "a.h5"
    assert filters(path) == [] and filters(path, "U") == [2, 1]
    assert "lacks a filter" in ran.file("a.h5")["reason"]


def test_later_files_get_what_earlier_ones_taught(run):
    program = script("""
        import hdf5plugin
        known = os.environ["KNARR_RUN"] + "/snapshot.json"
        for step in range(4):
            with h5py.File(f"a{step}.h5", "w") as file:
                file.create_dataset("T", data=FIELD + step)
            begin = time.time()
            while step == 0 and "/T" not in open(known).read() and time.time() < begin + 60:
                time.sleep(0.1)
        """)
    config = WRITE + 'goal = "ratio"\n'
    run(*program, config=config, env=HDF5PLUGIN)
    first, last = filters(run.folder / "a0.h5"), filters(run.folder / "a3.h5")
    assert first == [2, 1] and last not in (first, [])
    learnt = json.loads((run.top / ".knarr" / "learned.json").read_text())
    assert learnt["variables"][0]["variable"] == "/T"
    run(*program, config=config, env=HDF5PLUGIN)
    assert filters(run.folder / "a0.h5") == last, "the next run begins with what this one learnt"
    with h5py.File(run.folder / "a3.h5") as file:
        assert np.array_equal(file["T"][:], FIELD + np.float32(3))


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ("variables.T.max_abs_error = 0.1", ("'T'", "bound", "close", 'portable to "knarr"')),
        ('variables."*".significant_digits = 3', ("bound",)),
        ('portable = "standard"\nvariables.T.max_abs_error = 0.1', ("'T'", "bound")),
        (
            'portable = "knarr"\nvariables.T = { chain = "shuffle | zstd:1", max_abs_error = 0.1 }',
            ("'T'", "leave the chain"),
        ),
        ('variables.T.chain = "lorenzo:2 | shuffle | zstd:1"', ("lorenzo", "standard HDF5 filters")),
    ],
)
def test_what_cannot_be_done_stops_before_the_program_starts(run, config, names):
    ran = run("touch", "started", config=WRITE + config + "\n", ok=False)
    assert ran.code == CANNOT_BEGIN and not (run.folder / "started").exists()
    for name in names:
        assert name in ran.err


CREATES = """
static float values[64][4096];
int main(void) {
    for (int i = 0; i < 64 * 4096; i++) ((float *)values)[i] = (float)(i % 5000) * 0.25f;
    hsize_t dims[2] = {64, 4096};
    hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t sets[3];
    sets[0] = H5Dcreate1(file, "one", H5T_NATIVE_FLOAT, space, H5P_DEFAULT);
    sets[1] = H5Dcreate2(file, "two", H5T_IEEE_F32BE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    sets[2] = H5Dcreate_anon(file, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT);
    for (int n = 0; n < 3; n++)
        if (H5Dwrite(sets[n], H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 1;
    if (H5Olink(sets[2], file, "three", H5P_DEFAULT, H5P_DEFAULT) < 0) return 2;
    hid_t again = H5Dcreate2(file, "two", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t wrong = H5Dcreate2(file, "four", H5T_NATIVE_INT, -1, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    printf("%d %d %ld\\n", again < 0, wrong < 0, (long)H5Eget_num(H5E_DEFAULT));
    for (int n = 0; n < 3; n++) H5Dclose(sets[n]);
    printf("%ld\\n", (long)H5Fget_obj_count(file, H5F_OBJ_ALL));
    H5Sclose(space); H5Fclose(file);
    printf("%ld\\n", (long)H5Eget_num(H5E_DEFAULT));
    return 0;
}
"""


def test_all_ways_of_creating_in_c(run):
    """What the program sees, its errors and open objects too, is as without Knarr."""
    program = c_program(run.folder, CREATES)
    plain = subprocess.run([program], cwd=run.folder, capture_output=True, text=True, check=True)
    with h5py.File(run.folder / "a.h5") as file:
        values = {name: dataset[:] for name, dataset in file.items()}
    ran = run(program, config=WRITE, options=("--quiet",))
    assert ran.out == plain.stdout
    without_ids = [line for line in plain.stderr.splitlines() if "thread" not in line]
    assert [line for line in ran.err.splitlines() if "thread" not in line] == without_ids
    with h5py.File(run.folder / "a.h5") as file:
        assert set(file) == set(values) == {"one", "two", "three"}
        for name, expected in values.items():
            assert is_packed(run.folder / "a.h5", name), name
            assert file[name].dtype == expected.dtype and np.array_equal(file[name][:], expected)


def test_untouched_when_nothing_matches(run):
    program = c_program(run.folder, CREATES)
    subprocess.run([program], cwd=run.folder, capture_output=True, check=True)
    plain = (run.folder / "a.h5").read_bytes()
    run(program, config='[[file]]\npattern = "b*"\nwhen = "write"\n')
    with h5py.File(run.folder / "a.h5") as file:
        assert all(dataset.chunks is None for dataset in file.values())
    assert len((run.folder / "a.h5").read_bytes()) == len(plain)


def test_chunks_that_the_program_writes_itself(run):
    """It believes that they are stored as they are; they read right, at once and later."""
    run(
        *script("""
        with h5py.File("a.h5", "w") as file:
            for name in ("T", "U"):
                file.create_dataset(name, FIELD.shape, "f4", chunks=(1, 128, 256))
            for step in range(8):
                file["T"].id.write_direct_chunk((step, 0, 0), FIELD[step].tobytes())
                assert np.array_equal(file["T"][step], FIELD[step])
            file["U"][:4] = FIELD[:4]
            edge = file.create_dataset("edge", (1, 100, 256), "f4", chunks=(1, 128, 256), maxshape=(1, 200, 256))
            edge[0, 3:5] = 7  # which the chunk cache holds
            edge.id.write_direct_chunk((0, 0, 0), FIELD[0].tobytes())
            edge[0, 5] = FIELD[0, 5]
            assert np.array_equal(edge[0], FIELD[0, :100])
        with h5py.File("a.h5", "a") as file:
            for step in range(4, 8):
                file["U"].id.write_direct_chunk((step, 0, 0), FIELD[step].tobytes())
            assert np.array_equal(file["T"][:], FIELD)
        """),
        config=WRITE,
    )
    with h5py.File(run.folder / "a.h5") as file:
        assert np.array_equal(file["T"][:], FIELD) and np.array_equal(file["U"][:], FIELD)
        assert np.array_equal(file["edge"][0], FIELD[0, :100])
        for name in ("T", "U"):
            chunks = [file[name].id.get_chunk_info(number) for number in range(8)]
            assert all(chunk.filter_mask == 0 and chunk.size < FIELD[0].nbytes for chunk in chunks)


def test_chunks_that_the_program_writes_itself_under_another_name(run):
    """A file that is renamed, a dataset that is moved or has several names: they are the same as before."""
    run(
        *script("""
        with h5py.File("a.h5", "w") as file:
            for name in ("T", "U", "V"):
                file.create_dataset(name, data=FIELD, chunks=(1, 128, 256))
            file.move("T", "moved")
            file["second"] = file["U"]
        os.rename("a.h5", "b.h5")
        with h5py.File("b.h5", "a") as file:
            for name in ("moved", "second", "V"):
                file[name].id.write_direct_chunk((0, 0, 0), FIELD[7].tobytes())
        """),
        config=WRITE,
    )
    with h5py.File(run.folder / "b.h5") as file:
        for name in ("moved", "second", "V"):
            assert np.array_equal(file[name][0], FIELD[7]) and np.array_equal(file[name][1:], FIELD[1:])


def test_chunks_of_a_file_that_took_the_name_of_another(run):
    """What the program encoded itself stays as it is, though an earlier file of that name was given filters."""
    run(
        *script("""
        import zlib
        with h5py.File("a.h5", "w") as file:
            file.create_dataset("T", data=FIELD, chunks=(1, 128, 256))
        with h5py.File("b.h5", "w") as file:
            file.create_dataset("T", data=FIELD, chunks=(1, 128, 256), compression="gzip")
        os.rename("b.h5", "a.h5")
        with h5py.File("a.h5", "a") as file:
            file["T"].id.write_direct_chunk((0, 0, 0), zlib.compress(FIELD[7].tobytes()))
            assert np.array_equal(file["T"][0], FIELD[7])
        os.remove("a.h5")
        with h5py.File("c.h5", "w") as file:  # which may get the inode of the one before
            dataset = file.create_dataset("T", data=FIELD, chunks=(1, 128, 256), compression="gzip")
            dataset.id.write_direct_chunk((0, 0, 0), zlib.compress(FIELD[7].tobytes()))
        """),
        config='[[file]]\npattern = "[ab]*.h5"\nwhen = "write"\n',
    )
    with h5py.File(run.folder / "c.h5") as file:
        assert np.array_equal(file["T"][0], FIELD[7]) and np.array_equal(file["T"][1:], FIELD[1:])


def test_identifiers_of_two_libraries_are_told_apart(run):
    """h5py and netCDF4 bring an HDF5 each; both count their datasets from the same number."""
    run(
        *script("""
        import zlib
        with netCDF4.Dataset("a.nc", "w") as dataset:
            for name, length in zip("zyx", FIELD.shape):
                dataset.createDimension(name, length)
            for name in "TUVW":
                dataset.createVariable(name, "f4", ("z", "y", "x"))
            dataset["T"][:] = FIELD
            with h5py.File("a.h5", "w") as file:
                for name in "TUVW":
                    file.create_dataset(name, FIELD.shape, "f4", chunks=(1, 128, 256), compression="gzip")
                    for step in range(8):
                        encoded = zlib.compress(FIELD[step].tobytes())
                        file[name].id.write_direct_chunk((step, 0, 0), encoded)
        """),
        config=WRITE,
    )
    with h5py.File(run.folder / "a.h5") as file:
        assert all(np.array_equal(file[name][:], FIELD) for name in "TUVW")
