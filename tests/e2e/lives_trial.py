"""Runs a life of `lives.py` with a fault, recovers what was left, and says what is wrong."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from injecting import SOURCES, Call, Fault, Injector, Victim, logged
from lives import BUCKET, TOP, Life
from lives_kills import Kill, lines_of
from lives_oracle import Seeds, Told, found_in, seeds_got, told, wrong_files, wrong_transfer

if TYPE_CHECKING:
    from object_server import S3, Bucket

SHARED_MEMORY = Path("/dev/shm")
REPOSITORY = Path(__file__).resolve().parents[2]
PROFILE = REPOSITORY / "crates/choose/src/profile/built-in.json"
NOBODYS = ("not=/told-", "not=/ompi.", "not=sem.")
"""Places of calls that are not Knarr's: what the program notes, and what MPI has."""
LIBRARY_CALLS = re.compile(
    r"(open|read|write|fsync|ftruncate|mmap) "
    r"(TOP/(d+/)?work/hist_#\.(nc|h#)|/dev/shm/.*/(header\.nc|classic\.nc|header\.#\.h#)|TOP/\.knarr/(header|shown)\S*)$"
)
"""Calls of a rank that are those of its own library."""
IS_NEWER = ("a newer file has its name", "a store is there, which may be newer")
LOCK_TEST = ".locktest."
"""A file beside the one that it opens, with which MPI-IO tries locks. It does not look whether it goes again."""
NO_HEADER = re.compile(r"/header\.nc: (the header ends at byte|header byte 4: no classic|HDF5 cannot open the file)")
REMOVING = {"unlink", "stat", "getdents", "open", "flock"}
"""Calls of whoever tidies up. What one that fails leaves there is removed by the next run."""
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # One process on its own, and several on one machine, without looking for networks: that takes most of the time.
    "OMPI_MCA_ess_singleton_isolated": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,vader",
}
SIDES = """
KNARR_SIDE=w "$@" &
KNARR_SIDE=r KNARR_TOLD=$KNARR_TOLD/reader TMPDIR=$TMPDIR/r {reader}
r=$?
wait $!
w=$?
[ $w = 0 ] && exit $r || exit $w
"""


@dataclass
class Lived:
    """What came of a run."""

    life: Life
    fault: Fault | Kill | None
    wrong: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    failed: list[Call] = field(default_factory=list)
    code: int = 0
    err: str = ""
    codes: list[str] = field(default_factory=list)
    recovered: str = ""
    noted: dict[str, int] = field(default_factory=dict)
    """How many lines the programs have noted."""
    took_s: float = 0.0
    killed: int = 0
    """How many processes, at moments that no call marks."""

    def __str__(self) -> str:
        lines = [f"{self.life.name}, {self.fault}", *(f"  {what}" for what in self.wrong)]
        lines += [f"  exit code {self.code}; the program was told: {', '.join(self.codes) or 'nothing'}"]
        lines += [f"  | {line}" for line in self.err.splitlines()[-12:]]
        lines += [f"  recovered | {line}" for line in self.recovered.splitlines()[-6:]]
        return "\n".join(lines)


class Lives:
    """Runs lives in folders below one, with programs that are built once."""

    def __init__(self, knarr: Path, injector: Injector, folder: Path):
        self.knarr, self.injector, self.folder = knarr, injector, folder
        self.number = 0

    def program(self, library: str) -> Path:
        """The program of a library."""
        program = self.folder / f"life_{library}"
        if not program.exists():
            build(library, program, self.knarr)
        return program

    @cached_property
    def server(self) -> S3:
        """In the network of this process."""
        from object_server import S3

        return S3()

    def stop(self) -> None:
        if "server" in self.__dict__:
            self.server.stop()

    def live(
        self, life: Life, fault: Fault | None = None, victim: Victim | None = None, kill: Kill | None = None
    ) -> Lived:
        """Runs it: with a fault, with processes killed, or counting the calls of a victim."""
        self.number += 1
        trial = Trial(self, life, fault, victim, kill, self.folder / f"{TOP}-{os.getpid()}-{self.number}")
        try:
            return trial.run()
        finally:
            trial.clean()

    def calls(self, life: Life, name: str) -> list[Call]:
        """The calls of a victim in a run without faults, which must be as it should."""
        lived = self.live(life, victim=life.victim(name))
        assert not lived.wrong and lived.calls, lived
        return lived.calls


