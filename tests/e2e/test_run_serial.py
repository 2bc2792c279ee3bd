"""`knarr run`: what one process writes with HDF5 is handed over, or handed back to HDF5 at an unusual call.

Each program runs without Knarr, too. Files have equal contents, and the program sees the same.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdf5_compare import differences
from running import ALL, FIELD, c_program, forget, group_ends, script, spools

# What a program does with T, a dataset of FIELD's shape in chunks, and why its file is handed back, if it is.
PROGRAMS = {
    "whole": ("T[...] = FIELD", None),
    "part": ("T[2:6, 64:] = FIELD[:4, :64]", None),
    "pieces": ("T[4] = FIELD[4]; T[5] = FIELD[5]; T[6:] = FIELD[6:]", None),
    "no selection": ("T.id.write(h5py.h5s.ALL, h5py.h5s.ALL, FIELD)", None),
    "memory selection": ("T.write_direct(np.concatenate([FIELD] * 2), np.s_[3:7], np.s_[:4])", None),
    "strides": ("T[::2] = FIELD[::2]", None),
    "strides in memory": ("T.write_direct(np.repeat(FIELD, 2, axis=2), np.s_[:, :, ::2])", None),
    "another type": ("T[...] = FIELD.astype('>f8')", None),
    "columns": ("T[:, :, [3, 5, 9]] = FIELD[:, :, [3, 5, 9]]", None),
    "twice": ("T[...] = FIELD + 1; T[...] = FIELD; assert np.array_equal(T[...], FIELD)", None),
    "grown": ("T[...] = FIELD; T.resize((9, 130, 300)); T[8, 129] = 5; print(T[8:, 128:].sum())", None),
    "cut": ("T[...] = FIELD; T.resize((4, 64, 64)); T.resize((8, 128, 256)); print(T[...].sum())", None),
    "attributes": ("T[...] = FIELD; T.attrs['a'] = np.arange(5000.)[:4000]; file.attrs['b'] = 'text'", None),
    "links": ("T[...] = FIELD; file['g/t'] = T; file['s'] = h5py.SoftLink('/T'); del file['T']", None),
    "unwritten": ("file.create_dataset('never', (50, 50)); T[1] = FIELD[1]", None),
    "strings": ("T[0] = FIELD[0]; file['names'] = ['a', 'bcd', '']; print(file['names'][...])", None),
    "reference": ("T[...] = FIELD; file['r'] = T.ref; print(file[file['r'][()]].shape)", None),
    "compound": (
        "c = file.create_dataset('c', (4,), [('a', 'f4'), ('b', 'i8')]); c['b'] = range(4); c['a'] = 1; print(c[...])",
        None,
    ),
    "checksum": ("file.create_dataset('F', data=FIELD, chunks=(4, 64, 64), fletcher32=True, compression='gzip')", None),
    "opened again": ("T[...] = FIELD; print(h5py.File('a.h5', 'r+')['T'][3].sum())", None),
    "copied": ("T[:4] = FIELD[:4]; file.copy('T', 'U'); T[4:] = FIELD[4:]; file['U'][7] = 1", "H5Ocopy"),
    "copied to another": (
        "T[...] = FIELD; other = h5py.File('b.h5', 'w'); file.copy('T', other); other.close()",
        "H5Ocopy",
    ),
    "chunk written": ("T[...] = FIELD; T.id.write_direct_chunk((0, 0, 0), FIELD[:2, :64].tobytes())", "H5Dwrite_chunk"),
    "chunk read": ("T[...] = FIELD; print(len(T.id.read_direct_chunk((2, 64, 0))[1]))", "stored"),
    "storage": ("T[:4] = FIELD[:4]; print(T.id.get_storage_size(), T.id.get_num_chunks())", "how values are stored"),
    "size": ("T[...] = FIELD; file.flush(); print(file.id.get_filesize() > FIELD.nbytes)", "size of the file"),
    "looked at": ("T[...] = FIELD; file.flush(); print(os.path.getsize('a.h5') > FIELD.nbytes)", "uses the name"),
    "read": ("T[...] = FIELD; file.flush(); print(len(open('a.h5', 'rb').read()) > FIELD.nbytes)", "uses the name"),
    "renamed": ("T[...] = FIELD; os.rename('a.h5', 'c.h5'); T[0] = 2", "uses the name"),
    "virtual": (
        "T[...] = FIELD\n    layout = h5py.VirtualLayout((8,), 'f4'); layout[:] = h5py.VirtualSource(T)[:, 0, 0]\n"
        "    print(file.create_virtual_dataset('V', layout)[...].sum())",
        "virtual dataset",
    ),
    "external": (
        "T[...] = FIELD; file.create_dataset('E', data=FIELD[0], external=[('raw', 0, 999999)])",
        "in other files",
    ),
    "lossy filter": ("T[...] = FIELD; print(file.create_dataset('S', data=FIELD, scaleoffset=2)[...].sum())", "filter"),
    "variable length, filtered": (
        "T[...] = FIELD; import hdf5plugin\n"
        "    v = file.create_dataset('v', (9,), h5py.vlen_dtype('i4'), chunks=(5,), **hdf5plugin.BZip2())\n"
        "    v[3] = np.arange(4); print(v[3], file['v'][0])",
        "variable length with a filter",
    ),
    "variable length, deflate": (
        "v = file.create_dataset('v', (9,), h5py.vlen_dtype('i4'), chunks=(5,), compression='gzip')\n"
        "    v[3] = np.arange(4); print(v[3]); T[...] = FIELD",
        None,
    ),
    "readers": (
        "T[...] = FIELD; file.swmr_mode = True; print(h5py.File('a.h5', 'r', swmr=True)['T'][2].sum()); T[1] = 3",
        "SWMR",
    ),
    "transform": (
        "T[:2] = FIELD[:2]; x = h5py.h5p.create(h5py.h5p.DATASET_XFER); print(T[:2].sum())",
        None,
    ),
    "mounted by a link": (
        "other = h5py.File('b.h5', 'w'); other['x'] = FIELD[0]; file['l'] = h5py.ExternalLink('b.h5', 'x')\n"
        "    print(file['l'][...].sum()); other.close(); T[0] = FIELD[0]",
        None,
    ),
}


def program(statements: str) -> list[str]:
    return script(f"""
    file = h5py.File("a.h5", "w", libver="latest")
    T = file.create_dataset("T", {FIELD.shape}, "f4", chunks=(2, 64, 256), maxshape=(None, None, None))
    {statements}
    file.close()
    """)


def plain(run, command: list[str]) -> tuple[Path, str]:
    """The folder in which the program has written its files without Knarr, and what it said."""
    folder = run.top / "plain"
    folder.mkdir()
    (folder / "field.npy").symlink_to(run.folder / "field.npy")
    done = subprocess.run(command, cwd=folder, check=True, env=run.environment, capture_output=True, text=True)
    return folder, done.stdout


@pytest.mark.parametrize(("statements", "why"), PROGRAMS.values(), ids=PROGRAMS)
def test_files_have_the_values_that_the_program_writes(run, statements, why):
    command = program(statements)
    folder, said = plain(run, command)
    ran = run(*command)
    assert ran.out == said
    for path in sorted(folder.glob("*.h5")):
        assert differences(path, run.folder / path.name) == [], path.name
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        path.name for path in run.folder.iterdir() if not path.name.endswith(".knarr.json")
    )
    note = ran.file("a.h5" if (folder / "a.h5").exists() else "c.h5")["note"]
    assert note.startswith("handed over") if why is None else note.startswith("not handed over") and why in note


@pytest.mark.parametrize("killed", ["program", "all"])
def test_what_was_flushed_is_there_after_a_kill(run, knarr, killed):
    """Objects that were linked after their values were written, groups, attributes: as without Knarr."""

    def command(whom: str) -> list[str]:
        return script(f"""
        file = h5py.File("a.h5", "w")
        file["T"] = FIELD
        file.create_group("after").attrs["step"] = 4
        file.flush()
        os.kill(os.{whom}(), 9)
        os.kill(os.getpid(), 9)
        """)

    folder = run.top / "plain"
    folder.mkdir()
    (folder / "field.npy").symlink_to(run.folder / "field.npy")
    done = subprocess.run(command("getpid"), cwd=folder, check=False, env=run.environment)
    assert done.returncode == -9
    launcher = run.start(*command("getppid" if killed == "all" else "getpid"))
    launcher.communicate()
    left = spools()
    assert left or (run.folder / "a.h5").exists()
    for spool in left:
        knarr("run", "--recover", spool)
    assert differences(folder / "a.h5", run.folder / "a.h5") == []
    forget(run.top)


def test_a_file_that_is_removed_while_it_is_open_is_gone(run):
    command = program("T[...] = FIELD; os.remove('a.h5'); T[0] = 1")
    folder, _ = plain(run, command)
    run(*command)
    assert not (folder / "a.h5").exists() and not (run.folder / "a.h5").exists()
    assert not [path for path in run.folder.iterdir() if path.name.startswith(".")]


def test_a_directory_that_is_removed_while_a_file_in_it_is_open(run):
    command = script("""
    import shutil
    os.mkdir("d")
    file = h5py.File("d/a.h5", "w")
    file["T"] = FIELD
    shutil.rmtree("d")
    file["U"] = FIELD
    file.close()
    """)
    plain(run, command)
    assert run(*command).result["files"] == []
    assert not (run.folder / "d").exists()


def test_a_directory_that_is_renamed_while_a_file_in_it_is_open(run):
    """Also if the file is handed back then."""
    for last in ("", "print(file['T'].id.get_storage_size())"):
        command = script(f"""
        os.mkdir("d")
        file = h5py.File("d/a.h5", "w")
        file["T"] = FIELD
        os.rename("d", "e")
        file["U"] = FIELD + 1
        {last}
        file.close()
        """)
        run(*command)
        with h5py.File(run.folder / "e/a.h5") as file:
            assert np.array_equal(file["T"][...], FIELD) and np.array_equal(file["U"][...], FIELD + 1)
        shutil.rmtree(run.folder / "e")


def test_files_of_the_user_beside_a_file_that_is_handed_over_stay(run):
    """An external link leads to one of them while the file is open."""
    run(
        *script("""
        with h5py.File("other", "w") as file:
            file["x"] = np.arange(5.0)
        with h5py.File("a.h5", "w") as file:
            file["l"] = h5py.ExternalLink("other", "x")
            assert file["l"][...].sum() == 10
            file["T"] = FIELD
        """),
        config='[[file]]\npattern = "*.h5"\n',
    )
    with h5py.File(run.folder / "a.h5") as file:
        assert file["l"][...].sum() == 10


def test_a_disk_that_is_full_when_a_file_is_handed_back(run):
    """The call fails as it would without Knarr, and what was put before is delivered."""
    limit = FIELD.nbytes // 2
    command = script(f"""
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = h5py.File("a.h5", "w")
    T = file.create_dataset("T", data=np.random.default_rng(1).random((400, 1000)))
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, -1))
    try:
        T.id.get_offset()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    T[0] = 3
    file.close()
    """)
    run(*command)
    expected = np.random.default_rng(1).random((400, 1000))
    expected[0] = 3
    with h5py.File(run.folder / "a.h5") as file:
        assert np.array_equal(file["T"][...], expected)


def test_a_file_that_is_closed_when_the_launcher_is_gone_is_written_by_hdf5(run):
    """Nobody would make it. The program finds its file, and goes on as without Knarr."""
    command = script("""
    import signal
    file = h5py.File("a.h5", "w")
    T = file.create_dataset("T", data=FIELD)
    T[0] = 3
    launcher = os.getppid()
    os.kill(launcher, signal.SIGKILL)
    while os.getppid() == launcher:
        time.sleep(0.001)
    T[1] = 4
    file.close()
    with h5py.File("a.h5") as file:
        assert np.array_equal(file["T"][2:], FIELD[2:]) and (file["T"][:2] == [[[3]], [[4]]]).all()
    open("done", "w")
    """)
    process = run.start(*command, start_new_session=True)
    process.communicate()
    group_ends(process.pid)
    assert (run.folder / "done").exists()
    # Nothing is left to recover.
    recover = [run.program, "run", "--recover", "/dev/shm"]
    recovered = subprocess.run(recover, capture_output=True, text=True, cwd=run.top)
    assert recovered.returncode == 0 and "a.h5" not in recovered.stdout, recovered


def test_children_and_handlers_of_signals(run):
    """Children write files of their own, and handlers run."""
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
        assert os.waitpid(child, 0)[1] == 0 and len(seen) > 5
        """)
    )
    for name, variable in (("a.h5", "T0"), ("a.h5", "T4"), ("bTrue.h5", "T"), ("bFalse.h5", "T")):
        with h5py.File(run.folder / name) as file:
            assert np.array_equal(file[variable][...], np.tile(FIELD, (4, 1, 1)))


