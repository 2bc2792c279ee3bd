"""Programs that are coupled by DTF, with DTF's configuration file, under `knarr run`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import pytest

from running import MPIRUN, Ran
from test_pnetcdf import built
from test_transfer import PROGRAMS, Components, made_components

HEADERS = Path(__file__).resolve().parents[2] / "crates" / "dtf" / "include"
SESSIONS = 3
INI = """# both directions, one rule each
[INFO]
ncomp=2
comp_name="scale"
comp_name="letkf"
buffer_data=1

[FILE]
filename="Hist.D%.nc"
exclude_name="Hist.D02"
comp1="scale"
comp2="letkf"
mode="transfer"
num_sessions=3
replay_io=1

[FILE]
filename="./Anal"
comp1="scale"
comp2="letkf"
mode="transfer"
"""


def linked(knarr) -> list[str]:
    library = Path(knarr.program).parent
    return [f"-I{HEADERS}", f"-L{library}", f"-Wl,-rpath,{library}", "-lpnetcdf", "-ldtf"]


@pytest.fixture(scope="module")
def coupled(knarr, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("dtf"), "dtf_coupled", PROGRAMS / "dtf_coupled.c", linked(knarr))


@pytest.fixture(scope="module")
def fortran(knarr, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("fortran") / "dtf_reader"
    # Debian's modules of PnetCDF and Open MPI lie beside each other.
    found = next(Path("/usr/lib").glob("*/fortran/gfortran-mod-15/pnetcdf.mod"), None)
    if found is None:
        pytest.skip("needs PnetCDF and Open MPI for Fortran: run 'make setup' as root")
    words = ["mpifort.openmpi", "-w", PROGRAMS / "dtf_reader.f90", "-o", program, f"-I{found.parent}", *linked(knarr)]
    subprocess.run(words, check=True, cwd=program.parent)
    return program


@pytest.fixture(params=["one node", "two nodes"])
def components(knarr, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Components]:
    for made in made_components(knarr, tmp_path, request.param):
        made.config, made.config_name = INI, "dtf.ini"
        yield made


def as_component(program: Path, name: str, ranks: int, sessions: int = SESSIONS) -> list:
    return [*MPIRUN, ranks, program, "dtf.ini", name, sessions]


def both(components: Components, sides: list[tuple[str, list]]) -> list[Ran]:
    """Both run at once; they are started in this order."""
    started = [components.start(name, *command) for name, command in sides]
    return [components.finish(process) for process in started]


@pytest.mark.parametrize("first", ["scale", "letkf"])
def test_programs_of_dtf_run_with_its_file(components, coupled, first):
    """Names have capitals, and values are read before the file is closed."""
    sides = [("scale", as_component(coupled, "scale", 2)), ("letkf", as_component(coupled, "letkf", 3))]
    sides = sides if first == "scale" else sides[::-1]
    for (name, _), ran in zip(sides, both(components, sides), strict=True):
        hist, anal = ("to letkf", "from letkf") if name == "scale" else ("from scale", "to scale")
        assert f"transferred {hist}, 3 times" in ran.file("Hist.D01.nc")["reason"]
        assert f"transferred {anal}, 3 times" in ran.file("Anal.nc")["reason"]
    assert not list(components.folder.glob("*.nc"))


def test_programs_of_dtf_in_fortran(components, coupled, fortran):
    reader = [*MPIRUN, 2, fortran, "dtf.ini", SESSIONS]
    both(components, [("scale", as_component(coupled, "scale", 2)), ("letkf", reader)])
    assert not list(components.folder.glob("*.nc"))


def test_with_mode_file_there_is_a_file_too(components, coupled):
    components.config = INI.replace('filename="./Anal"', 'filename="Anal"').replace(
        'comp2="letkf"\nmode="transfer"\n', 'comp2="letkf"\nmode="file"\n'
    )
    both(components, [(name, as_component(coupled, name, 2, 1)) for name in ("scale", "letkf")])
    for name in ("Hist.D01.nc", "Anal.nc"):
        with netCDF4.Dataset(components.folder / name) as file:
            assert file["field"][3, 4] == 1034 and file["series"][1, 3, 4] == 3034


@pytest.fixture(scope="module")
def again(knarr, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("again"), "dtf_again", PROGRAMS / "dtf_again.c", linked(knarr))


@pytest.mark.parametrize("how", ["once", "multiple"])
def test_each_transfer_of_an_open_file_has_its_own_values(components, again, how):
    """Programs meet in `dtf_transfer`: it returns when the other side has what it asked for."""
    sides = [(name, [*MPIRUN, 2, again, "dtf.ini", name, 3, how]) for name in ("scale", "letkf")]
    both(components, sides)


def test_another_name_than_that_of_the_run_is_an_error(components, coupled):
    ran = components.finish(components.start("letkf", *as_component(coupled, "scale", 1)), ok=False)
    assert ran.code != 0 and "calls itself component 'scale', and the run is 'letkf': correct --as" in ran.err


def test_mistakes_in_the_file_show_the_line(components):
    components.config = INI.replace("num_sessions", "sessions")
    ran = components.finish(components.start("scale", "true"), ok=False)
    assert ran.code == 125 and "line 14: unknown key 'sessions' in [FILE]" in ran.err, ran.err


def test_without_a_run_the_program_writes_files(coupled, tmp_path):
    """The functions of libdtf.so do nothing."""
    (tmp_path / "seen.0").touch()
    words = [*MPIRUN, "2", coupled, "dtf.ini", "alone", "0"]
    subprocess.run(list(map(str, words)), cwd=tmp_path, check=True)