def build(library: str, program: Path, knarr: Path) -> None:
    """Builds the program of a library; Debian's are those for Open MPI."""
    linked = {"serial": "hdf5", "classic": "netcdf"}.get(library, library)
    options: list[object] = [] if library == "posix" else [f"-l{linked}"]
    if linked in ("hdf5", "netcdf"):
        libraries = next(Path("/usr/lib").glob("*/netcdf/mpi" if linked == "netcdf" else "*/hdf5/openmpi"))
        options += [f"-I{folder}" for folder in ("/usr/include/hdf5/openmpi", libraries / "include")]
        options += [f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    elif library in ("output", "checkpoint"):
        # Installations give it this name.
        there = program.with_name("libknarr.so.0")
        if not there.exists():
            there.symlink_to(knarr.with_name("libknarr.so"))
        options = [f"-I{REPOSITORY}/crates/capi/include", there, f"-Wl,-rpath,{there.parent}"]
    subprocess.run(["mpicc.openmpi", "-O1", "-w", SOURCES / f"life_{library}.c", "-o", program, *options], check=True)


class Trial:
    """One run."""

    def __init__(
        self, lives: Lives, life: Life, fault: Fault | None, victim: Victim | None, kill: Kill | None, top: Path
    ):
        self.lives, self.life, self.fault, self.kill, self.top = lives, life, fault, kill, top
        self.victim = fault.victim if fault else victim
        self.was_killed = kill is not None or (fault is not None and fault.action == "kill")
        self.lived = Lived(life, fault or kill)
        self.noted = top.with_name(f"told-{top.name}")
        self.place = top / ("d" * 140) if life.is_deep else top
        self.environment = {**os.environ, **MPI, "TMPDIR": str(top / "tmp"), "KNARR_TOLD": str(self.noted)}
        self.environment["KNARR_OPTIONS"] = life.checkpoints
        if life.prints_to:
            self.environment["KNARR_PRINTED"] = life.prints_to
        self.sessions: list[int] = []
        self.bucket: Bucket | None = None

    def run(self) -> Lived:
        self.top.mkdir()
        (self.noted / "reader").mkdir(parents=True)
        if self.life.disk:
            mount(self.top, self.life.disk)
        if self.life.memory:
            mount(SHARED_MEMORY, self.life.memory)
        (self.place / "work").mkdir(parents=True)
        (self.top / "tmp" / "r").mkdir(parents=True)
        (self.place / "knarr.toml").write_text(self.config())
        if self.life.learned:
            (self.place / "machine.json").write_bytes(PROFILE.read_bytes())
            (self.place / "machine.learned.json").write_text(self.life.learned)
        before = set(SHARED_MEMORY.glob("knarr-*"))
        assert not before, f"left by others: {before}"
        lived = self.lived
        if self.life.is_recovered:
            self.start_and_wait(self.command(), self.life.longest_s)
            lived.code, lived.err = self.start_and_wait(self.injected(self.recovery()), self.life.longest_s)
        else:
            lived.code, lived.err = self.start_and_wait(self.injected(self.command()), self.life.longest_s)
        lived.noted = {name: lines_of(self.noted / name) for name in ("0", "reader/0")}
        lived.calls, lived.failed = logged(self.noted / "calls")
        noted = told(self.noted, self.life.ranks, self.life.holds)
        lived.codes = noted.codes()
        if self.life.disk:
            mount(self.top, "256m", is_there=True)
        self.judge(noted)
        return lived

    def config(self) -> str:
        """`knarr.toml`. A life in a bucket gets one of its own."""
        text = f'{self.life.tiers}[[file]]\npattern = "hist_*"\n{self.life.rule}'
        if not self.life.is_in_bucket:
            return text
        from object_server import CREDENTIALS, Bucket

        self.bucket = Bucket(self.lives.server.endpoint, self.top.name)
        few = {"AWS_MAX_ATTEMPTS": "2"}
        self.environment |= {**CREDENTIALS, **few, "AWS_ENDPOINT_URL": self.lives.server.endpoint}
        return text.replace(BUCKET, self.bucket.url("runs"))

    def injected(self, command: Sequence[object]) -> Sequence[object]:
        """A command that has the fault, or in which calls are counted."""
        if not self.victim:
            return command
        rules = self.fault.rules() if self.fault else [*self.victim.rules(), "calls=all"]
        places = (*NOBODYS, *self.life.places_of_mpi(self.victim))
        return self.lives.injector.command(self.noted / "calls", [*rules, *places], command)

    def command(self) -> list[object]:
        life = self.life
        program = [self.lives.program(life.library), life.letters, life.part]
        mpirun = ["mpirun", "--oversubscribe", "-n", life.ranks]
        run = [self.lives.knarr, "run", "-c", self.place / "knarr.toml", *life.options]
        if life.is_alone:
            return program
        if life.nodes:
            # Without a fork: where calls are counted a child that ends may interrupt the next one, as no kernel does.
            cases = " ".join(f"{rank}) n={name} ;;" for rank, name in enumerate(life.nodes))
            node = f'case $OMPI_COMM_WORLD_RANK in {cases} esac; KNARR_SIDE=$n KNARR_NODE=$n exec "$@"'
            return [*mpirun, "sh", "-c", node, "sh", *run, "--", *program]
        if life.reads:
            reader = [*run, "--as", "r", "--", program[0], life.reads, life.part]
            script = SIDES.format(reader=" ".join(f"'{word}'" for word in reader))
            return ["sh", "-c", script, "sh", *run, "--as", "w", "--", *program]
        return [*run, "--", *(mpirun if life.ranks > 1 else []), *program]

    def recovery(self) -> list[object]:
        """What finishes the spools that are in memory."""
        return [self.lives.knarr, "run", "--recover"]

    def start_and_wait(self, command: Sequence[object], longest_s: float) -> tuple[int, str]:
        """Until the command and all that it has started have ended. Returns its exit code, and what it printed."""
        begin = time.monotonic()
        end = begin + longest_s
        with (self.noted / "err").open("w+") as err:
            process = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.place / "work",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=err,
                stderr=err,
                start_new_session=True,
            )
            self.sessions.append(process.pid)
            kills = self.kill and len(self.sessions) == 1 + self.life.is_recovered
            killer = threading.Thread(target=self.strike, args=(process, end))
            if kills:
                killer.start()
            if self.life.stops_at and len(self.sessions) == 1:
                self.stop(process, end)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=end - time.monotonic())
            while (left := in_session(process.pid)) and time.monotonic() < end:
                time.sleep(0.005)
            if kills:
                killer.join()
            self.lived.took_s = self.lived.took_s or time.monotonic() - begin
            if left:
                self.lived.wrong.append(f"HANGS: {' | '.join(map(command_of, left))}")
            end_session(process.pid)
            process.wait()
            err.seek(0)
            return process.returncode, err.read()

    def strike(self, process: subprocess.Popen[bytes], end: float) -> None:
        """In a thread: kills what is to be killed."""
        self.lived.killed = self.kill.strike(
            self.noted,
            lambda: in_session(process.pid),
            lambda: time.monotonic() < end and process.poll() is None,
        )

    def stop(self, process: subprocess.Popen[bytes], end: float) -> None:
        noted = self.noted / "0"
        while process.poll() is None and time.monotonic() < end:
            if noted.exists() and f"\n{self.life.stops_at}" in noted.read_text():
                process.send_signal(signal.SIGTERM)
                return
            time.sleep(0.005)

    def judge(self, noted: Told) -> None:
        lived = self.lived
        hangs = any(what.startswith("HANGS") for what in lived.wrong)
        is_stuck = self.life.ranks > 1 and hangs and (self.wrote_itself() or self.opens_nothing() or self.opens_alone())
        if is_stuck:
            # The other ranks wait in the library, so the launcher was killed with them.
            lived.wrong = [what for what in lived.wrong if not what.startswith("HANGS")]
        lived.wrong += noted.wrong() if self.is_ours() and not is_stuck else []
        if "panicked" in lived.err:
            lived.wrong.append(f"PANICS: {next(line for line in lived.err.splitlines() if 'panicked' in line)}")
        if lived.code != 0 and noted.has_begun and not self.life.is_alone:
            if "wait" in self.life.rule:
                closed = {name for name, generations in noted.files().items() if generations[-1].is_closed}
                missing = [name for name, seeds in self.found(noted).items() if seeds is None and name in closed]
                lived.wrong += [f"LOST: {name} is not there though it was waited for" for name in missing]
            self.recover()
        # The program's library was told that it cannot write the header, without which nothing can be made.
        has_header = not (self.fails_in_library() and NO_HEADER.search(lived.recovered))
        is_ours = has_header and self.is_ours() and not is_stuck
        wrong = wrong_files(noted, self.found(noted), is_kept=not self.life.is_alone) if is_ours else []
        if self.life.reads:
            reader = told(self.noted / "reader", 1)
            lived.codes += [f"reader: {code}" for code in reader.codes()]
            lived.wrong += wrong_transfer(noted, reader, lived.code, is_there=not wrong)
        if not self.life.reads or "keep" in self.life.rule:
            lived.wrong += wrong
        if has_header and not is_stuck:
            lived.wrong += [f"LEFT: {what}" for what in self.left(noted)]

    def is_ours(self) -> bool:
        """False if a call of the program's own library failed, and it did not say so: MPI-IO does not look at all of
        them. Nor does it notice a disk that is full."""
        without_spool = ("its values have no place in the spool", "matches was seen: the program", "cannot be loaded")
        if self.life.disk and any(words in self.lived.err for words in without_spool):
            return False
        if self.wrote_itself():
            return False
        is_torn = self.fault is not None and self.fault.action == "torn"
        # Where it lasts Knarr's own calls fail, too, and close says so.
        is_lasting = self.fault is not None and self.fault.action.endswith("+")
        said = [code for code in self.lived.codes if not (is_lasting and code.startswith(("open", "close")))]
        return not (self.fails_in_library() and (is_torn or not said))

    def wrote_itself(self) -> bool:
        """True if calls of a rank failed by which its library writes the file itself, or reads it."""
        places = re.compile(r"TOP/(d+/)?(work/hist_|\.knarr/shown-)")
        failed = any(places.match(call.about) for call in self.lived.failed)
        return failed and self.fails_in_library()

    def opens_nothing(self) -> bool:
        """True if a rank can open no file any more, its library no more than Knarr. Where names may be pending on other
        nodes Knarr says so before the file is tried, so its path is not among the calls that failed."""
        is_lasting = self.fault is not None and self.fault.call.kind == "open" and self.fault.action.endswith("+")
        is_marked = self.victim is not None and self.victim.is_marked
        return is_lasting and is_marked and any(call.about == "TOP/.knarr/pending" for call in self.lived.failed)

    def opens_alone(self) -> bool:
        """True if a rank could not open the header that ranks open together: in MPI-IO the others wait for it, as they
        do for any file without Knarr."""
        opened = re.compile(r"(TOP/(d+/)?\.knarr/header-\S*|/dev/shm/.*/header)\.nc$")
        return any(call.kind == "open" and opened.match(call.about) for call in self.lived.failed)

    def fails_in_library(self) -> bool:
        failed = any(LIBRARY_CALLS.match(f"{call.kind} {call.about}") for call in self.lived.failed)
        return failed and self.victim is not None and self.victim.is_marked and not self.life.is_alone

    def found(self, noted: Told) -> dict[str, Seeds | None]:
        """What is in each file."""
        found: dict[str, Seeds | None] = {}
        for name, generations in noted.files().items():
            try:
                found[name] = self.read(name)
            except (OSError, KeyError, IndexError, ValueError) as error:
                newest = generations[-1]
                if self.was_killed and not newest.is_closed and not newest.has_accepted():
                    # Without a launcher the program's library has begun it anew, and was killed with the program.
                    found[name] = None
                    continue
                found[name] = {(-1, 0): {-1}}
                self.lived.wrong.append(f"WRONG: {name} cannot be read: {error}")
        return found

    def read(self, name: str) -> Seeds | None:
        path = self.place / "work" / f"{name}{self.life.suffix}"
        if self.life.library == "checkpoint":
            # Another program restarts from it.
            read = self.noted / "read"
            read.mkdir()
            environment = {**self.environment, "KNARR_TOLD": str(read)}
            command = [self.lives.program("checkpoint"), "oaxe", str(self.life.part)]
            subprocess.run(command, cwd=self.place / "work", env=environment, check=True, timeout=60)
            return seeds_got(told(read, 1))
        if self.bucket:
            key = f"runs/work/{name}{self.life.suffix}"
            if key in set(self.bucket.keys()):
                (self.top / "tmp" / path.name).write_bytes(self.bucket.get(key))
                return found_in(self.top / "tmp" / path.name, self.life.ranks, self.life.part)
            folder = self.bucket.download(f"runs/work/{name}.zarr", self.top / "tmp" / f"{name}.zarr")
            # Where Zarr cannot hold it, or nobody took it over, it is a file.
            path = folder if folder.exists() else path
        return found_in(path, self.life.ranks, self.life.part) if path.exists() else None

    def recover(self) -> None:
        disks = [self.place / ".knarr", self.place / "tier"]
        for place, command in ((SHARED_MEMORY, self.recovery()), *((disk, [*self.recovery(), disk]) for disk in disks)):
            if spools(place):
                code, text = self.start_and_wait(command, 60)
                self.lived.recovered += f"exit code {code}\n{text}"

    def left(self, noted: Told) -> list[str]:
        """What should not be there any more."""
        keeps_test = any(LOCK_TEST in call.place for call in self.lived.failed)
        found = [path for path in self.remains(noted) if not (keeps_test and LOCK_TEST in path)]
        failed = self.fault.call.kind if self.fault and self.lived.failed else ""
        is_lasting = self.fault is not None and self.fault.action.endswith("+")
        if found and (self.was_killed or is_lasting) and any(words in self.lived.recovered for words in IS_NEWER):
            # The program's library wrote it when nobody took it over any more, or no list of older versions could be
            # written. What has the name is whole, and the user decides.
            for path in (*spools(SHARED_MEMORY), *spools(self.place / ".knarr"), *spools(self.place / "tier")):
                for header in path.glob("*/header.*.h5"):
                    header.resolve().unlink(missing_ok=True)
                shutil.rmtree(path)
            for pattern in ("knarr-spool-*", "header-*"):
                for path in (self.place / ".knarr").glob(pattern):
                    path.unlink()
            found = list(self.remains(noted))
        # MPI ends the other launchers when one of them fails.
        was_ended = bool(self.life.nodes) and self.lived.code != 0
        if found and (self.was_killed or was_ended or failed in REMOVING):
            # The next run takes it over.
            writes = [self.lives.program(self.life.library), "9cfpxe", str(self.life.part)]
            # What lies beside files goes when the next one is written there.
            program = writes if any("work/." in path for path in found) else ["true"]
            side = ["--as", "w"] if self.life.reads else []
            command = [self.lives.knarr, "run", "-q", "-c", self.place / "knarr.toml", *side, "--", *program]
            if self.life.is_alone:
                command = writes
            elif self.life.nodes:
                command = ["mpirun", "--oversubscribe", "-n", "2", *command]
            environment = {**self.environment, "KNARR_TOLD": str(self.noted / "reader")}
            subprocess.run(command, cwd=self.place / "work", env=environment, capture_output=True, check=False)
            # The directory in which a launcher was reached holds nothing.
            found = [path for path in self.remains(noted) if "knarr-run-" not in path]
        return found

    def remains(self, noted: Told) -> Iterator[str]:
        for path in (*SHARED_MEMORY.glob("knarr-*"), *SHARED_MEMORY.glob(".knarr-*")):
            yield f"{path}: {', '.join(sorted(str(below.relative_to(path)) for below in path.rglob('*')))}"
        for folder in ("tmp/knarr-*", "tmp/r/knarr-*", ".knarr/*", "*/.knarr/*", "tier/*", "*/tier/*"):
            yield from (str(path.relative_to(self.top)) for path in self.top.glob(folder))
        expected = {f"{name}{self.life.suffix}" for name in [*noted.files(), "hist_9"]}
        expected |= {f"{name}.knarr.json" for name in expected}
        if self.life.library == "posix" and self.was_killed:
            # The program was killed before it gave them their names.
            expected |= {f"{name}.begun.bin" for name in noted.files()}
        for path in (self.place / "work").iterdir():
            if path.name not in expected and not path.name.startswith("core"):
                yield str(path.relative_to(self.top))
        if self.bucket:
            stores = tuple(f"runs/work/{name}.zarr/" for name in noted.files())
            files = {f"runs/work/{name}{self.life.suffix}" for name in noted.files()}
            is_lasting = self.fault is not None and self.fault.action.endswith("+")
            # The mark of a store that is begun stays beside a whole one if the server is not reached any more.
            expected = tuple(f"{store}.knarr-unfinished" for store in stores) if is_lasting else ()
            keys = (key for key in sorted(self.bucket.keys()) if key not in expected and key not in files)
            yield from (key for key in keys if not key.startswith(stores) or "knarr" in key)
            yield from (f"upload of {key}" for key in self.bucket.uploads())

    def clean(self) -> None:
        for session in self.sessions:
            end_session(session)
        for path in (*SHARED_MEMORY.glob("knarr-*"), *SHARED_MEMORY.glob("sem.*")):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        if self.life.disk:
            subprocess.run(["umount", self.top], check=True)
        if self.life.memory:
            subprocess.run(["umount", SHARED_MEMORY], check=True)
        shutil.rmtree(self.noted, ignore_errors=True)
        shutil.rmtree(self.top, ignore_errors=True)


def mount(folder: Path, size: str, is_there: bool = False) -> None:
    """A file system of its own in memory. One that is there gets another size."""
    options = f"remount,size={size}" if is_there else f"size={size}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tests", folder], check=True)


def spools(folder: Path) -> list[Path]:
    """Without files of values that ranks have there."""
    return sorted(path for path in folder.glob("knarr-spool-*") if path.is_dir())


def in_session(session: int) -> list[int]:
    """Processes of a session that have not ended."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                state, _, _, of = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[:4]
                if int(of) == session and state != "Z":
                    found.append(int(entry))
    return found


def end_session(session: int) -> None:
    while left := in_session(session):
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.005)


def command_of(process: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        return " ".join(word.decode(errors="replace").rsplit("/", 1)[-1] for word in words[:3])
    return ""