def test_a_packed_file_that_is_opened_again_to_write_chunks(run):
    """The program does not know of the filters that the file has now: what it writes are values."""
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
        """)
    )
    with h5py.File(run.folder / "a.h5") as file:
        assert np.array_equal(file["T"][...], np.concatenate([FIELD[:4], FIELD[:4]]))


IN_C = """
static float values[250][1000];
int main(void) {
    for (int i = 0; i < 250 * 1000; i++) ((float *)values)[i] = (float)(i % 7000) * 0.25f;
    hsize_t dims[2] = {250, 1000}, chunk[2] = {20, 500}, size = 0;
    hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE), transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_chunk(creation, 2, chunk);
    hid_t all = H5Dcreate2(file, "all", H5T_IEEE_F32BE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (H5Dwrite(all, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, transfer, values) < 0) return 1;
    hid_t nameless = H5Dcreate_anon(file, H5T_NATIVE_FLOAT, space, creation, H5P_DEFAULT);
    if (H5Dwrite(nameless, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 2;
    hsize_t start[2] = {100, 0}, count[2] = {40, 1000};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    hid_t part = H5Dcreate2(file, "part", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (H5Dwrite(part, H5T_NATIVE_FLOAT, space, space, H5P_DEFAULT, values) < 0) return 3;
    printf("%d ", H5Dwrite(part, H5T_NATIVE_FLOAT, H5S_ALL, -1, H5P_DEFAULT, values) < 0);
    /* The file is handed back here, with a dataset that has no name. */
    H5Pset_data_transform(transfer, "2*x");
    hid_t doubled = H5Dcreate2(file, "doubled", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (H5Dwrite(doubled, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, transfer, values) < 0) return 4;
    if (H5Olink(nameless, file, "late", H5P_DEFAULT, H5P_DEFAULT) < 0) return 5;
    H5Fget_filesize(file, &size);
    printf("%d %ld\\n", size > 3000000, (long)H5Fget_obj_count(file, H5F_OBJ_ALL));
    hid_t again = H5Fopen("a.h5", H5F_ACC_RDWR, H5P_DEFAULT);
    if (again < 0 || H5Fclose(again) < 0) return 6;
    H5E_BEGIN_TRY { printf("%d\\n", H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT) < 0); } H5E_END_TRY;
    H5Dclose(all); H5Dclose(nameless); H5Dclose(part); H5Dclose(doubled);
    return H5Fclose(file) < 0;
}
"""


def test_a_program_in_c(run):
    command = [str(c_program(run.folder, IN_C))]
    folder, said = plain(run, command)
    ran = run(*command)
    assert ran.out == said
    assert differences(folder / "a.h5", run.folder / "a.h5") == []
    assert "data transform" in ran.file("a.h5")["note"]


def test_formats_that_hdf5_does_not_write(run):
    """What h5py and netCDF write becomes Zarr."""
    zarr = pytest.importorskip("zarr")
    ran = run(
        *script("""
        with h5py.File("a.h5", "w") as file:
            file["T"] = FIELD
        with netCDF4.Dataset("b.nc", "w") as file:
            for name, length in zip("zyx", FIELD.shape):
                file.createDimension(name, length)
            file.createVariable("T", "f4", ("z", "y", "x"))[...] = FIELD
        """),
        config=ALL + 'output = "zarr"\n',
    )
    for name in ("a.h5.zarr", "b.zarr"):
        assert np.array_equal(zarr.open(run.folder / name)["T"][...], FIELD), ran.err


def test_bounds_hold(run):
    ran = run(
        *script("""
        with h5py.File("a.h5", "w") as file:
            file["T"] = FIELD
        """),
        config=ALL + "variables.T.max_abs_error = 0.01\n",
    )
    with h5py.File(run.folder / "a.h5") as file:
        assert 0 < np.abs(file["T"][...] - FIELD).max() <= 0.01, ran.err


def test_other_programs_of_the_run_read_what_only_knarrs_filter_reads(run):
    """Debian's HDF5, with a plugin path that leads nowhere."""
    statements = ["with h5py.File('a.h5', 'w') as file:", "    file.create_dataset('T', data=FIELD)"]
    command = script("\n".join([*statements, "sys.exit(os.system('h5dump -d T -s 0,0,0 a.h5'))"]))
    config = ALL + 'portable = "knarr"\nvariables.T.chain = "grid"\n'
    ran = run(*command, config=config, env={"HDF5_PLUGIN_PATH": "/nowhere"})
    assert f"{FIELD[0, 0, 0]:.3f}"[:-1] in ran.out


LATE = r"""
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* Creates a file, and closes an object of the KIND after it. */
static void make(const char *name, int kind) {
    hsize_t rows = 1000;
    static int numbers[1000];
    for (int n = 0; n < 1000; n++) numbers[n] = n;
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), last = -1;
    hid_t space = H5Screate_simple(1, &rows, NULL);
    hid_t data = H5Dcreate2(file, "T", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
    if (kind == 1) last = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (kind == 2) last = H5Acreate2(data, "note", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT);
    if (kind > 0) H5Dclose(data);
    H5Fclose(file);
    if (kind == 0) H5Dclose(data);
    if (kind == 1) H5Gclose(last);
    if (kind == 2) H5Aclose(last);
    H5Sclose(space);
}
int main(void) {
    const char *names[] = {"a0.h5", "a1.h5", "a2.h5"};
    struct stat found;
    for (int kind = 0; kind < 3; kind++) {
        make("gone.h5", kind);
        printf("%d ", remove("gone.h5"));
        make(names[kind], kind);
        printf("%d %d\n", stat(names[kind], &found), access("gone.h5", F_OK));
    }
    return 0;
}
"""


def test_a_file_whose_last_object_is_closed_after_it_is_there_under_its_name(run):
    """HDF5 closes it then, and not when the program does."""
    ran = run(c_program(run.top, LATE), config=ALL)
    assert ran.out.splitlines() == 3 * ["0 0 -1"], ran.err
    for number in range(3):
        with h5py.File(run.folder / f"a{number}.h5") as file:
            np.testing.assert_array_equal(file["T"][:], np.arange(1000))
    assert not (run.folder / "gone.h5").exists()


def test_names_that_are_not_utf_8(run, knarr):
    """Old files have names in Latin-1. They stay what they are."""
    program = r"""
with h5py.File("a.h5", "w") as file:
    group = file.create_group(b"caf\xe9")
    group.attrs["length"] = 3
    group[b"H\xf6he"] = FIELD
    file["T"] = FIELD
"""
    ran = run(*script(program), config=ALL)
    assert ran.file("a.h5")["outcome"] == "packed", ran.err
    knarr("repack", run.folder / "a.h5", "-o", run.folder / "b.h5", "--goal", "ratio")
    for name in ("a.h5", "b.h5"):
        with h5py.File(run.folder / name) as file:
            group = file[b"caf\xe9"]
            assert group.attrs["length"] == 3
            np.testing.assert_array_equal(group[b"H\xf6he"][...], FIELD)


POINTS = r"""
#include <string.h>
/* Elements of a dataset, one by one, in an order of their own. */
int main(void) {
    hsize_t rows[2] = {30, 26}, count = 20, points[20][2];
    int values[20], got[20];
    for (int n = 0; n < 20; n++) {
        points[n][0] = (n * 17) % 30;
        points[n][1] = (n * 11) % 26;
        values[n] = 100 + n;
    }
    hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, rows, NULL), memory = H5Screate_simple(1, &count, NULL);
    hid_t data = H5Dcreate2(file, "T", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Sselect_elements(space, H5S_SELECT_SET, 20, &points[0][0]);
    int code = H5Dwrite(data, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values);
    memset(got, 0, sizeof got);
    printf("%d %d ", code, H5Dread(data, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, got));
    printf("%d\n", memcmp(values, got, sizeof got));
    /* One is beyond the end of its row, which HDF5 1.10 takes for the first one of the next row. */
    points[3][0] = 1;
    points[3][1] = 26;
    H5Sselect_elements(space, H5S_SELECT_SET, 20, &points[0][0]);
    hid_t other = H5Dcreate2(file, "U", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    printf("%d\n", H5Dwrite(other, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
    H5Dclose(other);
    H5Dclose(data);
    return H5Fclose(file) < 0;
}
"""


def test_elements_that_a_program_names_one_by_one(run):
    """What Knarr does not understand, and HDF5 does, is written by HDF5."""
    command = [str(c_program(run.folder, POINTS))]
    folder, said = plain(run, command)
    ran = run(*command, config=ALL)
    assert ran.out == said == "0 0 0\n0\n", ran.err
    assert differences(folder / "a.h5", run.folder / "a.h5") == []
