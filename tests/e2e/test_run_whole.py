"""`knarr run` with `when = "write"`: writes of whole chunks are encoded by Knarr, in threads.

Who encoded a chunk shows in its bytes: HDF5's deflate is zlib, whose stream Python can make, too.
"""

from __future__ import annotations

import shutil
import subprocess
import zlib

import h5py
import numpy as np
import pytest

import plugin
from running import FIELD, c_program, script
from test_run_own import BOUND, OWN
from test_run_write import HDF5PLUGIN, WRITE, filters


def is_knarrs(path, name: str = "T") -> list[bool]:
    """For each stored chunk of a dataset with shuffle and deflate, whether Knarr encoded it and not HDF5."""
    found = []
    with h5py.File(path) as file:
        dataset = file[name]
        for number in range(dataset.id.get_num_chunks()):
            mask, stored = dataset.id.read_direct_chunk(dataset.id.get_chunk_info(number).chunk_offset)
            assert mask == 0
            shuffled = zlib.decompress(stored)
            found.append(zlib.compress(shuffled, 1) != stored)
    return found


def write(run, statements: str, shape=FIELD.shape, chunks=(2, 64, 256), create: str = "", **how) -> h5py.File:
    """Creates T and runs statements that write to it; returns the file."""
    path = run.folder / "a.h5"
    run(
        *script(f"""
        with h5py.File("a.h5", "w") as file:
            T = file.create_dataset("T", {shape}, "f4", chunks={chunks}{create})
            {statements}
        """),
        config=how.pop("config", WRITE),
        **how,
    )
    return path


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("T[...] = FIELD", FIELD),
        ("T[2:6, 64:] = FIELD[:4, :64]", FIELD[:4, :64]),
        ("T[4] = FIELD[4]; T[5] = FIELD[5]; T[6:] = FIELD[6:]", None),
        ("T.id.write(h5py.h5s.ALL, h5py.h5s.ALL, FIELD)", FIELD),
        # Rows of a larger array in memory, told by a selection there.
        ("T.write_direct(np.concatenate([FIELD] * 2), np.s_[3:7], np.s_[:4])", FIELD[3:7]),
        ("T.write_direct(FIELD, np.s_[2:4], np.s_[2:4])", None),
    ],
)
def test_blocks_that_knarr_encodes(run, statements, expected):
    path = write(run, statements)
    found = is_knarrs(path)
    # One step alone is half a chunk.
    assert all(found) or ("T[4]" in statements and sorted(found) == [False, False, True, True])
    with h5py.File(path) as file:
        values = file["T"][...]
    if expected is None:
        written = values.any(axis=(1, 2))
        assert np.array_equal(values[written], FIELD[written]) and written.any()
    else:
        box = np.argwhere(values)
        box = tuple(slice(low, high + 1) for low, high in zip(box.min(0), box.max(0), strict=True))
        assert np.array_equal(values[box], expected)


def test_what_lies_behind_the_edge_is_filled(run):
    """And shows, once the dataset has grown."""
    create = ", maxshape=(None, None, None), fillvalue=-5"
    path = write(run, "T[...] = FIELD; T.resize((9, 130, 300))", chunks=(3, 50, 100), create=create)
    assert all(is_knarrs(path)) and len(is_knarrs(path)) == 27
    with h5py.File(path) as file:
        values = file["T"][...]
    assert np.array_equal(values[:8, :128, :256], FIELD)
    values[:8, :128, :256] = -5
    assert (values == -5).all()


@pytest.mark.parametrize(
    "statements",
    [
        "T[:, :100] = FIELD[:, :100]",
        "T[1:3] = FIELD[1:3]",
        "T[::2] = FIELD[::2]",
        "T[...] = FIELD.astype('f8')",
        "T[...] = FIELD.astype('>f4')",
        "T[:, :, [3, 5, 9]] = FIELD[:, :, [3, 5, 9]]",
        # Every second column of an array in memory.
        "T.write_direct(np.repeat(FIELD, 2, axis=2), np.s_[:, :, ::2])",
        "T[...] = FIELD + 1; T[...] = FIELD",
    ],
)
def test_other_writes_are_left_to_hdf5(run, statements):
    path = write(run, statements)
    found = is_knarrs(path)
    assert not any(found)
    with h5py.File(path) as file:
        values = file["T"][...]
    assert np.array_equal(values[values != 0], FIELD[values != 0])


