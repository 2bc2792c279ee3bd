"""`knarr run`: programs that know nothing of Knarr write files that become smaller, and lose nothing.

The programs are Python scripts with the wheels of h5py, netCDF4 and h5netcdf, each with an HDF5 of its own,
programs of Debian's netCDF, and C programs built here against Debian's HDF5 (skipped without its headers).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from running import ALL, CLOSE, FIELD, H5PY, c_program, is_packed, script, until

CANNOT_BEGIN = 125


@pytest.fixture
def run(run):
    """Programs write plain files, which are packed when they are closed."""
    run.config = CLOSE
    return run


def test_h5py_writes_a_file_that_becomes_smaller(run):
    ran = run(*script(H5PY))
    path = run.folder / "a.h5"
    assert ran.file("a.h5")["outcome"] == "packed"
    assert path.stat().st_size < 0.8 * FIELD.nbytes
    assert is_packed(path)
    with h5py.File(path) as file:
        assert np.array_equal(file["T"][:], FIELD)
        assert file["T"].attrs["units"] == "K"
    assert "a.h5" in ran.err and ran.file("a.h5")["variables"][0]["chain"] in ran.err
    assert sorted(path.name for path in run.folder.iterdir()) == ["a.h5", "a.h5.knarr.json", "field.npy"]


def test_what_readers_need_is_said_if_hdf5_is_not_enough(run):
    text = H5PY.replace("a.h5", "a.nc") + H5PY.replace("a.h5", "b.nc")
    assert "a reader of" not in run(*script(text)).err
    ran = run(*script(text), config=CLOSE + 'portable = "standard"\nvariables.T.chain = "zstd:9"\n')
    (said,) = [line for line in ran.err.splitlines() if "a reader of" in line]
    assert "a.nc and of another file needs: " in said and "for zstd (32015)" in said, said


def test_names_that_are_not_utf8(run):
    """Old archives have names in Latin-1: to Knarr they are bytes like others."""
    name = os.fsdecode(b"m\xfcller.h5")
    text = "with h5py.File(os.fsencode(sys.argv[1]), 'w') as file:\n    file['T'] = FIELD\n"
    ran = run(*script(text), name)
    assert [file["outcome"] for file in ran.result["files"]] == ["packed"]
    assert is_packed(os.fsencode(run.folder / name))


def test_netcdf_and_h5netcdf_and_h5py_in_one_process(run):
    """Three wheels, two or three private copies of HDF5."""
    ran = run(
        *script("""
        with netCDF4.Dataset("b.nc", "w") as dataset:
            for name, length in zip("zyx", FIELD.shape):
                dataset.createDimension(name, length)
            dataset.createVariable("T", "f4", ("z", "y", "x"))[:] = FIELD
        with h5netcdf.File("c.nc", "w") as file:
            file.dimensions = dict(zip("zyx", FIELD.shape))
            file.create_variable("T", ("z", "y", "x"), data=FIELD)
        with h5py.File("a.h5", "w") as file:
            file["T"] = FIELD
        """)
    )
    for name in ("a.h5", "b.nc", "c.nc"):
        assert ran.file(name)["outcome"] == "packed", ran.err
        assert is_packed(run.folder / name)
        with h5py.File(run.folder / name) as file:
            assert np.array_equal(file["T"][:], FIELD)
    with netCDF4.Dataset(run.folder / "b.nc") as dataset:
        assert dataset["T"].dimensions == ("z", "y", "x")


def test_the_first_rule_that_matches_wins_and_the_rest_is_untouched(run):
    config = """
    [[file]]
    pattern = "restart_*"
    route = "file"
    [[file]]
    pattern = "*.h5"
    variables.T.max_abs_error = 0.01
    """
    program = """
    for name in ("restart_1.h5", "a.h5", "b.nc4"):
        with h5py.File(name, "w", track_order=False, libver="earliest") as file:
            file.create_dataset("T", data=FIELD, track_times=False)
    """
    plain = run.folder / "plain"
    plain.mkdir()
    (plain / "field.npy").symlink_to(run.folder / "field.npy")
    subprocess.run(script(program), cwd=plain, check=True)
    ran = run(*script(program), config=config)
    assert [Path(file["output"]).name for file in ran.result["files"]] == ["a.h5"]
    for name in ("restart_1.h5", "b.nc4"):
        assert (run.folder / name).read_bytes() == (plain / name).read_bytes()
    with h5py.File(run.folder / "a.h5") as file:
        error = np.abs(file["T"][:].astype("f8") - FIELD).max()
        assert 0 < error <= 0.01
        assert "knarr_quality" in file["T"].attrs


def test_nothing_matches(run):
    ran = run(*script(H5PY), config='[[file]]\npattern = "other*"\n')
    assert (ran.result["exit_code"], ran.result["hdf5_calls_seen"], ran.result["files"]) == (0, True, [])
    assert ran.result["failed"] == [] and not any(ran.result["totals"].values())
    assert not is_packed(run.folder / "a.h5")
    assert "no file" in ran.err


def test_no_hdf5_at_all(run):
    ran = run("echo", "hello")
    assert ran.out == "hello\n"
    assert "no file that a pattern of" in ran.err and "matches was seen" in ran.err
    assert ran.result["hdf5_calls_seen"] is False
    assert run("echo", "hello", options=("--quiet",)).err == ""


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
        (["./no-such-program"], 127),
        (["./field.npy"], 126),
    ],
)
def test_exit_codes_are_those_of_the_program(run, command, code):
    assert run(*command, ok=False).code == code


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ("[[file]\n", ("line 1",)),
        ('[[file]]\npattern = "*"\ngaol = "speed"\n', ("line 3", "gaol")),
        ('[[file]]\npattern = "*"\nwhen = "later"\n', ("line 3", "later", "close")),
        ('[[file]]\npattern = "*"\ngoal = "fastest"\n', ("fastest",)),
        ('[machine]\nprofile = "none.json"\n', ("none.json",)),
    ],
)
def test_a_broken_configuration_stops_before_the_program_starts(run, config, names):
    ran = run("touch", "started", config=config, ok=False)
    assert ran.code == CANNOT_BEGIN
    assert not (run.folder / "started").exists()
    for name in (*names, "the program was not started"):
        assert name in ran.err


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"])
def test_a_launcher_for_each_rank_packs_no_checkpoints(run, variable):
    config = '[[file]]\npattern = "restart_{step}_{rank}.h5"\nroute = "checkpoint"\nranks = 4\n'
    ran = run("true", ok=False, config=config, env={variable: "3"})
    assert ran.code == 125 and "one serves all ranks" in ran.err
    assert run("true", config=config, env={variable: "1"}).code == 0
    assert run("true", env={variable: "3"}).code == 0


def test_a_missing_configuration_stops_before_the_program_starts(knarr, tmp_path):
    done = knarr("run", "touch", tmp_path / "started", ok=False, cwd=tmp_path)
    assert done.returncode == CANNOT_BEGIN
    assert "knarr.toml" in done.stderr and not (tmp_path / "started").exists()


def test_a_crash_leaves_what_is_open_and_packs_what_was_closed(run):
    ran = run(
        *script(
            H5PY
            + """
