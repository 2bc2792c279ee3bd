"""`knarr run` with `when = "write"`: programs that ask how datasets are stored, and read and write chunks themselves.

As long as a file is open for writing, datasets look to the program as it made them; whatever it does with chunks, the
values read back as they would without Knarr.
"""

from __future__ import annotations

import shlex
import subprocess

import h5py
import numpy as np
import pytest

import plugin
from running import ALL, FIELD, c_program, script
from test_run_own import OWN
from test_run_write import WRITE, filters

RULES = {"write": WRITE, "own": OWN}


@pytest.fixture(params=RULES)
def rule(request):
    plugin.register()
    return RULES[request.param]


def values_of(path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: dataset[...] for name, dataset in file.items() if isinstance(dataset, h5py.Dataset)}


def same_as_plain(run, program: list, rule: str) -> None:
    """Runs the program plain and under Knarr: what it prints and the values in all its files are equal."""
    plain = subprocess.run(program, cwd=run.folder, capture_output=True, text=True, check=False)
    assert plain.returncode == 0, plain.stderr
    expected = {path.name: values_of(path) for path in run.folder.glob("*.h5")}
    for path in run.folder.glob("*.h5"):
        path.unlink()
    ran = run(*program, config=rule)
    assert ran.out == plain.stdout
    for name, datasets in expected.items():
        found = values_of(run.folder / name)
        assert found.keys() == datasets.keys()
        for dataset, values in datasets.items():
            assert np.array_equal(found[dataset], values), f"{name} {dataset}"


def test_lists_are_those_that_the_program_made(run, rule):
    same_as_plain(
        run,
        script("""
        def show(dataset):
            plist = dataset.id.get_create_plist()
            print(dataset.name, dataset.chunks, dataset.compression, dataset.shuffle, dataset.maxshape,
                  plist.get_nfilters(), plist.get_layout(), plist.get_alloc_time(), plist.get_fill_time(),
                  dataset.fillvalue)
        with h5py.File("a.h5", "w") as file:
            file.create_dataset("plain", data=FIELD)
            file.create_dataset("chunked", data=FIELD, chunks=(2, 64, 256), fillvalue=7)
            file.create_dataset("grows", data=FIELD, maxshape=(None, 128, 256))
            file.create_dataset("own", data=FIELD, chunks=(1, 128, 256), compression="gzip", shuffle=True)
            for dataset in file.values():
                show(dataset)
        with h5py.File("a.h5", "a") as file:
            for dataset in file.values():
                show(dataset)
        """),
        rule,
    )
    assert filters(run.folder / "a.h5", "plain") == filters(run.folder / "a.h5", "chunked") != []


def test_in_files_that_are_only_read_datasets_show_what_is_stored(run):
    ran = run(
        *script("""
        with h5py.File("a.h5", "w") as file:
            file.create_dataset("T", data=FIELD)
        with h5py.File("a.h5") as file:
            print(file["T"].compression, file["T"].shuffle, file["T"].chunks is not None)
        """),
        config=WRITE,
    )
    assert ran.out == "gzip True True\n"


def test_datasets_like_others(run, rule):
    """Also smaller ones, by whom they were made, and where another process goes on."""
    first = script("""
        with h5py.File("a.h5", "w") as file:
            a = file.create_dataset("a", data=FIELD)
            b = file.create_dataset_like("b", a)
            b[...] = FIELD
            small = file.create_dataset_like("small", a, shape=(3, 3))
            small[...] = 3
            file.copy("a", "c")
            file.create_dataset_like("d", file["c"], shape=FIELD.shape)[...] = FIELD + 1
            line = h5py.h5d.create(file.id, b"line", a.id.get_type(), h5py.h5s.create_simple((5000,)),
                                   a.id.get_create_plist())
            line.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(5000, dtype="f4"))
            print(b.compression, b.chunks, small.chunks)
        """)
    second = script("""
        with h5py.File("a.h5", "a") as file:
            file.create_dataset_like("e", file["a"])[...] = file["a"][...]
        """)
    same_as_plain(run, ["sh", "-c", f"{shlex.join(first)} && {shlex.join(second)}"], rule)