def test_a_chunk_in_the_cache_gives_way_and_a_rewritten_one_stays_there(run):
    """Values that HDF5 holds in its cache are older, or newer, than what Knarr wrote."""
    path = write(
        run,
        """T[3] = 1  # half of chunks that stay in the cache
            T[5] = 1
            T[0:4] = FIELD[0:4]
            T[3, 7] = 3  # in the cache again
            T[4:] = FIELD[4:]  # of which HDF5 has the first ones
            assert np.array_equal(T[4:], FIELD[4:]) and (T[3, 7] == 3).all()
            file.flush()
            T[:2] = 6.5  # rewritten
            assert (T[:2] == 6.5).all()""",
    )
    expected = FIELD.copy()
    expected[3, 7] = 3
    expected[:2] = 6.5
    with h5py.File(path) as file:
        assert np.array_equal(file["T"][...], expected)
    assert is_knarrs(path) == [False, False, False, True] + 4 * [False]


@pytest.mark.parametrize("rows", [1, 3])
def test_chunks_that_do_not_get_smaller_can_be_read_and_changed_at_once(run, rows):
    """HDF5 remembers of the chunk that it was given last which filters the one before it had skipped."""
    noise = np.frombuffer(np.random.default_rng(1).bytes(rows << 18), "u4").reshape(rows, -1)
    np.save(run.folder / "noise.npy", noise)
    run(
        *script("""
        noise = np.load("noise.npy")
        with h5py.File("a.h5", "w") as file:
            T = file.create_dataset("T", noise.shape, "u4", chunks=(1, noise.shape[1]))
            T[...] = noise
            assert np.array_equal(T[-1], noise[-1])
            T[-1, :5] = 7
            U = file.create_dataset("U", noise.shape, "u4", chunks=(1, noise.shape[1]))
            U[...] = noise
            U[-1, :5] = 7
        """),
        config=WRITE,
    )
    noise = noise.copy()
    noise[-1, :5] = 7
    with h5py.File(run.folder / "a.h5") as file:
        for name in "TU":
            assert filters(run.folder / "a.h5", name) == [2, 1]
            assert np.array_equal(file[name][...], noise), name


def test_datasets_that_the_program_gave_filters_are_its_own(run):
    path = write(run, "T[...] = FIELD", create=", compression='gzip', compression_opts=1, shuffle=True")
    assert not any(is_knarrs(path))


def test_the_same_bytes_for_any_number_of_threads(run):
    statements = "T[...] = FIELD; U = file.create_dataset('U', data=np.tile(FIELD, (6, 1, 1)))"
    plugin.register()
    for config in (WRITE, OWN, BOUND, WRITE + 'variables."*".chain = "bitshuffle | zstd:3"\n'):
        files = []
        for jobs in (1, 2, 5):
            # What a run learnt would give the next one another chain.
            shutil.rmtree(run.scratch, ignore_errors=True)
            path = write(run, statements, config=config, options=("--jobs", str(jobs)))
            files.append(path.read_bytes())
        assert files[0] == files[1] == files[2], config
        with h5py.File(path) as file:
            error = np.abs(file["U"][...] - np.tile(FIELD, (6, 1, 1))).max()
            assert error <= 0.01 if config == BOUND else error == 0


@pytest.mark.parametrize(
    "chain", ["bitshuffle | lz4", "blosc:lz4,level=5,shuffle=byte", "blosc2:zstd,level=5", "shuffle | bzip2:9"]
)
def test_chains_of_plugins_read_right(run, chain):
    statements = "import hdf5plugin; U = file.create_dataset('U', data=FIELD)"
    path = write(run, statements, config=WRITE + f'variables."*".chain = "{chain}"\n', env=HDF5PLUGIN)
    assert filters(path, "U")
    with h5py.File(path) as file:
        assert np.array_equal(file["U"][...], FIELD)