file = h5py.File("b.h5", "w")
file["T"] = FIELD
file.flush()
os.kill(os.getpid(), 9)
"""
        ),
        ok=False,
    )
    assert ran.code == 128 + signal.SIGKILL
    assert is_packed(run.folder / "a.h5")
    path = run.folder / "b.h5"
    assert ran.file("b.h5") == {
        "input": str(path),
        "output": str(path),
        "input_bytes": path.stat().st_size,
        "output_bytes": path.stat().st_size,
        "outcome": "left",
        "reason": "its process ended while the file was open",
    }
    assert not is_packed(run.folder / "b.h5")


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise RuntimeError"])
def test_files_that_hdf5_closes_at_exit_are_packed(run, end):
    ran = run(*script(f"file = h5py.File('a.h5', 'w')\nfile['T'] = FIELD\n{end}"), ok=False)
    assert ran.code == {"": 0, "sys.exit(3)": 3}.get(end, 1)
    assert ran.file("a.h5")["outcome"] == "packed"


def test_a_file_that_stays_open_through_its_datasets(run):
    """HDF5 closes the file when the last object in it is closed, long after H5Fclose."""
    ran = run(
        *script("""
        file = h5py.h5f.create(b"a.h5", fapl=h5py.h5p.create(h5py.h5p.FILE_ACCESS))
        space = h5py.h5s.create_simple(FIELD.shape)
        dataset = h5py.h5d.create(file, b"T", h5py.h5t.NATIVE_FLOAT, space)
        file.close()
        time.sleep(0.5)
        print(os.path.getsize("a.h5"), flush=True)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, FIELD)
        del dataset
        deadline = time.time() + 250
        while h5py.File("a.h5")["T"].chunks is None and time.time() < deadline:
            time.sleep(0.1)
        print(h5py.File("a.h5")["T"].chunks, flush=True)
        """)
    )
    assert ran.file("a.h5")["outcome"] == "packed"
    assert "None" not in ran.out, "packed while the program still runs"
    with h5py.File(run.folder / "a.h5") as file:
        assert np.array_equal(file["T"][:], FIELD)


def test_limits_that_no_chain_meets_are_told(run):
    done = run(
        *script("""
        for name in ("a.h5", "b.h5"):
            with h5py.File(name, "w") as file:
                file["T"] = np.tile(FIELD, (16, 1, 1))
        """),
        config=CLOSE + 'goal = "ratio>=1000000"\n',
    )
    assert done.err.count("no chain meets ratio>=1000000 for 'T': the nearest was taken") == 1


FORKS = """
import multiprocessing

