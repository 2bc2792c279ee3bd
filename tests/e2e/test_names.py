"""Names of files that a program has closed and that are not there yet: who uses one sees what it sees without Knarr."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import test_parallel_hdf5
import test_pnetcdf
from running import ALL, MPIRUN, Ran, Runner, forget, until

HERE = Path(__file__).with_name("names_programs")
RANKS = 2
COUNT = 1_000_000
"""Values of each rank. A file of so many takes a while to be made."""

Programs = dict[str, Path]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The program that writes a file and uses its name, with each library."""
    folder, source = tmp_path_factory.mktemp("names"), HERE / "pending.c"
    hdf5 = folder / "with_hdf5.c"
    hdf5.write_text(f'#define WITH_HDF5\n#include "{source}"\n')
    return {
        "pnetcdf": test_pnetcdf.built(folder, "pending", source),
        "hdf5": test_parallel_hdf5.built(folder, "hdf5", hdf5),
    }


def ours(path: Path) -> bool:
    return path.name.endswith(".knarr.json")


def same(knarr, plain: Path, found: Path) -> None:
    """The same files, with the same content."""
    names = [sorted(str(path.relative_to(top)) for path in top.rglob("*") if not ours(path)) for top in (plain, found)]
    assert names[0] == names[1]
    for path in map(plain.joinpath, names[0]):
        other = found / path.relative_to(plain)
        if path.is_file() and path.read_bytes() != other.read_bytes():
            knarr("verify", path, other)


def both(run: Runner, knarr, tmp_path: Path, command: Sequence[object], config: str = ALL, **how: object) -> Ran:
    """Runs a command plain and under Knarr. Both say the same, and leave the same."""
    plain = tmp_path / "plain"
    shutil.copytree(run.folder, plain, symlinks=True)
    environment = run.environment | how.get("env", {})
    expected = subprocess.run(
        list(map(str, command)), cwd=plain, env=environment, capture_output=True, text=True, check=False
    )
    ran = run(*command, config=config, ok=False, **how)
    assert (ran.code, ran.out) == (expected.returncode, expected.stdout), (ran.err, expected.stderr)
    same(knarr, plain, run.folder)
    return ran


def pending(program: Path, *steps: str, name: str = "hist.nc", count: int = COUNT) -> list[object]:
    return [*MPIRUN, RANKS, program, name, count, *steps]


LIBRARIES = ["pnetcdf", "hdf5"]
# What each does to a name that is pending, and what comes after it.
STEPS = [
    ("unlink", "access"),
    ("remove", "stat"),
    ("rename", "access"),
    ("onto", "stat"),
    ("link",),
    ("stat",),
    ("open", "stat"),
    ("exclusive",),
    ("mkdir",),
    ("truncate",),
    ("chmod",),
    ("write",),
    ("append",),
    ("delete", "access"),
    ("unlink", "write", "+", "unlink", "exclusive"),
    ("write", "+", "stat", "+", "rename", "+"),
]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("steps", STEPS, ids="-".join)
@pytest.mark.parametrize("older", [False, True], ids=["", "older"])
def test_a_call_sees_what_it_sees_without_knarr(run, knarr, programs, tmp_path, library, steps, older):
    begin = ("+",) if older else ()
    # What was written first is there, or under way, when the file is written again.
    both(run, knarr, tmp_path, pending(programs[library], *begin, *steps))


def test_pnetcdf_removes_a_file_that_it_has_closed(run, knarr, programs, tmp_path):
    both(run, knarr, tmp_path, pending(programs["pnetcdf"], "ncmpi_delete", "access"))


WRITE = """{} -c "import netCDF4; netCDF4.Dataset('hist.nc', 'w', format='{}').createVariable('new', 'i4')[:] = 7" """
ANEW = {
    "netcdf4": WRITE.format(sys.executable, "NETCDF4"),
    "classic": WRITE.format(sys.executable, "NETCDF3_CLASSIC"),
    "shell": "echo text > hist.nc",
    "copy": "cp field.npy hist.nc",
    "serial": "serial",
}