def test_forks_and_signals(run):
    """Children write by themselves, and handlers run."""
    run(
        *script("""
        import signal
        seen = []
        signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        values = np.tile(FIELD, (4, 1, 1))
        with h5py.File("a.h5", "w") as file:
            for number in range(5):
                file.create_dataset(f"T{number}", data=values)
        child = os.fork()
        with h5py.File(f"b{child == 0}.h5", "w") as file:
            file.create_dataset("T", data=values)
        if child == 0:
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert os.waitpid(child, 0)[1] == 0 and len(seen) > 10
        """),
        config=WRITE,
    )
    for name in ("T0", "T4"):
        assert all(is_knarrs(run.folder / "a.h5", name))
    for name in ("bTrue.h5", "bFalse.h5"):
        with h5py.File(run.folder / name) as file:
            assert np.array_equal(file["T"][...], np.tile(FIELD, (4, 1, 1)))


WRITES = """
#define ROWS 250
static float values[ROWS][1000];
int main(void) {
    for (int i = 0; i < ROWS * 1000; i++) ((float *)values)[i] = (float)(i % 7000) * 0.25f;
    hsize_t dims[2] = {ROWS, 1000}, chunk[2] = {20, 500};
    hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE), transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_chunk(creation, 2, chunk);
    hid_t all = H5Dcreate2(file, "all", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (H5Dwrite(all, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, transfer, values) < 0) return 1;
    hid_t doubled = H5Dcreate2(file, "doubled", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Pset_data_transform(transfer, "2*x");
    if (H5Dwrite(doubled, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, transfer, values) < 0) return 2;
    /* The same part of an array in memory and in the file, then one that does not lie together in memory. */
    hid_t parts = H5Dcreate2(file, "parts", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    hsize_t start[2] = {100, 0}, count[2] = {40, 1000}, right[2] = {0, 500}, half[2] = {100, 500};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    if (H5Dwrite(parts, H5T_NATIVE_FLOAT, space, space, H5P_DEFAULT, values) < 0) return 3;
    H5Sselect_hyperslab(space, H5S_SELECT_SET, right, NULL, half, NULL);
    if (H5Dwrite(parts, H5T_NATIVE_FLOAT, H5S_ALL, space, H5P_DEFAULT, values) < 0) return 5;
    printf("%d ", H5Dwrite(parts, H5T_NATIVE_FLOAT, H5S_ALL, -1, H5P_DEFAULT, values) < 0);
    printf("%ld\\n", (long)H5Fget_obj_count(file, H5F_OBJ_ALL));
    H5Dclose(all); H5Dclose(doubled); H5Dclose(parts); H5Fclose(file);
    return 0;
}
"""


def test_programs_in_c(run):
    ran = run(c_program(run.folder, WRITES), config=WRITE, options=("--quiet",))
    assert ran.out == "1 4\n"
    expected = (np.arange(250_000) % 7000 * np.float32(0.25)).reshape(250, 1000)
    path = run.folder / "a.h5"
    with h5py.File(path) as file:
        assert np.array_equal(file["all"][...], expected)
        assert np.array_equal(file["doubled"][...], 2 * expected)
        assert np.array_equal(file["parts"][100:140], expected[100:140])
        assert np.array_equal(file["parts"][:100, 500:], expected[:100, 500:])
    assert all(is_knarrs(path, "all")) and not any(is_knarrs(path, "doubled"))
    assert is_knarrs(path, "parts") == [False] * 5 + [True] * 4


FILLS_THE_DISK = """
#include <signal.h>
#include <sys/resource.h>
static float values[1 << 20];
int main(void) {
    srand(1);
    for (int i = 0; i < 1 << 20; i++) values[i] = (float)rand();
    struct rlimit limit = {300000, 300000};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    hsize_t dims[1] = {1 << 20}, chunk[1] = {1 << 16};
    hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, dims, NULL), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(creation, 1, chunk);
    hid_t set = H5Dcreate2(file, "T", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    int done = H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    printf("%d %d\\n", done < 0, H5Eget_num(H5E_DEFAULT) > 0);
    fflush(stdout);
    _exit(0);
}
"""


def test_a_full_disk_is_the_error_that_it_is_without_knarr(run):
    program = c_program(run.folder, "#include <stdlib.h>\n#include <unistd.h>\n" + FILLS_THE_DISK)
    plain = subprocess.run([program], cwd=run.folder, capture_output=True, text=True, check=True)
    ran = run(program, config=WRITE)
    assert ran.out == plain.stdout == "1 1\n"
    assert "file write failed" in ran.err and "file write failed" in plain.stderr