RAW = """
        a = file.create_dataset("a", shape=(12, 128, 256), dtype="f4", chunks=(4, 128, 256))
        put(a, FIELD[:4], FIELD[4:], FIELD[2:6])
        b = file.create_dataset_like("b", a)
        put(b, FIELD[:4], FIELD[4:], FIELD[2:6])
        file.flush()
        file.copy("a", "c")
        put(file["c"], FIELD[:4] + 1)
        with h5py.File("b.h5", "w") as other:
            file.copy("a", other, "d")
            put(other["d"], FIELD[:4] + 2)
        with h5py.File("other.bin", "w") as other:
            file.copy("a", other, "d")
            put(other["d"], FIELD[:4] + 3)
            assert np.array_equal(other["d"][:4], FIELD[:4] + 3)
        plist = a.id.get_create_plist()
        made = h5py.h5d.create(file.id, b"e", a.id.get_type(), a.id.get_space(), plist.copy())
        made.write_direct_chunk((4, 0, 0), FIELD[:4].tobytes())
        mask, values = a.id.read_direct_chunk((4, 0, 0))
        print(mask, len(values), bytes(values) == FIELD[4:].tobytes())
        made.write_direct_chunk((0, 0, 0), values, mask)
        info = [a.id.get_chunk_info(number) for number in range(3)]
        print([(chunk.chunk_offset, chunk.filter_mask, chunk.size) for chunk in info])
        chunk = a.id.get_chunk_info_by_coord((8, 0, 0))
        print(chunk.chunk_offset, chunk.filter_mask, chunk.size)
        a.id.chunk_iter(lambda chunk: print(chunk.chunk_offset, chunk.filter_mask, chunk.size) and None)
        how = {"chunks": (4, 128, 256), "maxshape": (5, 200, 256), "fillvalue": 9}
        edge = file.create_dataset("edge", (5, 100, 256), "f4", **how)
        edge[...] = 3
        file.flush()
        mask, values = edge.id.read_direct_chunk((4, 0, 0))
        print(mask, len(values), np.unique(np.frombuffer(values, "f4").reshape(4, 128, 256)[:1, :100]))
"""
PUT = """
def put(dataset, *chunks):
    for number, values in enumerate(chunks):
        dataset.id.write_direct_chunk((4 * number, 0, 0), np.ascontiguousarray(values, "f4").tobytes())
"""


def test_chunks_of_datasets_that_stem_from_others(run, rule):
    """However a dataset came by the filters: copies of all kinds, in files with and without a rule."""
    program = script(PUT + 'with h5py.File("a.h5", "w") as file:' + RAW)
    same_as_plain(run, program, rule.replace('"*"', '"*.h5"', 1))


def test_chunks_written_by_another_process_of_the_run_and_by_another_run(run, rule):
    first = script("""
        with h5py.File("a.h5", "w") as file:
            for name in "ab":
                file.create_dataset(name, data=FIELD, chunks=(4, 128, 256))
        """)
    second = script("""
        name = sys.argv[1]
        with h5py.File("a.h5", "a") as file:
            for step in (0, 4):
                file[name].id.write_direct_chunk((step, 0, 0), (FIELD[:4] + step).tobytes())
            assert np.array_equal(file[name][:4], FIELD[:4])
        """)
    run("sh", "-c", f"{shlex.join(first)} && {shlex.join([*second, 'a'])}", config=rule)
    run(*second, "b", config=rule)
    for name, values in values_of(run.folder / "a.h5").items():
        assert np.array_equal(values, np.concatenate([FIELD[:4], FIELD[:4] + 4])), name


def test_chunks_that_the_program_encoded_stay_as_they_are(run):
    """In datasets to which it gave filters itself, of any length, and with filters that it left out."""
    run(
        *script("""
        import zlib
        noise = np.random.default_rng(1).bytes(4096)
        with h5py.File("a.h5", "w") as file:
            T = file.create_dataset("T", FIELD.shape, "f4", chunks=(1, 128, 256), compression="gzip")
            for step in range(8):
                T.id.write_direct_chunk((step, 0, 0), zlib.compress(FIELD[step].tobytes()))
            # A stream that is exactly as long as the values.
            exact = file.create_dataset("exact", (1000,), "u1", chunks=(1000,), compression="gzip")
            for cut in range(200):
                values = bytes(150 - cut) + noise[: 850 + cut]
                stream = zlib.compress(values)
                if len(stream) == 1000:
                    break
            assert len(stream) == 1000
            exact.id.write_direct_chunk((0,), stream)
            assert exact[...].tobytes() == values
            left = file.create_dataset("left", (1000,), "u1", chunks=(1000,), compression="gzip")
            left.id.write_direct_chunk((0,), noise[:1000], 1)
        """),
        config=WRITE,
    )
    with h5py.File(run.folder / "a.h5") as file:
        assert np.array_equal(file["T"][...], FIELD)
        assert file["exact"].id.get_chunk_info(0).size == 1000
        # HDF5 reads it right once the file is opened again.
        assert file["left"][...].tobytes() == np.random.default_rng(1).bytes(4096)[:1000]
        assert file["left"].id.get_chunk_info(0).filter_mask == 1


def test_a_packed_file_that_is_opened_again(run):
    """What `close` gave it is not known to the program, which writes a chunk of values."""
    run(
        *script("""
        with h5py.File("a.h5", "w") as file:
            file.create_dataset("T", data=FIELD, chunks=(4, 128, 256))
        begin = time.time()
        while h5py.File("a.h5")["T"].compression is None and time.time() < begin + 60:
            time.sleep(0.1)
        with h5py.File("a.h5", "a") as file:
            assert file["T"].id.get_create_plist().get_nfilters() > 0
            file["T"].id.write_direct_chunk((4, 0, 0), FIELD[:4].tobytes())
        """),
        config=ALL,
    )
    with h5py.File(run.folder / "a.h5") as file:
        assert np.array_equal(file["T"][...], np.concatenate([FIELD[:4], FIELD[:4]]))