def write(name):
    with h5py.File(name, "w") as file:
        file["T"] = FIELD

if __name__ == "__main__":
    with h5py.File("parent.h5", "w") as parent:
        parent["T"] = FIELD
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        time.sleep(0.3)
        parent["U"] = FIELD
    if os.fork() == 0:
        write("child.h5")
        os._exit(0)
    assert os.wait()[1] == 0
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=write, args=(method + ".h5",))
        process.start()
        process.join()
        assert process.exitcode == 0
    if os.fork() == 0:
        os.execvp("true", ["true"])
    os.wait()
"""


def test_forks_and_new_processes(run):
    (run.folder / "program.py").write_text("import os, time, numpy as np, h5py\nFIELD = np.load('field.npy')\n" + FORKS)
    ran = run(sys.executable, "program.py")
    for name in ("parent.h5", "child.h5", "fork.h5", "spawn.h5"):
        assert ran.file(name)["outcome"] == "packed", ran.err
    with h5py.File(run.folder / "parent.h5") as file:
        assert np.array_equal(file["T"][:], FIELD) and np.array_equal(file["U"][:], FIELD)


def test_exec_with_an_open_file_leaves_it(run):
    program = "file = h5py.File('a.h5', 'w')\nfile['T'] = FIELD\nfile.flush()\nos.execvp('sleep', ['sleep', '0.5'])"
    ran = run(*script(program))
    assert ran.file("a.h5")["outcome"] == "left"


def test_threads(run):
    run(
        *script("""
        import threading
        def write(number):
            for step in range(4):
                with h5py.File(f"{number}_{step}.h5", "w") as file:
                    file["T"] = FIELD + number
        threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        """)
    )
    for path in run.folder.glob("*.h5"):
        assert is_packed(path)
        with h5py.File(path) as file:
            assert np.array_equal(file["T"][:], FIELD + np.float32(path.name[0]))
    assert len(list(run.folder.glob("*.h5"))) == 24


def test_errors_of_the_program_are_its_own(run):
    """What it prints and raises is what it would without Knarr."""
    program = script("""
        for name, mode in (("no/such/folder/a.h5", "w"), ("none.h5", "r+"), ("field.npy", "r+")):
            try:
                h5py.File(name, mode)
            except Exception as error:
                print(type(error).__name__, error)
        with h5py.File("a.h5", "w") as file:
            file["T"] = FIELD
            try:
                file["T"] = FIELD
            except Exception as error:
                print(type(error).__name__, error)
        """)
    plain = subprocess.run(program, cwd=run.folder, capture_output=True, text=True, check=True)
    ran = run(*program, options=("--quiet",))
    assert (ran.out, ran.err) == (plain.stdout, plain.stderr)


def test_the_launcher_of_an_idle_program_is_idle(run):
    """Nothing wakes it but a look each second at what nobody has told of."""
    program = """