@pytest.mark.parametrize(
    ("library", "how"),
    # Only the program that has HDF5 writes a file with it.
    [(library, how) for library in LIBRARIES for how in ANEW if (library, how) != ("pnetcdf", "serial")],
)
def test_a_file_that_is_written_anew_is_not_replaced_by_the_older_one(run, knarr, programs, tmp_path, library, how):
    both(run, knarr, tmp_path, pending(programs[library], ANEW[how].strip()))
    assert not list(run.folder.glob("*.kept-by-knarr*"))


# Each of them uses the name of a pending file in its own way.
TOOLS = {
    "sh": "[ -e hist.nc ] && [[ -s hist.nc ]] && mv hist.nc a.nc && cp -p a.nc b.nc; echo *.nc",
    "ls": "ls; ls -1 | sort; rm hist.nc; ls",
    "ln": "ln hist.nc hard.nc && ln -s hist.nc soft.nc && test -s soft.nc && echo linked",
    "tar": "tar cf all.tar hist.nc && tar tf all.tar && rm hist.nc && tar xf all.tar && rm all.tar",
    "find": "find . -name '*.nc' | sort; find . -name hist.nc -delete; find . -name '*.nc'",
    "dd": "dd if=hist.nc of=head bs=3 count=1 status=none; wc -c < head; rm head",
    "touch": "touch -c hist.nc; chmod 600 hist.nc; stat -c %a hist.nc",
    "make": "printf 'made: hist.nc\\n\\t@echo made\\n\\t@cp hist.nc made\\n' > Makefile; make -s; rm Makefile made",
    "rm": "mkdir sub; rm -r hist.nc sub; ls",
    "ncdump": "ncdump hist.nc | tail -3",
    "ncks": "ncks -O -v T hist.nc out.nc && ncdump out.nc | tail -2; rm out.nc",
    "cdo": "cdo -s infon hist.nc > /dev/null; echo $?",
    "split": "split -b 1M --numeric-suffixes hist.nc; wc -c < x00; rm x*",
    "append": "echo more >> hist.nc; tail -c 5 hist.nc; truncate -s 0 hist.nc",
    "noclobber": "bash -c 'set -C; echo x > hist.nc; echo $?' 2> /dev/null",
    "perl": 'perl -e \'print -s "hist.nc" ? 1 : 0; rename "hist.nc", "p.nc"; print -e "hist.nc" ? 1 : 0\'',
    "git": "git init -q . 2>/dev/null; git add hist.nc; git ls-files; rm -rf .git",
    "python": f"""{sys.executable} -c "
import glob, os, pathlib, shutil
print(glob.glob('*.nc'), os.path.exists('hist.nc'), sorted(os.listdir('.'))[-1], pathlib.Path('hist.nc').is_file())
print(len(open('hist.nc', 'rb').read(3)))
shutil.copy('hist.nc', 'b.nc'); os.replace('b.nc', 'c.nc'); os.remove('hist.nc'); print(os.path.exists('hist.nc'))
" """,
    "netCDF4": f"""{sys.executable} -c "import netCDF4; print(int(netCDF4.Dataset('hist.nc')['T'][:].sum()))" """,
    "h5py": f"""{sys.executable} -c "import h5py; print(h5py.is_hdf5('hist.nc') in (True, False))" """,
}


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_see_what_they_see_without_knarr(run, knarr, programs, tmp_path, tool):
    if shutil.which(tool if tool in ("ncks", "cdo", "git", "perl") else "sh") is None:
        pytest.skip(f"needs {tool}: run 'make setup' as root")
    script = tmp_path / "step.sh"
    script.write_text(TOOLS[tool].strip())
    both(run, knarr, tmp_path, pending(programs["pnetcdf"], f"bash {script}"))