IN_C = """
#include <stdlib.h>
static float values[64][512];
static int visit(const hsize_t *offset, unsigned mask, haddr_t address, hsize_t size, void *data) {
    printf("%d %u %d\\n", (int)offset[0], mask, (int)size);
    return 0;
}
int main(void) {
    for (int i = 0; i < 64 * 512; i++) ((float *)values)[i] = (float)(i % 5000) * 0.25f;
    hsize_t dims[2] = {128, 512}, chunk[2] = {64, 512}, at[2] = {0, 0}, next[2] = {64, 0}, size;
    unsigned mask = 7;
    static char raw[64 * 512 * 4];
    hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, dims, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(list, 2, chunk);
    hid_t a = H5Dcreate2(file, "a", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    if (H5Dwrite_chunk(a, H5P_DEFAULT, 0, at, sizeof values, values) < 0) return 1;
    hid_t shown = H5Dget_create_plist(a), copy = H5Pcopy(shown);
    printf("%d %d %d\\n", H5Pget_nfilters(shown), H5Pget_layout(shown), H5Pequal(shown, copy));
    hid_t b = H5Dcreate2(file, "b", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, copy, H5P_DEFAULT);
    if (H5Dwrite_chunk(b, H5P_DEFAULT, 0, next, sizeof values, values) < 0) return 2;
    H5Fflush(file, H5F_SCOPE_LOCAL);
    if (H5Ocopy(file, "a", file, "c", H5P_DEFAULT, H5P_DEFAULT) < 0) return 3;
    hid_t c = H5Dopen2(file, "c", H5P_DEFAULT);
    if (H5Dwrite_chunk(c, H5P_DEFAULT, 0, next, sizeof values, values) < 0) return 4;
    if (H5Dget_chunk_storage_size(a, at, &size) < 0) return 5;
    printf("%d\\n", (int)size);
    if (H5Dread_chunk(a, H5P_DEFAULT, at, &mask, raw) < 0) return 6;
    printf("%u %g\\n", mask, ((float *)raw)[4999]);
    haddr_t address;
    hsize_t offset[2];
    if (H5Dget_chunk_info(a, space, 0, offset, &mask, &address, &size) < 0) return 7;
    printf("%d %u %d %d\\n", (int)offset[0], mask, (int)size, address != HADDR_UNDEF);
    if (H5Dget_chunk_info_by_coord(b, next, &mask, &address, &size) < 0) return 8;
    printf("%u %d\\n", mask, (int)size);
    H5E_BEGIN_TRY { printf("%d\\n", H5Dread_chunk(a, H5P_DEFAULT, next, &mask, raw) < 0); } H5E_END_TRY;
    H5Pclose(shown); H5Pclose(copy); H5Dclose(a); H5Dclose(b); H5Dclose(c);
    printf("%ld\\n", (long)H5Fget_obj_count(file, H5F_OBJ_ALL));
    return H5Fclose(file) < 0;
}
"""


def test_chunks_in_c(run, rule):
    same_as_plain(run, [c_program(run.folder, IN_C)], rule)
    assert filters(run.folder / "a.h5", "a") and filters(run.folder / "a.h5", "b")


COLUMNS = """
x = np.random.default_rng(0).normal(size={shape}).cumsum(0)
for step in range({steps}):
    with h5py.File(f"a{{step}}.h5", "w") as file:
        dataset = file.create_dataset("x", shape=x.shape, dtype="f8"{how})
        for column in range({columns}):
            dataset[..., column] = x[..., column]
"""


def columns(run, shape, steps: int, count: int, how: str = ""):
    ran = run(*script(COLUMNS.format(shape=shape, steps=steps, columns=count, how=how)), config=WRITE)
    x = np.random.default_rng(0).normal(size=shape).cumsum(0)
    for step in range(steps):
        with h5py.File(run.folder / f"a{step}.h5") as file:
            values = file["x"][...]
        assert np.array_equal(values[..., :count], x[..., :count]) and not values[..., count:].any()
    return ran


def test_a_matrix_is_written_by_columns(run):
    """Its chunks suit rows and columns; nothing is to be told."""
    ran = columns(run, (3000, 2000), 1, 20)
    with h5py.File(run.folder / "a0.h5") as file:
        rows, wide = file["x"].chunks
        assert 100 < rows < 3000 and 100 < wide < 2000
    assert "slowly" not in ran.file("a0.h5")["reason"]


def test_datasets_that_are_written_across_their_chunks(run):
    """Told with chunks that suit, which the next one gets; one with chunks of the program is left."""
    ran = columns(run, (200, 50, 400), 2, 6)
    told = ran.file("a0.h5")["reason"]
    assert "1 dataset slowly, in thin slices across the chunks" in told
    assert 'variables."x".chunks = "200x50x13"' in told
    with h5py.File(run.folder / "a1.h5") as file:
        assert file["x"].chunks == (200, 50, 13)
    assert "slowly" not in ran.file("a1.h5")["reason"]
    ran = columns(run, (200, 50, 400), 2, 6, ", chunks=(5, 50, 400)")
    assert "slowly" in ran.file("a0.h5")["reason"]
    assert "across its chunks" in ran.file("a1.h5")["reason"]
    assert filters(run.folder / "a1.h5", "x") == []