file = h5py.File("a.h5", "w")
file["x"] = np.arange(100_000)
file.flush()
open("put", "w")
while not os.path.exists("seen"):
    time.sleep(0.1)
file.close()
"""
    process = run.start(*script(program))

    def wakeups() -> int:
        found = 0
        for status in Path(f"/proc/{process.pid}/task").glob("*/status"):
            found += int(status.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
        return found

    until(lambda: (run.folder / "put").exists(), "nothing is put", of=process)
    # What was put is encoded ahead first.
    until(lambda: -wakeups() + (time.sleep(3) or wakeups()) < 30, "it is not idle", of=process)
    (run.folder / "seen").touch()
    assert run.finish(process).code == 0


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_program(run, stop):
    process = run.start(
        *script(
            H5PY
            + f"""
import signal
signal.signal({int(stop)}, lambda *_: (print("heard", flush=True), sys.exit(5)))
print("ready", flush=True)
time.sleep(60)
"""
        )
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(stop)
    ran = run.finish(process)
    assert ran.code == 5 and "heard" in ran.out
    assert is_packed(run.folder / "a.h5")


def test_ignored_signals_stay_ignored(run):
    """As under nohup."""
    ignored = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    ran = run("sh", "-c", "grep SigIgn /proc/self/status", preexec_fn=ignored)
    assert int(ran.out.split()[1], 16) & 1 << (signal.SIGHUP - 1)


def test_an_interrupt_after_the_program_leaves_the_files_as_they_are(run):
    process = run.start(
        *script("""
        with open("pid", "w") as file:
            file.write(str(os.getpid()))
        with h5py.File("a.h5", "w") as file:
            file["T"] = np.tile(FIELD, (32, 1, 1))
        """),
        config=CLOSE + 'variables.T.chain = "shuffle | zstd:22"\nportable = "standard"\n',
    )
    until(lambda: list(run.scratch.glob(".*")), "packing has not begun", of=process)
    program = Path("/proc", (run.folder / "pid").read_text())
    until(lambda: not program.exists(), "the program goes on", of=process)
    # The launcher knows it.
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    ran = run.finish(process)
    assert ran.code == 128 + signal.SIGTERM
    with h5py.File(run.folder / "a.h5") as file:
        assert file["T"].chunks is None and file["T"].shape == (256, 128, 256)


def test_a_full_disk_leaves_the_original(run):
    """A limit on the size of files stands for the full disk; it holds for Knarr and not for the program."""
    import resource

    noise = "np.random.default_rng(1).integers(0, 2**31, (64, 65536), 'i4')"
    limit = lambda: (  # noqa: E731
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY)),
    )
    ran = run(
        *script(f"""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        with h5py.File("a.h5", "w") as file:
            file["T"] = {noise} // 16
        """),
        preexec_fn=limit,
        restore_signals=False,
    )
    assert ran.file("a.h5")["outcome"] == "failed", ran.err
    assert "as the program wrote it" in ran.err
    with h5py.File(run.folder / "a.h5") as file:
        assert file["T"].chunks is None
        assert np.array_equal(file["T"][:], np.random.default_rng(1).integers(0, 2**31, (64, 65536), "i4") // 16)


def test_a_rounded_file_is_not_rounded_again(run):
    """Two errors could add up to more than the bound."""
    config = ALL + 'variables."*".max_abs_error = 0.5\n'
    run(*script(H5PY), config=config)
    with h5py.File(run.folder / "a.h5") as file:
        first = file["T"][:]
    run(*script("with h5py.File('a.h5', 'r+') as file: file['U'] = FIELD + 0.3"), config=config)
    with h5py.File(run.folder / "a.h5") as file:
        assert np.array_equal(file["T"][:], first) and np.abs(first - FIELD).max() <= 0.5
        assert 0 < np.abs(file["U"][:].astype("f8") - (FIELD + np.float32(0.3))).max() <= 0.5


def test_preload_of_the_user_is_kept(run):
    own = subprocess.run(["cc", "-print-file-name=libm.so.6"], capture_output=True, text=True).stdout.strip()
    ran = run("sh", "-c", 'echo "$LD_PRELOAD"', env={"LD_PRELOAD": own})
    first, second = ran.out.strip().split(":")
    assert first.endswith("libknarr_preload.so") and second == own


def test_programs_of_netcdf(run):
    """ncgen writes through libnetcdf, nccopy reads and writes. Classic files are packed, too."""
    (run.folder / "a.cdl").write_text(
        'netcdf a { dimensions: x = 20000; variables: float T(x); T:units = "K"; data: T = '
        + ", ".join(str(value) for value in FIELD.ravel()[:20000])
        + "; }"
    )
    ran = run("sh", "-c", "ncgen -4 -o a.nc a.cdl && nccopy -d0 a.nc b.nc && ncgen -3 -o classic.nc a.cdl")
    names = ("a.nc", "b.nc", "classic.nc")
    assert len(ran.result["files"]) == 3 and all(ran.file(name)["outcome"] == "packed" for name in names)
    for name in names:
        assert is_packed(run.folder / name)
        with netCDF4.Dataset(run.folder / name) as dataset:
            assert np.array_equal(dataset["T"][:], FIELD.ravel()[:20000])


def test_a_c_program_with_the_hdf5_of_the_system(run):
    """The file is read back by the same program, whose HDF5 has no filter but deflate and shuffle."""
    program = c_program(
        run.folder,
        """