@pytest.mark.parametrize("tool", ["sh", "python", "tar"])
def test_a_job_script_that_goes_on_when_the_program_has_ended(run, knarr, programs, tmp_path, tool):
    script = tmp_path / "job.sh"
    program = " ".join(map(str, pending(programs["pnetcdf"])))
    script.write_text(f"{program}\n{TOOLS[tool].strip()}\n")
    both(run, knarr, tmp_path, ["bash", script])


def test_files_that_are_renamed_are_all_told(run, programs):
    """Each under the name that it has in the end, with its plan beside it."""
    script = 'for i in 1 2 3; do "$@" && mv hist.nc old_$i.nc || exit 1; done'
    ran = run("sh", "-c", script, "sh", *pending(programs["pnetcdf"], count=100_000))
    names = ["old_1.nc", "old_2.nc", "old_3.nc"]
    assert [Path(file["output"]).name for file in ran.result["files"]] == names, ran.result
    sizes = [(run.folder / name).stat().st_size for name in names]
    assert ran.result["totals"]["files"] == 3 and ran.result["totals"]["output_bytes"] == sum(sizes)
    assert all((run.folder / f"{name}.knarr.json").exists() for name in names)


def test_names_that_files_take_in_turn_are_told(run, programs):
    """The newest has the first name, older ones move on, and the oldest one goes."""
    script = (
        'for i in 1 2 3 4; do mv -f b.nc c.nc; mv -f a.nc b.nc; "$@" && mv hist.nc a.nc || exit 1; done 2>/dev/null\n'
        "mv a.nc d.nc; mv b.nc a.nc; mv d.nc b.nc"
    )
    ran = run("sh", "-c", script, "sh", *pending(programs["pnetcdf"], count=100_000))
    told = {Path(file["output"]).name: file["output_bytes"] for file in ran.result["files"]}
    assert told == {name: (run.folder / name).stat().st_size for name in ("a.nc", "b.nc", "c.nc")}


@pytest.mark.parametrize("source", ["fortified.c", "child.c", "handler.c", "sandbox.c", "fortran.f90"])
def test_programs_of_other_kinds(run, knarr, programs, tmp_path, source):
    """With fortified calls; that open files in children, in signal handlers, where no sockets may be; Fortran's."""
    options = ["-O2", "-D_FORTIFY_SOURCE=2"] if source.endswith(".c") else ["-O1"]
    compiler = "cc" if source.endswith(".c") else "gfortran"
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}: run 'make setup' as root")
    subprocess.run([compiler, *options, "-w", HERE / source, "-o", tmp_path / "other"], check=True)
    step = (
        f"ln hist.nc second.nc; {tmp_path / 'other'} hist.nc 0"
        if source == "fortified.c"
        else (f"{tmp_path / 'other'} hist.nc hist.nc")
    )
    both(run, knarr, tmp_path, pending(programs["pnetcdf"], step))


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize(
    "use",
    [
        "wc -c < latest.nc > /dev/null && echo read",
        "test -s latest.nc && echo there",
        "echo text > latest.nc",
        "echo text >> latest.nc; tail -c 5 latest.nc",
        "rm latest.nc",
    ],
)
def test_a_symbolic_link_leads_to_a_pending_file(run, knarr, programs, tmp_path, use, older):
    (run.folder / "sub").mkdir()
    (run.folder / "latest.nc").symlink_to("sub/../again.nc")
    (run.folder / "again.nc").symlink_to("hist.nc")
    begin = ("+", "stat", "+") if older else ()
    both(run, knarr, tmp_path, pending(programs["hdf5"], *begin, use))


@pytest.mark.parametrize(
    "step",
    [
        "mv sub moved",
        "rmdir sub; ls sub",
        "rm -r sub; ls",
        "ls sub; find sub; echo sub/*",
        "cd sub; test -s hist.nc && echo there",
        "mv sub/hist.nc .; rmdir sub",
        f"{sys.executable} -c \"import os; os.rename('sub', 'moved'); print(os.listdir('moved'))\"",
    ],
)
def test_directories_with_pending_files(run, knarr, programs, tmp_path, step):
    (run.folder / "sub").mkdir()
    both(run, knarr, tmp_path, pending(programs["pnetcdf"], step, name="sub/hist.nc"))


