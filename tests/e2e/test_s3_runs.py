"""Programs under `knarr run` whose files become Zarr stores in a bucket."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("moto", reason="moto is a server of S3")

import test_parallel_hdf5
from conftest import KNARR, Knarr
from nodes import Launcher
from object_server import CREDENTIALS, FEW, Bucket, Request, is_chunk
from running import Runner, forget, no_spools_stay, spools
from test_pnetcdf import RULE, ranks

STEPS, ROWS = 3, 64
PLACE = "runs/1/work"
"""Where stores of the folder of a run are in the bucket."""
MARK = ".knarr-unfinished"

_ = no_spools_stay


@pytest.fixture
def run(s3: Knarr, tmp_path: Path) -> Runner:
    return Runner(KNARR, s3.environment, tmp_path)


def rule(bucket: Bucket, more: str = "") -> str:
    return f'[[file]]\npattern = "*.nc"\noutput = "{bucket.url("runs/1")}"\n{more}'


def test_files_become_stores_that_keep_their_places(run, s3, bucket, blocks, plain):
    """They are called as below the configuration: no two files become one store."""
    for folder in ("a", "b"):
        (run.folder / folder).mkdir()
        ran = run(*ranks(blocks, f"{folder}/hist.nc", STEPS, ROWS), config=rule(bucket))
        url = bucket.url(f"{PLACE}/{folder}/hist.zarr")
        (told,) = ran.result["files"]
        assert told["outcome"] == "packed" and told["output"] == url and "handed over" in told["note"]
        s3("verify", plain, url)
        assert not list(run.folder.rglob("hist*")), "nothing is written here"
    tops = {key.partition("hist.zarr")[0] for key in bucket.keys("runs/1/")}
    assert tops == {"work/a/", "work/b/"}
    everything = bucket.keys()
    assert not any(MARK in key for key in everything)


def kept(run: Runner) -> list[Path]:
    """Spools with what a bucket did not take: they leave memory."""
    assert not spools()
    return list(run.scratch.glob("knarr-spool-*"))


def one_after_the_other(*commands: list[object]) -> list[object]:
    return ["sh", "-c", "\n".join(shlex.join(map(str, command)) for command in commands)]


def test_names_without_a_suffix_of_files_stay_whole(run, bucket, blocks):
    names = ("hist.0001", "hist.0002", "hist.nc", "hist.h5")
    config = f'[[file]]\npattern = "*"\noutput = "{bucket.url("r")}"\n'
    run(*one_after_the_other(*(ranks(blocks, name, 1, 8) for name in names)), config=config)
    stores = {key.partition("/")[2].partition("/")[0] for key in bucket.keys("r/")}
    assert stores == {"hist.0001.zarr", "hist.0002.zarr", "hist.zarr", "hist.h5.zarr"}


def test_two_files_that_would_be_one_store(run, s3, bucket, blocks, plain, tmp_path_factory):
    """One outside of where the configuration is, the other inside under that path."""
    outside = tmp_path_factory.mktemp("outside")
    inside = run.top / str(outside).lstrip("/")
    inside.mkdir(parents=True)
    commands = one_after_the_other(
        ranks(blocks, outside / "hist.nc", STEPS, ROWS), ranks(blocks, inside / "hist.nc", 1, ROWS)
    )
    config = rule(bucket).replace("*.nc", "**/hist.nc")
    ran = run(*commands, config=config, ok=False)
    s3("verify", plain, bucket.url(f"runs/1{outside}/hist.zarr"))
    told = " ".join(ran.err.split())
    assert ran.code == 4 and f"{outside}/hist.nc has become that in this run" in told, told
    assert len(kept(run)) == 1


@pytest.mark.parametrize("output", ["s3", "zarr"])
def test_a_file_that_was_there_does_not_hide_the_store(run, s3, bucket, blocks, plain, output):
    """The program replaces it, and reads what it has written."""
    config = rule(bucket) if output == "s3" else f'{RULE}output = "zarr"\n'
    subprocess.run(list(map(str, ranks(blocks, "hist.nc", 1, ROWS))), cwd=run.folder, check=True)
    shutil.copy(run.folder / "hist.nc", run.folder / "other.nc")
    ran = run(
        *one_after_the_other(ranks(blocks, "hist.nc", STEPS, ROWS), ranks(blocks, "hist.nc", STEPS, ROWS, "value")),
        config=config,
    )
    assert "value 282" in ran.out
    assert sorted(path.name for path in run.folder.glob("*.nc")) == ["other.nc"]


def test_what_is_there_is_opened_changed_and_replaced(run, s3, bucket, blocks, plain):
    url = bucket.url(f"{PLACE}/hist.zarr")
    run(*ranks(blocks, "hist.nc", STEPS, ROWS), config=rule(bucket))
    ran = run(*ranks(blocks, "hist.nc", STEPS, ROWS, "value"), config=rule(bucket))
    assert "value 282" in ran.out
    assert "value 1282" in run(*ranks(blocks, "hist.nc", STEPS, ROWS, "change"), config=rule(bucket)).out
    assert "value 1282" in run(*ranks(blocks, "hist.nc", STEPS, ROWS, "value"), config=rule(bucket)).out
    assert "differ" in s3("verify", plain, url, ok=False).stdout
    run(*ranks(blocks, "hist.nc", STEPS, ROWS), config=rule(bucket))
    s3("verify", plain, url)


def test_a_file_that_is_not_there_is_the_library_s_error(run, bucket, blocks):
    ran = run(*ranks(blocks, "none.nc", STEPS, ROWS, "value"), config=rule(bucket), ok=False)
    assert ran.code != 0 and "does not exist" in ran.err and not ran.result["files"]


def test_a_store_that_may_not_be_replaced_stays(run, s3, bucket, blocks, plain):
    """NC_NOCLOBBER: PnetCDF cannot see the store, so delivering tells, and the values stay."""
    url = bucket.url(f"{PLACE}/hist.zarr")
    run(*ranks(blocks, "hist.nc", STEPS, ROWS, "new"), config=rule(bucket))
    s3("verify", plain, url)
    before = bucket.keys()
    ran = run(*ranks(blocks, "hist.nc", 2, ROWS, "new"), config=rule(bucket), ok=False)
    assert ran.code == 4 and bucket.keys() == before
    told = " ".join(ran.err.split())
    assert url in told and "a store is there" in told and "knarr run --recover" in told
    (spool,) = kept(run)
    assert "may be newer" in s3.fails(4, "run", "--recover", spool)
    for key in before:
        bucket.client.delete_object(Bucket=bucket.name, Key=key)
    s3("run", "--recover", spool)
    assert s3("verify", plain, url, ok=False).returncode != 0, "two steps are there now, not three"
    assert not kept(run)


def test_a_local_store_that_may_not_be_replaced_stays(run, knarr, blocks, plain):
    config = '[[file]]\npattern = "*.nc"\noutput = "zarr"\n'
    run(*ranks(blocks, "hist.nc", STEPS, ROWS, "new"), config=config)
    ran = run(*ranks(blocks, "hist.nc", 2, ROWS, "new"), config=config)
    assert "wants no file replaced" in " ".join(ran.err.split())
    knarr("verify", plain, run.folder / "hist.zarr")
    assert (run.folder / "hist.nc").exists(), "the library has written it"


def busy(one: Request) -> tuple[int, bytes] | None:
    return (503, b"<Error><Code>SlowDown</Code></Error>") if is_chunk(one) else None


def test_what_a_failing_server_does_not_take_is_kept(run, s3, bucket, blocks, plain, proxy):
    """Also if the program looks for the file, which is told of first."""
    proxy.answer = busy
    opens = ranks(blocks, "hist.nc", STEPS, ROWS, "value")
    ran = run(
        *one_after_the_other(ranks(blocks, "hist.nc", STEPS, ROWS), opens), config=rule(bucket), ok=False, env=FEW
    )
    told = " ".join(ran.err.split())
    assert ran.code != 0 and "503" in told and bucket.url(f"{PLACE}/hist.zarr") in told
    assert "tried again when the program has ended" in told and "knarr run --recover" in told
    assert not bucket.keys() and not bucket.uploads()
    (spool,) = kept(run)
    proxy.answer = lambda one: None
    s3("run", "--recover", spool)
    s3("verify", plain, bucket.url(f"{PLACE}/hist.zarr"))
    assert not kept(run)


def test_what_a_server_did_not_take_is_tried_again(run, s3, bucket, blocks, plain, proxy):
    proxy.answer = lambda one: busy(one) if one.number < 2 else None
    ran = run(*ranks(blocks, "hist.nc", STEPS, ROWS), config=rule(bucket), env=FEW)
    assert ran.file("hist.zarr")["outcome"] == "packed"
    s3("verify", plain, bucket.url(f"{PLACE}/hist.zarr"))
    assert not kept(run)


def test_the_newest_of_several_files_of_a_name_is_recovered(run, s3, bucket, blocks, plain, proxy):
    proxy.answer = busy
    commands = one_after_the_other(ranks(blocks, "hist.nc", 1, ROWS), ranks(blocks, "hist.nc", STEPS, ROWS))
    run(*commands, config=rule(bucket), ok=False, env=FEW)
    (spool,) = kept(run)
    assert len(list(spool.glob("*/set-aside.json"))) == 2, list(spool.glob("*/*"))
    proxy.answer = lambda one: None
    s3("run", "--recover", spool)
    s3("verify", plain, bucket.url(f"{PLACE}/hist.zarr"))
    assert not kept(run)


def test_several_files_of_a_name_do_not_replace_what_is_newer(run, s3, bucket, blocks, plain, proxy):
    proxy.answer = busy
    commands = one_after_the_other(ranks(blocks, "hist.nc", 1, ROWS), ranks(blocks, "hist.nc", 2, ROWS))
    run(*commands, config=rule(bucket), ok=False, env=FEW)
    (spool,) = kept(run)
    proxy.answer = lambda one: None
    url = bucket.url(f"{PLACE}/hist.zarr")
    s3("repack", plain, "-o", url)
    assert s3.fails(4, "run", "--recover", spool).count("may be newer") == 2
    s3("verify", plain, url)
    assert kept(run) == [spool]


def test_recovery_takes_rules_that_are_mended(run, s3, bucket, blocks, plain, proxy):
    proxy.answer = busy
    run(*ranks(blocks, "hist.nc", STEPS, ROWS), config=rule(bucket), ok=False, env=FEW)
    (spool,) = kept(run)
    (run.top / "knarr.toml").write_text(RULE)
    s3("run", "-c", run.top / "knarr.toml", "--recover", spool)
    s3("verify", plain, run.folder / "hist.nc")


def test_what_zarr_cannot_hold_becomes_a_file(run, s3, bucket, tmp_path):
    program = test_parallel_hdf5.built(tmp_path, "hdf5")
    expected = test_parallel_hdf5.plain(tmp_path, program, "hist.h5")
    ran = run(*ranks(program, "hist.h5", STEPS, ROWS), config=rule(bucket).replace("*.nc", "*.h5"))
    assert "Zarr cannot hold it" in ran.file("hist.h5")["note"]
    s3("verify", expected, run.folder / "hist.h5")
    assert not bucket.keys()


def test_closing_may_wait_until_the_server_has_it(run, bucket, blocks, proxy):
    proxy.answer = lambda one: (503, b"<Error><Code>SlowDown</Code></Error>") if is_chunk(one) else None
    ran = run(*ranks(blocks, "hist.nc", STEPS, ROWS), config=rule(bucket, 'wait = "close"\n'), ok=False, env=FEW)
    assert "ncmpi_close" in ran.err and ran.code != 0


def test_a_bucket_that_cannot_be_reached_ends_the_run_before_the_program(run, bucket, blocks):
    begun = run.folder / "begun"
    hidden = {name: "" for name in CREDENTIALS}
    cases = {
        "no such bucket": ("s3://none-at-all/runs", {}),
        "no credentials": (bucket.url("runs"), hidden),
        "cannot be reached": (bucket.url("runs"), {**FEW, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}),
    }
    for words, (url, env) in cases.items():
        config = f'[[file]]\npattern = "*.nc"\noutput = "{url}"\n'
        ran = run("touch", begun, config=config, env=env, ok=False)
        assert ran.code == 125 and words in ran.err and f"knarr.toml: {url}" in ran.err, ran.err
        assert not begun.exists()


@pytest.mark.parametrize("output", ["s3://", "gs://bucket/a", "https://host/a", "tape"])
def test_other_outputs_are_no_outputs(run, output):
    ran = run("true", config=f'[[file]]\npattern = "*.nc"\noutput = "{output}"\n', ok=False)
    assert ran.code == 125 and "s3://BUCKET or s3://BUCKET/PREFIX" in ran.err and "line 3" in ran.err, ran.err


@pytest.mark.parametrize("what", ["", "new"])
def test_a_launcher_that_is_killed_leaves_no_half_store(run, s3, bucket, blocks, plain, proxy, what):
    url = bucket.url(f"{PLACE}/hist.zarr")
    proxy.answer = lambda one: 30.0 if one.method == "PUT" and one.key.endswith("zarr.json") else None
    launcher = run.start(*ranks(blocks, "hist.nc", STEPS, ROWS, what), config=rule(bucket))
    while not any(key.endswith("zarr.json") for key in proxy.puts()):
        assert launcher.poll() is None
        time.sleep(0.01)
    launcher.send_signal(signal.SIGKILL)
    launcher.communicate()
    proxy.answer = lambda one: None
    s3.fails(3, "inspect", url)
    (spool,) = spools()
    end = time.monotonic() + 60
    # The process that has made the store ends some seconds after its launcher.
    while (done := s3("run", "--recover", spool, ok=False)).returncode != 0:
        assert "another program writes there" in done.stderr
        assert time.monotonic() < end
        time.sleep(0.5)
    s3("verify", plain, url)
    assert MARK not in bucket.keys(f"{PLACE}/hist.zarr/")
    forget(run.top)


@pytest.mark.parametrize("nodes", ["aabb", "abcd"])
def test_ranks_on_several_nodes_fill_one_store(s3, bucket, blocks, plain, tmp_path, nodes):
    job = Launcher(KNARR, {**os.environ, **s3.environment}, tmp_path)
    ran = job(blocks, "hist.nc", STEPS, ROWS, nodes=nodes, config=rule(bucket))
    url = bucket.url(f"{PLACE}/hist.zarr")
    assert ran.outcomes("hist.nc").count("packed") == 1
    s3("verify", plain, url)
    several = {key: bucket.get(f"{PLACE}/hist.zarr/{key}") for key in bucket.keys(f"{PLACE}/hist.zarr/")}
    job(blocks, "hist.nc", STEPS, ROWS, nodes="aaaa", config=rule(bucket))
    for key, content in several.items():
        if "/c/" in key:
            assert bucket.get(f"{PLACE}/hist.zarr/{key}") == content, key


def test_parallel_netcdf_writes_to_a_bucket(run, s3, bucket, tmp_path):
    program = test_parallel_hdf5.built(tmp_path, "netcdf")
    expected = test_parallel_hdf5.plain(tmp_path, program, "hist.nc")
    run(*ranks(program, "hist.nc", STEPS, ROWS), config=rule(bucket))
    s3("verify", expected, bucket.url(f"{PLACE}/hist.zarr"), "--values-only")


def test_older_values_do_not_come_back_when_they_are_tried_again(run, s3, bucket, blocks, plain, proxy):
    """The first of two files of a name is not taken, the second is."""
    chunks: list[str] = []

    def first_is_busy(one: Request) -> tuple[int, bytes] | None:
        if not is_chunk(one) or (run.folder / "second").exists():
            return None
        chunks.append(one.key)
        return busy(one)

    proxy.answer = first_is_busy
    # PnetCDF waits until the first is set aside.
    commands = one_after_the_other(
        ranks(blocks, "hist.nc", 1, ROWS),
        ["sh", "-c", "while ! ls ../.knarr/knarr-spool-*/*/set-aside.json; do sleep 0.1; done; touch second"],
        ranks(blocks, "hist.nc", STEPS, ROWS),
    )
    ran = run(*commands, config=rule(bucket), ok=False, env=FEW)
    assert ran.code == 0 and chunks
    s3("verify", plain, bucket.url(f"{PLACE}/hist.zarr"))
    # Nobody needs the older values any more.
    assert kept(run) == []