#include <time.h>
static float values[64][4096], back[64][4096];
int main(void) {
    for (int i = 0; i < 64 * 4096; i++) ((float *)values)[i] = (float)(i % 5000) * 0.25f;
    hsize_t dims[2] = {64, 4096};
    for (int n = 0; n < 2; n++) {
        hid_t file = H5Fcreate(n ? "b.h5" : "a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        hid_t space = H5Screate_simple(2, dims, NULL);
        hid_t set = H5Dcreate2(file, "T", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        if (H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 1;
        H5Dclose(set); H5Sclose(space); H5Fclose(file);
    }
    for (time_t begin = time(NULL); time(NULL) < begin + 60;) {
        hid_t file = H5Fopen("a.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
        hid_t set = H5Dopen2(file, "T", H5P_DEFAULT);
        hid_t list = H5Dget_create_plist(set);
        int filters = H5Pget_nfilters(list);
        if (H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, back) < 0) return 2;
        for (int i = 0; i < 64 * 4096; i++) if (((float *)values)[i] != ((float *)back)[i]) return 3;
        H5Pclose(list); H5Dclose(set); H5Fclose(file);
        if (filters > 0) { printf("packed\\n"); return 0; }
    }
    return 4;
}
""",
    )
    ran = run(program, env={"HDF5_PLUGIN_PATH": "/nowhere"})
    assert ran.out == "packed\n"
    assert ran.file("b.h5")["outcome"] == "packed"


def test_a_c_program_that_closes_nothing(run):
    """HDF5 does so when the program ends, and says nothing of it."""
    program = c_program(
        run.folder,
        """
static float values[64][4096];
int main(void) {
    for (int i = 0; i < 64 * 4096; i++) ((float *)values)[i] = (float)(i % 5000) * 0.25f;
    hsize_t dims[2] = {64, 4096};
    hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t set = H5Dcreate2(file, "T", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    return H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0;
}
""",
    )
    ran = run(program, config=CLOSE)
    assert ran.file("a.h5")["outcome"] == "packed", ran.err
    with h5py.File(run.folder / "a.h5") as file:
        assert (file["T"][...].ravel() == np.arange(64 * 4096) % 5000 * 0.25).all()


def test_errors_that_hdf5_prints_are_the_programs(run):
    """The automatic message of HDF5 appears where the program lets it, and only for its own mistakes."""
    program = c_program(
        run.folder,
        """
int main(void) {
    hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hsize_t dims[1] = {100000};
    hid_t space = H5Screate_simple(1, dims, NULL);
    hid_t set = H5Dcreate2(file, "T", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t twice = H5Dcreate2(file, "T", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    printf("%d %d %ld\\n", set >= 0, twice >= 0, (long)H5Eget_num(H5E_DEFAULT));
    H5Dclose(set); H5Sclose(space); H5Fclose(file);
    printf("%ld\\n", (long)H5Eget_num(H5E_DEFAULT));
    printf("%d %ld\\n", H5Fclose(file) < 0, (long)H5Eget_num(H5E_DEFAULT));
    return 0;
}
""",
    )
    plain = subprocess.run([program], cwd=run.folder, capture_output=True, text=True, check=True)
    ran = run(program, options=("--quiet",))
    assert ran.out == plain.stdout
    # Only numbers of threads and processes may differ.
    assert ran.err.splitlines()[1:] == plain.stderr.splitlines()[1:]


def test_values_in_external_files_stay_there(run):
    program = """
    with h5py.File("a.h5", "w") as file:
        file["T"] = np.tile(FIELD, (4, 1, 1))
        raw = [("raw.bin", 16, FIELD.nbytes)]
        file.create_dataset("U", shape=FIELD.shape, dtype=FIELD.dtype, external=raw)[...] = FIELD
    """
    ran = run(*script(program))
    assert ran.file("a.h5")["outcome"] == "packed" and is_packed(run.folder / "a.h5")
    raw = run.folder / "raw.bin"
    assert raw.read_bytes()[16:] == FIELD.tobytes()
    with h5py.File(run.folder / "a.h5") as file:
        assert file["U"].external == [("raw.bin", 16, FIELD.nbytes)]


def test_the_result_has_what_that_of_repack_has(knarr, run, tmp_path):
    program = H5PY + "\nwith h5py.File('b.txt', 'w') as file:\n    file['x'] = 1.0\n"
    config = "[site]\nwatts_per_pb = 3000.0\n" + ALL
    ran = run(*script(program), config=config)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["T"] = FIELD
    (tmp_path / "site.toml").write_text(config)
    repacked = knarr.json("repack", tmp_path / "in.h5", "-o", tmp_path / "out.h5", "-c", tmp_path / "site.toml")
    assert set(repacked) <= set(ran.result) and set(repacked["totals"]) <= set(ran.result["totals"])
    assert set(repacked["files"][0]) <= set(ran.file("a.h5"))
    for key in ("input", "output", "input_bytes", "output_bytes", "outcome"):
        assert all(key in file for file in ran.result["files"]), key
    assert ran.result["version"] == repacked["version"] and ran.result["verified"] is True
    assert ran.result["saved_per_year"]["kwh"] > 0
    totals = ran.result["totals"]
    assert totals["files"] == len(ran.result["files"]) and totals["failed"] == 0 == len(ran.result["failed"])