def test_a_file_that_is_not_closed_yet_is_not_waited_for(run, programs):
    """A loop that waits for a file by looking for it."""
    loop = "(while [ ! -e hist.nc ]; do sleep 0.01; done; ls -l hist.nc | wc -l) & wait"
    ran = run("sh", "-c", f"({' '.join(map(str, pending(programs['pnetcdf'])))}) & {loop}; wait")
    assert ran.out.split() == ["1"]


@pytest.mark.parametrize("library", ["early", "allocator"])
def test_other_libraries_that_are_preloaded(run, knarr, programs, tmp_path, library):
    other = tmp_path / f"{library}.so"
    subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", HERE / f"{library}.c", "-o", other], check=True)
    command = pending(programs["pnetcdf"], "stat", "rename", "cat hist.nc.other | wc -c > /dev/null; echo $?")
    both(run, knarr, tmp_path, command, env={"LD_PRELOAD": str(other)})


def test_a_program_with_a_static_address_sanitizer(run, knarr, programs, tmp_path):
    program = tmp_path / "checked"
    options = ["-fsanitize=address", "-static-libasan", "-O1", "-w"]
    done = subprocess.run(["gcc", *options, HERE / "fortified.c", "-o", program], check=False, capture_output=True)
    if done.returncode != 0:
        pytest.skip("needs gcc with libasan.a")
    both(run, knarr, tmp_path, pending(programs["pnetcdf"], f"{program} hist.nc 0; mv hist.nc a.nc"))


def test_the_launcher_itself_is_never_subject_to_its_own_names(run, programs):
    """Somebody has the library preloaded in all programs."""
    preload = str(run.program.with_name("libknarr_preload.so"))
    ran = run(*pending(programs["pnetcdf"], "stat"), env={"LD_PRELOAD": preload})
    assert ran.out.split()[:2] == ["stat", "1"] and ran.file("hist.nc")["outcome"] == "packed"


def paused(run: Runner, program: Path, *steps: str) -> tuple[subprocess.Popen[str], Callable[[], None]]:
    """A run whose launcher is stopped, and whose program is about to write a file again and to go on with these steps.
    The second result lets it do so, and returns when the file is closed."""
    first = "touch ready; while [ ! -e go ]; do sleep 0.01; done"
    process = run.start(*pending(program, "stat", first, "+", "touch closed", *steps, count=1000))
    until((run.folder / "ready").exists, "the program is not ready")
    process.send_signal(signal.SIGSTOP)

    def go() -> None:
        (run.folder / "go").touch()
        until((run.folder / "closed").exists, "the file is not closed", of=process)

    return process, go


def test_a_call_waits_for_a_launcher_that_is_stopped(run, programs):
    process, go = paused(run, programs["hdf5"], "stat", "touch seen")
    go()
    time.sleep(2)
    assert process.poll() is None and not (run.folder / "seen").exists()
    process.send_signal(signal.SIGCONT)
    ran = run.finish(process)
    waits = ran.result["name_waits"]
    assert (
        ran.code == 0 and waits["calls"] >= 1 and waits["longest_seconds"] > 0.5 and waits["longest_name"] == "hist.nc"
    )
    assert "waited" in ran.err and waits["by_call"]["stat"] >= 1


@pytest.mark.parametrize("step", ["stat", "unlink", "write", "open"])
def test_a_launcher_that_is_killed_ends_every_wait(run, programs, step):
    process, go = paused(run, programs["hdf5"], step)
    go()
    time.sleep(0.5)
    begin = time.monotonic()
    process.kill()
    out, _ = process.communicate(timeout=60)
    assert time.monotonic() - begin < 50
    # An older file must not pass for the one that the program has written.
    expected = "-1 Input/output error" if step in ("stat", "open") else "0"
    assert expected in out.splitlines()[-1], out
    for left in test_pnetcdf.spools():
        shutil.rmtree(left)
    forget(run.top)
