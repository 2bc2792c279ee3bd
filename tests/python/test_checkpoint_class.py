"""Checkpoints as Python programs make them, alone and on several ranks."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from thread_ranks import Ranks, on_ranks

import knarr
from knarr import _knarr

SHAPE = (60, 50)


def field(step: int, dtype: str = "float64") -> np.ndarray:
    j, i = np.meshgrid(*map(np.arange, SHAPE), indexing="ij")
    return (100 * np.sin(0.1 * j + step) * np.cos(0.2 * i)).astype(dtype)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("longest_piece", [None, 1024])
def test_communicators_do_what_they_must(size: int, longest_piece: int | None) -> None:
    """The conformance suite of all communicators of Knarr; long messages go in pieces."""

    def check(comm: Ranks, rank: int) -> None:
        _knarr.check_ranks((comm, rank, size, 0), longest_piece)

    assert on_ranks(size, check) == [None] * size


@pytest.mark.parametrize("result", ["no bytes", None])
def test_a_communicator_that_does_something_else_is_an_error(result: object) -> None:
    with pytest.raises(knarr.KnarrError, match="methods send and recv"):
        _knarr.check_ranks((SimpleNamespace(recv=lambda source: result), 1, 2, 0))


def write(directory: Path, step: int, **options: Any) -> None:
    with knarr.Checkpoint(directory, **options) as checkpoint:
        checkpoint.begin(step)
        checkpoint.put("T", field(step), shape=SHAPE)
        checkpoint.commit()


def test_messages_go_in_a_duplicate_that_is_given_back(tmp_path: Path) -> None:
    made: list[Ranks] = []

    class Watched(Ranks):
        def Dup(self) -> Ranks:  # noqa: N802
            made.append(super().Dup())
            return made[-1]

        def send(self, value: Any, dest: int) -> None:
            raise AssertionError("a message among those of the program")

    def save(comm: Ranks, rank: int) -> None:
        with knarr.Checkpoint(tmp_path, comm) as checkpoint:
            assert checkpoint.restart() is None

    assert on_ranks(2, save, Watched(2)) == [None] * 2
    assert len(made) == 2 and made[0] is made[1] and made[0].is_free
    made.clear()

    def fail(comm: Ranks, rank: int) -> None:
        with knarr.Checkpoint(tmp_path, comm) as checkpoint:
            raise LookupError(checkpoint)

    assert all(isinstance(error, LookupError) for error in on_ranks(2, fail, Watched(2)))
    assert not made[0].is_free, "that would wait for the other ranks"


def band(rank: int, ranks: int) -> slice:
    return slice(SHAPE[0] * rank // ranks, SHAPE[0] * (rank + 1) // ranks)


@pytest.mark.parametrize(("writers", "readers"), [(1, 3), (3, 1), (2, 8), (8, 2)])
def test_arrays_come_back_on_any_number_of_ranks(tmp_path: Path, writers: int, readers: int) -> None:
    def save(comm: Ranks, rank: int) -> None:
        with knarr.Checkpoint(tmp_path, comm) as checkpoint:
            for step in (10, 20):
                checkpoint.begin(step)
                mine = band(rank, writers)
                array = field(step)[mine]
                checkpoint.put("T", array, shape=SHAPE, start=(mine.start, 0))
                checkpoint.put("time", np.float64(step), shape=())
                array[...] = -1  # it was copied
                checkpoint.commit()
            checkpoint.wait()
            assert checkpoint.test() and checkpoint.last.step == 20 and checkpoint.last.path == tmp_path / "step_20"
            assert checkpoint.last.packed_bytes < checkpoint.last.raw_bytes

    assert on_ranks(writers, save) == [None] * writers

    def load(comm: Ranks, rank: int) -> None:
        with knarr.Checkpoint(tmp_path, comm) as checkpoint:
            restart = checkpoint.restart()
            assert (restart.step, restart.ranks) == (20, writers)
            columns = slice(SHAPE[1] * rank // readers, SHAPE[1] * (rank + 1) // readers)
            wanted = field(20)[:, columns]
            found = restart.read("T", start=(0, columns.start), count=wanted.shape)
            assert found.tobytes() == wanted.tobytes()
            assert restart.read("T").tobytes() == field(20).tobytes()
            assert restart.read("time") == 20.0
            out = np.zeros((3, 4))
            assert checkpoint.restart(10, verify=True).read("T", (5, 6), (3, 4), out=out) is out
            assert out.tobytes() == field(10)[5:8, 6:10].tobytes()

    assert on_ranks(readers, load) == [None] * readers


def test_a_program_asks_whether_to_write_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(ranks: int, **options: object) -> list[bool]:
        """What all ranks hear, of which each asks before and after a checkpoint."""
        heard = []

        def ask(comm: Ranks, rank: int) -> None:
            with knarr.Checkpoint(tmp_path, comm, **options) as checkpoint:
                answers = [checkpoint.need()]
                checkpoint.begin(len(list(tmp_path.glob("step_*"))))
                checkpoint.put("T", field(1))
                checkpoint.commit()
                checkpoint.wait()
                answers += [checkpoint.need(), checkpoint.need()]
            heard.append(answers)

        assert on_ranks(ranks, ask) == [None] * ranks
        assert all(answers == heard[0] for answers in heard)
        return heard[0]

    assert asks(2, mtbf="100 days") == [True, False, False], "the first one tells what it costs"
    assert asks(2, mtbf="100 days") == [False, False, False], "that is known of earlier ones"
    # A checkpoint takes milliseconds, and failures come all the time.
    assert asks(1, mtbf="1us") == [True, True, True]
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 1000))
    assert not any(asks(1, mtbf="100 days"))
    with pytest.raises(ValueError, match="mtbf=8"):
        knarr.Checkpoint(tmp_path, mtbf="8")
    with pytest.raises(ValueError, match="end=noon"):
        knarr.Checkpoint(tmp_path, end="noon")


def test_any_layout_type_and_shape_comes_back(tmp_path: Path) -> None:
    dtypes = [f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)] + ["f2", "f4", "f8", ">f8", ">i4"]
    arrays = {dtype: field(3, dtype) for dtype in dtypes if "u" not in dtype}
    arrays |= {dtype: np.abs(field(3)).astype(dtype) for dtype in dtypes if "u" in dtype}
    arrays |= {"turned": field(1).T, "strided": field(2)[::2, ::-3], "scalar": np.float32(3), "empty": np.zeros((0, 4))}
    with knarr.Checkpoint(tmp_path) as checkpoint:
        checkpoint.begin(0)
        for name, array in arrays.items():
            checkpoint.put(name, array)
        checkpoint.commit()
        refused = {"masked": np.ma.masked_array([1.0, 2.0], [True, False]), "clongdouble": np.zeros(3, "clongdouble")}
        for step, (name, array) in enumerate(refused.items(), 1):
            checkpoint.begin(step)
            with pytest.raises(TypeError, match="masked" if name == "masked" else "complex256"):
                checkpoint.put(name, array)
            with pytest.raises(ValueError, match=f"array '{name}'"):
                checkpoint.commit()
        restart = checkpoint.restart()
        assert set(restart.arrays) == set(arrays)
        for name, array in arrays.items():
            found = restart.read(name)
            assert found.shape == np.shape(array) and np.array_equal(found, array), name
            assert found.dtype == np.asarray(array).dtype.newbyteorder("="), name
            assert restart.arrays[name] == knarr.StoredArray(found.dtype, None)


@pytest.mark.parametrize("dtype", ["c8", "c16", ">c16", "?"])
def test_complex_numbers_and_truth_values_come_back(tmp_path: Path, dtype: str) -> None:
    own = (field(3) > field(3).mean()) if dtype == "?" else (field(3) + 1j * field(4)).astype(dtype)
    native = own.dtype.newbyteorder("=")
    with knarr.Checkpoint(tmp_path) as checkpoint:
        checkpoint.begin(0)
        checkpoint.put("own", own)
        checkpoint.put("turned", own.T)
        checkpoint.put("scalar", own.reshape(-1)[0])
        checkpoint.put(
            "global", own, shape=(2 * own.shape[0], *own.shape[1:]), start=[own.shape[0]] + [0] * (own.ndim - 1)
        )
        checkpoint.put("global", own, shape=(2 * own.shape[0], *own.shape[1:]))
        checkpoint.commit()
        restart = checkpoint.restart()
        for name, array in {"own": own, "turned": own.T, "scalar": own.reshape(-1)[0]}.items():
            found = restart.read(name, dtype=dtype)
            assert found.dtype == native and np.array_equal(found, array), name
            out = np.zeros(np.shape(array), native)
            assert np.array_equal(restart.read(name, out=out), array)
        assert np.array_equal(restart.read("global", dtype=dtype), np.concatenate([own, own]))
        part = restart.read("global", [1] + [0] * (own.ndim - 1), [2, *own.shape[1:]], dtype=dtype)
        assert np.array_equal(part, own[1:3])
        plain = restart.read("own")
        assert plain.dtype.kind in "fu"
        if dtype != "?":
            assert np.array_equal(plain[..., 1], own.imag)
            with pytest.raises(ValueError, match="out"):
                restart.read("own", out=np.zeros(own.shape, "c16" if native.itemsize == 8 else "c8"))


def test_files_come_back_as_they_were(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "model.h5", "w") as file:
        file["T"] = field(1)
    (tmp_path / "notes.txt").write_text("no variables")
    with knarr.Checkpoint(tmp_path / "sets") as checkpoint:
        checkpoint.begin(1)
        checkpoint.add_file(tmp_path / "model.h5")
        checkpoint.add_file(tmp_path / "notes.txt", "text/notes")
        checkpoint.commit()
        restored = checkpoint.restart().restore_files(tmp_path / "out")
        assert restored == [tmp_path / "out" / "model.h5", tmp_path / "out" / "text" / "notes"]
        assert [path.read_bytes() for path in restored] == [
            (tmp_path / name).read_bytes() for name in ("model.h5", "notes.txt")
        ]
        with pytest.raises(FileExistsError):
            checkpoint.restart().restore_files(tmp_path / "out")


def test_errors_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="option 'keep=0'"):
        knarr.Checkpoint(tmp_path, keep=0)
    write(tmp_path, 5)
    with pytest.raises(FileExistsError, match="step 5"):
        write(tmp_path, 5)
    write(tmp_path, 5, replace=True)
    with knarr.Checkpoint(tmp_path) as checkpoint:
        with pytest.raises(ValueError, match="no step was begun"):
            checkpoint.put("T", field(1))
        with pytest.raises(FileNotFoundError, match="those of steps: 5"):
            checkpoint.restart(6)
        restart = checkpoint.restart()
        with pytest.raises(ValueError, match="the set has: T"):
            restart.read("U")
        with pytest.raises(ValueError, match="lies outside"):
            restart.read("T", (50, 0), (20, 5))
        with pytest.raises(ValueError, match="instead of 'rank'"):
            restart.read("T", rank=1)
        with pytest.raises(ValueError, match="C-contiguous"):
            restart.read("T", out=np.empty(SHAPE, "f4"))
    with pytest.raises(ValueError, match="closed"):
        checkpoint.begin(7)
    with pytest.raises(ValueError, match="begun and not committed"), knarr.Checkpoint(tmp_path) as checkpoint:
        checkpoint.begin(8)
    with pytest.raises(ZeroDivisionError) as caught, knarr.Checkpoint(tmp_path) as checkpoint:
        checkpoint.begin(8)
        raise ZeroDivisionError
    assert "not committed" in caught.value.__notes__[0]


def test_an_error_of_one_rank_is_one_of_all(tmp_path: Path) -> None:
    def work(comm: Ranks, rank: int) -> None:
        with knarr.Checkpoint(tmp_path, comm) as checkpoint:
            checkpoint.begin(1)
            checkpoint.put("T", np.zeros(3, "f4" if rank == 2 else "f8"), shape=(9,), start=(3 * rank,))
            with pytest.raises(ValueError, match=r"array 'T' is f64 .* on rank 0 and f32 .* on rank 2"):
                checkpoint.commit()
            checkpoint.begin(2)
            if rank == 1:
                with pytest.raises(ValueError, match="rank 1 calls wait, rank 0 commit"):
                    checkpoint.wait()
            else:
                with pytest.raises(ValueError, match="rank 1 calls wait, rank 0 commit"):
                    checkpoint.commit()
            raise KeyError(rank)

    results = on_ranks(3, work)
    assert [type(result) for result in results] == [KeyError] * 3, results
    assert not list(tmp_path.iterdir())


def test_damaged_sets_are_passed_over_with_a_warning(tmp_path: Path) -> None:
    for step in (1, 2):
        write(tmp_path, step)
    for manifest in (tmp_path / "step_2").glob("manifest*"):
        manifest.write_bytes(manifest.read_bytes()[:-1])
    with knarr.Checkpoint(tmp_path) as checkpoint:
        with pytest.warns(RuntimeWarning, match="passed over.*step_2"):
            assert checkpoint.restart().step == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert checkpoint.restart(1).step == 1
    write(tmp_path, 3, keep=1)
    left = {path.name for path in tmp_path.iterdir()} - {".knarr-costs.jsonl"}
    assert left == {"step_2", "step_3"}  # what cannot be read is left alone


def test_the_gil_is_released_while_a_step_is_waited_for(tmp_path: Path) -> None:
    ticks = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.001):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    with knarr.Checkpoint(tmp_path) as checkpoint:
        checkpoint.begin(1)
        checkpoint.put("noise", np.random.default_rng(1).normal(size=2_000_000))
        checkpoint.commit()
        thread.start()
        checkpoint.wait()
        stop.set()
    thread.join()
    assert len(ticks) > 5


def test_extents_are_whole_numbers(tmp_path: Path) -> None:
    """A shape that was computed as a float must not be cut off."""
    with knarr.Checkpoint(tmp_path, block_size=512, bundle_below=50) as checkpoint:
        checkpoint.begin(1)
        with pytest.raises(TypeError, match="float"):
            checkpoint.put("T", np.zeros(3), shape=(9.7,))
        with pytest.raises(TypeError, match="float"):
            checkpoint.put("T", np.zeros(3), shape=(9,), start=(1.5,))
        with pytest.raises(ValueError, match="array 'T'"):
            checkpoint.commit()
        checkpoint.begin(2)
        checkpoint.put("T", np.zeros(3), shape=(np.int32(3),), start=np.zeros(1, dtype="i8"))
        checkpoint.commit()
        with pytest.raises(TypeError, match="float"):
            checkpoint.restart().read("T", (0,), (1.5,))


def test_a_forked_process_leaves_the_checkpoints_of_its_parent_alone(tmp_path: Path) -> None:
    checkpoint = knarr.Checkpoint(tmp_path)
    for step in (1, 2):
        checkpoint.begin(step)
        checkpoint.put("T", field(step), shape=SHAPE)
        if step == 2:
            checkpoint.commit()
        child = os.fork()
        if child == 0:
            try:
                with pytest.raises(ValueError, match="forked"):
                    checkpoint.put("T", field(9), shape=SHAPE)
                with pytest.raises(ValueError, match="forked"):
                    checkpoint.wait()
                checkpoint.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        if step == 1:
            checkpoint.commit()
    checkpoint.wait()
    for step in (1, 2):
        assert checkpoint.restart(step).read("T").tobytes() == field(step).tobytes()
    checkpoint.close()


def test_options_that_nothing_can_be_packed_with_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_mem"):
        knarr.Checkpoint(tmp_path, max_mem="16M")
    with pytest.raises(ValueError, match="groups have 1 to 512 ranks"):
        knarr.Checkpoint(tmp_path, group_size=1000)


@pytest.mark.parametrize(
    "hand_over",
    [
        lambda checkpoint: checkpoint.put("names", np.array([object()])),
        lambda checkpoint: checkpoint.put("T", np.zeros(3), start=(1,)),
        lambda checkpoint: checkpoint.put("T", np.zeros(3), shape=(9,), start=(-1,)),
        lambda checkpoint: checkpoint.put("T", np.zeros(3), shape=(9.7,)),
        lambda checkpoint: checkpoint.put(3, np.zeros(3)),
        lambda checkpoint: checkpoint.add_file(None),
    ],
)
def test_a_step_that_lacks_something_is_not_committed(tmp_path: Path, hand_over: Callable[[Any], None]) -> None:
    """Whatever was wrong with the call, and also if the program catches the error."""
    with knarr.Checkpoint(tmp_path) as checkpoint:
        checkpoint.begin(1)
        checkpoint.put("u", field(1))
        with pytest.raises((TypeError, ValueError, OverflowError)):
            hand_over(checkpoint)
        with pytest.raises(ValueError, match=r"array|file"):
            checkpoint.commit()
        assert checkpoint.restart() is None


def test_steps_are_counted_from_0(tmp_path: Path) -> None:
    with knarr.Checkpoint(tmp_path) as checkpoint:
        with pytest.raises(ValueError, match="step -1: steps are counted from 0"):
            checkpoint.begin(-1)
        with pytest.raises(TypeError):
            checkpoint.begin(1.5)
