"""Zarr stores and files in S3: what is written is what a directory would hold, and nothing half is ever a store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
import zarr

pytest.importorskip("moto", reason="moto is a server of S3")

from conftest import Knarr
from object_server import CREDENTIALS, S3, Answer, Request, is_chunk

MARK = ".knarr-unfinished"
# Attempts of a request in tests where it fails for good.
FEW = {"AWS_MAX_ATTEMPTS": "3"}
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


@pytest.fixture
def s3(server: S3) -> Knarr:
    """The program with credentials for the server."""
    return at(server.endpoint)


def at(endpoint: str, **variables: str) -> Knarr:
    return Knarr(**CREDENTIALS, AWS_ENDPOINT_URL=endpoint, **variables)


@pytest.fixture(scope="session")
def field(made) -> Path:
    """Several variables in several chunks, with attributes."""
    return made("netcdf", "climate_history")


def local_files(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def without_history(text: bytes) -> object:
    """Metadata without the attributes in which the command line stands."""

    def clean(value: object) -> object:
        if isinstance(value, dict):
            return {key: clean(inner) for key, inner in value.items() if key not in ("history", "knarr")}
        return value

    return clean(json.loads(text))


def noise(path: Path, mebibytes: int, chunks: int) -> Path:
    """A local store of values that do not become smaller."""
    values = np.random.default_rng(5).integers(0, 1 << 32, mebibytes << 18, "u4")
    array = zarr.create_array(path, shape=values.shape, dtype="u4", chunks=(values.size // chunks,), compressors=None)
    array[:] = values
    return path


def test_the_objects_are_those_of_a_directory(s3, bucket, field, out):
    s3("repack", field, "-o", bucket.url("a/b.zarr"))
    s3("repack", field, "-o", out / "b.zarr")
    expected = local_files(out / "b.zarr")
    assert bucket.keys("a/b.zarr/").keys() == expected.keys()
    for key, content in expected.items():
        found = bucket.get(f"a/b.zarr/{key}")
        if key.endswith("zarr.json"):
            assert without_history(found) == without_history(content), key
        else:
            assert found == content, key
    assert not list(out.glob("*.tmp")) and not bucket.uploads()


def test_stores_are_read_where_they_are(s3, bucket, field, out):
    url = bucket.url("b.zarr")
    s3("repack", field, "-o", url)
    s3("verify", field, url)
    assert s3.content_hash(url) == s3.content_hash(field)
    [told] = s3.json("inspect", url)["files"]
    assert told["path"] == url and told["format"] == "Zarr v3"
    assert "values" in s3("inspect", url).stdout
    s3("repack", url, "-o", out / "back.nc")
    s3("verify", field, out / "back.nc", "--values-only")
    s3("repack", url, "-o", bucket.url("again.zarr"))
    s3("verify", bucket.url("again.zarr"), url)


def test_other_readers_find_the_store(s3, bucket, field, tmp_path):
    s3("repack", field, "-o", bucket.url("b.zarr"))
    here = zarr.open_group(bucket.download("b.zarr", tmp_path / "b.zarr"), mode="r")
    s3("repack", field, "-o", tmp_path / "local.zarr")
    expected = zarr.open_group(tmp_path / "local.zarr", mode="r")
    assert dict(here.arrays()).keys() == dict(expected.arrays()).keys()
    for name, array in expected.arrays():
        np.testing.assert_array_equal(here[name][...], array[...])


@pytest.mark.parametrize("version", [2, 3])
def test_stores_of_others_are_read(s3, bucket, tmp_path, version):
    root = zarr.create_group(tmp_path / "z.zarr", zarr_format=version)
    values = np.arange(600.0).reshape(20, 30)
    root.create_group("g").create_array("T", shape=values.shape, dtype="f8", chunks=(7, 11))[:] = values
    bucket.put_folder(tmp_path / "z.zarr", "z.zarr")
    assert s3.content_hash(bucket.url("z.zarr")) == s3.content_hash(tmp_path / "z.zarr")
    s3("verify", tmp_path / "z.zarr", bucket.url("z.zarr"))


def test_small_chunks_share_objects_until_one_is_worth_a_request(s3, bucket, tmp_path):
    source = noise(tmp_path / "n.zarr", mebibytes=48, chunks=96)
    s3("repack", source, "-o", bucket.url("n.zarr"), "--chunks", "keep")
    assert sum("/c/" in key for key in bucket.keys("n.zarr/")) == 3
    s3("verify", source, bucket.url("n.zarr"))


def test_who_reads_all_asks_once_for_each_object(s3, bucket, proxy, tmp_path):
    source = noise(tmp_path / "n.zarr", mebibytes=40, chunks=80)
    url = bucket.url("n.zarr")
    s3("repack", source, "-o", url, "--chunks", "keep")
    # Values, two descriptions, and one answer about what there is.
    objects = bucket.keys("n.zarr/")
    for command in (["hash", url], ["verify", url, source], ["repack", url, "-o", tmp_path / "back.nc"]):
        proxy.requests.clear()
        at(proxy.endpoint)(*command)
        gets = [one.path for one in proxy.requests if one.method == "GET"]
        assert len(gets) <= len(objects) + 4, gets
    s3("verify", source, tmp_path / "back.nc")


def test_many_chunks_share_objects(s3, bucket, tmp_path):
    source = noise(tmp_path / "n.zarr", mebibytes=4, chunks=2048)
    s3("repack", source, "-o", bucket.url("n.zarr"), "--chunks", "keep")
    assert 1 < len(bucket.keys("n.zarr/")) < 200
    s3("verify", source, bucket.url("n.zarr"))


def test_large_objects_go_in_parts(s3, bucket, tmp_path, proxy):
    source = noise(tmp_path / "n.zarr", mebibytes=40, chunks=1)
    at(proxy.endpoint)("repack", source, "-o", bucket.url("n.zarr"), "--chunks", "keep", "--chain", "raw")
    assert sum("partNumber" in one.path for one in proxy.requests) == 5
    assert not bucket.uploads()
    s3("verify", source, bucket.url("n.zarr"))


def test_what_describes_the_store_comes_last(bucket, field, proxy):
    at(proxy.endpoint)("repack", field, "-o", bucket.url("b.zarr"))
    puts = proxy.puts()
    first = next(at for at, key in enumerate(puts) if key.endswith("zarr.json"))
    assert puts[0] == f"b.zarr/{MARK}" and puts[-1] == "b.zarr/zarr.json"
    assert all(key.endswith("zarr.json") for key in puts[first:])
    assert MARK not in bucket.keys("b.zarr/")


def test_only_force_replaces(s3, bucket, field, tmp_path):
    url = bucket.url("b.zarr")
    s3("repack", noise(tmp_path / "n.zarr", 1, 8), "-o", url)
    before = bucket.keys("b.zarr/")
    s3.fails(4, "repack", field, "-o", url, names=(url, "exists", "--force"))
    assert bucket.keys("b.zarr/") == before
    s3("repack", field, "-o", url, "--force")
    s3("verify", field, url)
    assert not bucket.keys("b.zarr/").keys() & {key for key in before if "/" in key}


def test_an_output_never_removes_its_input(s3, bucket, field):
    url = bucket.url("b.zarr")
    s3("repack", field, "-o", f"{url}/g.zarr")
    bucket.put("b.zarr/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    before = bucket.keys("b.zarr/")
    s3.fails(4, "repack", url, "-o", url, "--force", names=(url, "same"))
    s3.fails(4, "repack", f"{url}/g.zarr", "-o", f"{url}/", "--force", names=("inside",))
    assert bucket.keys("b.zarr/") == before


def test_what_is_no_store_is_not_replaced(s3, bucket, field):
    bucket.put("b.zarr/thesis.tex", b"years of work")
    for options in [], ["--force"]:
        s3.fails(4, "repack", field, "-o", bucket.url("b.zarr"), *options, names=("no Zarr store",))
    bucket.put("b.zarr/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    s3.fails(4, "repack", field, "-o", bucket.url("b.zarr"), "--force", names=("thesis.tex",))
    assert bucket.keys("b.zarr/").keys() == {"thesis.tex", "zarr.json"}


def test_other_formats_are_not_written(s3, bucket, field):
    s3.fails(5, "repack", field, "-o", bucket.url("a.nc"), names=("only Zarr",))
    assert not bucket.keys()


def in_python(program: str, server: S3, folder: Path) -> None:
    environment = {**os.environ, **CREDENTIALS, "AWS_ENDPOINT_URL": server.endpoint}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def holding(key_end: str, seconds: float) -> Answer:
    """Lets objects whose keys end so wait."""
    return lambda one: seconds if one.method == "PUT" and one.key.endswith(key_end) else None


def holding_until(key_end: str, go_on: threading.Event) -> Answer:
    """Lets objects whose keys end so wait until they may go on."""

    def answer(one: Request) -> None:
        if one.method == "PUT" and one.key.endswith(key_end):
            go_on.wait(100)

    return answer


@pytest.mark.parametrize("force", [False, True])
def test_a_killed_program_leaves_no_store(s3, bucket, field, proxy, tmp_path, force):
    url = bucket.url("b.zarr")
    if force:
        s3("repack", field, "-o", url)
    proxy.answer = holding("zarr.json", 30)
    running = at(proxy.endpoint).start("repack", field, "-o", url, *(["--force"] if force else []))
    while not any(key.endswith("zarr.json") for key in proxy.puts()):
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    left = bucket.keys("b.zarr/")
    assert "zarr.json" not in left and MARK in left and len(left) > 2
    s3.fails(3, "inspect", url, names=(url,))
    s3.fails(4, "repack", field, "-o", url, names=("killed", "--force"))
    s3("repack", field, "-o", url, "--force")
    s3("verify", field, url)
    assert MARK not in bucket.keys("b.zarr/")


@pytest.mark.parametrize("force", [False, True])
def test_an_interrupted_program_leaves_nothing(s3, bucket, tmp_path, proxy, force):
    source = noise(tmp_path / "n.zarr", mebibytes=64, chunks=64)
    if force:
        s3("repack", source, "-o", bucket.url("b.zarr"))
    proxy.answer = lambda one: 0.5 if is_chunk(one) else None
    options = ["--chunks", "keep", *(["--force"] if force else [])]
    running = at(proxy.endpoint).start("repack", source, "-o", bucket.url("b.zarr"), *options)
    while len(proxy.puts()) < 2:
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate()
    assert running.returncode != 0
    assert ("may be gone already" if force else "nothing was changed") in err
    assert not bucket.keys()


FAILURES: dict[str, tuple[Answer, dict[str, str], tuple[str, ...]]] = {
    "busy": (lambda one: (503, SLOW_DOWN) if is_chunk(one) else None, FEW, ("503", "SlowDown", "2 more attempts")),
    "lost": (lambda one: "drop" if is_chunk(one) else None, FEW, ("connection", "hint")),
    "slow": (
        lambda one: 120.0 if is_chunk(one) else None,
        # What removes the output must answer in this time.
        {"AWS_MAX_ATTEMPTS": "2", "AWS_TIMEOUT": "3s"},
        ("did not answer in time",),
    ),
    "denied": (
        lambda one: (403, b"<Error><Code>AccessDenied</Code></Error>") if is_chunk(one) else None,
        FEW,
        ("permit", "AccessDenied", "ask"),
    ),
    "full": (
        lambda one: (507, b"<Error><Code>InsufficientStorage</Code></Error>") if is_chunk(one) else None,
        FEW,
        ("507",),
    ),
    "no description": (
        lambda one: (503, SLOW_DOWN) if one.method == "PUT" and one.key == "b.zarr/zarr.json" else None,
        FEW,
        ("503",),
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_output_is_removed(bucket, field, proxy, name):
    answer, variables, words = FAILURES[name]
    proxy.answer = answer
    url = bucket.url("b.zarr")
    at(proxy.endpoint, **variables).fails(4, "repack", field, "-o", url, names=(url, *words))
    assert not bucket.keys() and not bucket.uploads()


def test_a_failed_part_gives_the_upload_up(bucket, tmp_path, proxy):
    source = noise(tmp_path / "n.zarr", mebibytes=40, chunks=1)
    proxy.answer = lambda one: (503, SLOW_DOWN) if "partNumber=3" in one.path else None
    wishes = ["--chunks", "keep", "--chain", "raw"]
    at(proxy.endpoint, **FEW).fails(4, "repack", source, "-o", bucket.url("n.zarr"), *wishes, names=("503",))
    assert not bucket.keys() and not bucket.uploads()


@pytest.mark.parametrize("what", [(503, SLOW_DOWN), (500, b""), "drop"])
def test_servers_that_fail_now_and_then_do_no_harm(s3, bucket, field, proxy, what, out):
    proxy.answer = lambda one: what if one.number == 0 and one.key and MARK not in one.key else None
    url = bucket.url("b.zarr")
    stubborn = at(proxy.endpoint)
    stubborn("repack", field, "-o", url)
    s3("verify", field, url)
    proxy.requests.clear()
    stubborn("verify", field, url)


def test_a_failing_server_is_told_when_reading(s3, bucket, field, proxy):
    url = bucket.url("b.zarr")
    s3("repack", field, "-o", url)
    proxy.answer = lambda one: (503, SLOW_DOWN) if "/c/" in one.key else None
    at(proxy.endpoint, **FEW).fails(3, "hash", url, names=(url, "503"))
    proxy.answer = lambda one: "drop" if "/c/" in one.key else None
    at(proxy.endpoint, **FEW).fails(3, "hash", url, names=(url, "connection"))


def test_an_endpoint_and_a_bucket_have_names(s3, field):
    for url, endpoint, words in [
        ("s3://b/a.zarr", "127.0.0.1:9000", "no URL"),
        ("s3:// b/a.zarr", "http://127.0.0.1:9", "no name of a bucket"),
    ]:
        at(endpoint).fails(2, "repack", field, "-o", url, names=(words, "hint"))
        at(endpoint).fails(2, "inspect", url, names=(words, "hint"))


def test_mistakes_are_told(server, bucket, field, knarr, s3, proxy):
    url = bucket.url("b.zarr")
    for command in (["repack", field, "-o", url], ["inspect", url]):
        hidden = {name: "" for name in CREDENTIALS}
        Knarr(**hidden, AWS_ENDPOINT_URL=server.endpoint).fails(
            2, *command, names=("no credentials", "AWS_ACCESS_KEY_ID")
        )
    nowhere = f"s3://none-{uuid.uuid4().hex}/b.zarr"
    s3.fails(3, "repack", field, "-o", nowhere, names=(nowhere, "no such bucket"))
    s3.fails(3, "inspect", nowhere, names=(nowhere, "no such bucket"))
    s3.fails(3, "inspect", url, names=(url, "neither a Zarr store nor a file"))
    proxy.answer = lambda one: (403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
    at(proxy.endpoint).fails(4, "repack", field, "-o", url, names=(url, "credentials", "SignatureDoesNotMatch"))
    at(proxy.endpoint).fails(3, "inspect", url, names=(url, "credentials", "SignatureDoesNotMatch"))
    at("http://127.0.0.1:9", **FEW).fails(4, "repack", field, "-o", url, names=(url, "cannot be reached"))
    assert not bucket.keys()


def test_another_writer_at_the_same_place_is_refused(s3, bucket, field, proxy):
    url = bucket.url("b.zarr")
    go_on = threading.Event()
    proxy.answer = holding_until("/0", go_on)
    first = at(proxy.endpoint).start("repack", field, "-o", url)
    while len(proxy.puts()) < 2:
        assert first.poll() is None
        time.sleep(0.01)
    s3.fails(4, "repack", field, "-o", url, names=("another program writes there",))
    go_on.set()
    _, said = first.communicate()
    assert first.returncode == 0, said
    s3("verify", field, url)


def test_who_was_replaced_meanwhile_shows_nothing(s3, bucket, field, proxy, tmp_path):
    url = bucket.url("b.zarr")
    go_on = threading.Event()
    proxy.answer = holding_until("/0", go_on)
    first = at(proxy.endpoint).start("repack", field, "-o", url)
    while len(proxy.puts()) < 2:
        assert first.poll() is None
        time.sleep(0.01)
    other = noise(tmp_path / "n.zarr", 1, 4)
    s3.fails(4, "repack", other, "-o", url, "--force", names=("another program writes there", f"process {first.pid}"))
    # Of other machines nobody knows whether they go on.
    bucket.put(f"b.zarr/{MARK}", b"elsewhere, process 1, 5.0, .mark.knarr-1-1-1-1")
    s3("repack", other, "-o", url, "--force")
    go_on.set()
    _, said = first.communicate()
    assert first.returncode == 4 and url in said, said


@pytest.mark.parametrize("family, name", [("netcdf", "climate_history"), ("netcdf", "cdf2_all")])
def test_files_are_read(s3, bucket, made, out, family, name):
    path = made(family, name)
    bucket.put("d/file.nc", path.read_bytes())
    url = bucket.url("d/file.nc")
    assert s3.content_hash(url) == s3.content_hash(path)
    s3("verify", path, url)
    [told] = s3.json("inspect", url)["files"]
    assert told["path"] == url
    s3("repack", url, "-o", out / "a.zarr")
    s3("verify", path, out / "a.zarr")
    s3("repack", url, "-o", bucket.url("a.zarr"))
    s3("verify", path, bucket.url("a.zarr"))


def test_stores_in_a_zip_file_are_read(s3, bucket, field, out):
    s3("repack", field, "-o", out / "a.zarr.zip")
    bucket.put("d/a.zarr.zip", (out / "a.zarr.zip").read_bytes())
    s3("verify", field, bucket.url("d/a.zarr.zip"))


def test_damage_names_the_url(s3, bucket, field):
    content = field.read_bytes()
    bucket.put("short.nc", content[: len(content) // 2])
    url = bucket.url("short.nc")
    message = s3.fails(3, "hash", url, names=(url,))
    assert ".knarr-fetched" not in message


def test_python_reads_and_writes(server, bucket, field, tmp_path):
    program = f"""
        import knarr
        done = knarr.repack({str(field)!r}, {bucket.url("p.zarr")!r})
        assert done.output_bytes > 0
        assert knarr.verify({str(field)!r}, {bucket.url("p.zarr")!r})
        assert knarr.content_hash({bucket.url("p.zarr")!r})["hash"] == knarr.content_hash({str(field)!r})["hash"]
        try:
            knarr.repack({str(field)!r}, {bucket.url("p.zarr")!r})
        except FileExistsError as error:
            assert "exists" in str(error), error
        else:
            raise AssertionError("it was replaced")
    """
    in_python(program, server, tmp_path)


def test_python_writes_datasets(server, bucket, tmp_path):
    program = f"""
        import dask.array, numpy, xarray, knarr

        def fail(block, block_info=None):
            if block_info[0]["chunk-location"] == (7, 0):
                raise ZeroDivisionError("block 7")
            return block

        values = dask.array.random.default_rng(1).integers(0, 99, size=(1000, 500), chunks=(100, 500))
        ds = xarray.Dataset({{"v": (("y", "x"), values)}}, {{"x": numpy.arange(500.0)}}, {{"title": "one"}})
        knarr.write(ds, {bucket.url("d.zarr")!r})
        knarr.write(ds, "here.zarr")
        assert knarr.verify("here.zarr", {bucket.url("d.zarr")!r})
        try:
            knarr.write(ds, {bucket.url("d.zarr")!r})
        except FileExistsError as error:
            assert "exists" in str(error), error
        else:
            raise AssertionError("it was replaced")
        try:
            broken = values.map_blocks(fail, dtype=values.dtype)
            knarr.write(xarray.Dataset({{"v": (("y", "x"), broken)}}), {bucket.url("e.zarr")!r})
        except ZeroDivisionError:
            pass
        else:
            raise AssertionError("it was written")
    """
    in_python(program, server, tmp_path)
    assert bucket.keys("e.zarr") == {}


@pytest.mark.parametrize(
    ("rows", "lengths", "a_share"),
    # Records of 1.1 MB: 12 share an object, not 14 as 16 MiB would have it; of 4.5 MB, in any number.
    [(140, (24, 24), 12), (560, (3, 2, 1, 4), 1)],
)
def test_records_that_are_appended_go_to_new_objects(server, bucket, tmp_path, rows, lengths, a_share):
    url = bucket.url("grows.zarr")
    program = f"""
        import numpy, xarray, knarr

        def dataset(start, length):
            values = numpy.random.default_rng(start).normal(size=(length, {rows}, 1000)).round(2)
            return xarray.Dataset({{"v": (("time", "y", "x"), values)}})

        parts, start = [], 0
        for length in {lengths}:
            parts.append(dataset(start, length))
            if start == 0:
                knarr.write(parts[0], {url!r}, chunks={{"time": 1}}, chain="zstd:1")
            else:
                done = knarr.write(parts[-1], {url!r}, append_dim="time")
                assert (done.objects, done.rewritten) == (length // {a_share}, 0), done
            start += length
        xarray.concat(parts, "time").to_netcdf("expected.nc")
        assert knarr.verify("expected.nc", {url!r}, values_only=True)
    """
    in_python(program, server, tmp_path)
    objects = [key for key in bucket.keys("grows.zarr/") if key.startswith("v/c/")]
    assert sorted(objects, key=len) == [f"v/c/{number}/0/0" for number in range(sum(lengths) // a_share)]


def test_python_writes_parts_of_stores(server, bucket, tmp_path):
    url = bucket.url("d.zarr")
    program = f"""
        import dask.array, numpy, xarray, knarr

        def dataset(start, stop, first):
            values = numpy.arange(first, first + (stop - start) * 6000.0).reshape(-1, 60, 100)
            words = numpy.array([f"w{{n}}" for n in range(start, stop)], dtype=object)
            return xarray.Dataset(
                {{"v": (("time", "y", "x"), values), "word": ("time", words)}}, {{"time": numpy.arange(start, stop)}}
            )

        template = dataset(0, 12, 0)[["v"]].chunk({{"time": 4}})
        knarr.write(template, {url!r}, compute=False)
        for start in (0, 4, 8):
            part = dataset(start, start + 4, start)[["v"]]
            knarr.write(part, {url!r}, region={{"time": "auto"}})
        part = dataset(3, 5, 77)[["v"]]
        try:
            knarr.write(part, {url!r}, region={{"time": slice(3, 5)}})
        except ValueError as error:
            assert "safe_chunks=False" in str(error), error
        else:
            raise AssertionError("it was written")
        knarr.write(part, {url!r}, region={{"time": slice(3, 5)}}, safe_chunks=False)
        knarr.write(dataset(12, 19, 5)[["v"]], {url!r}, append_dim="time")
        parts = [dataset(0, 4, 0)[["v"]], dataset(4, 8, 4)[["v"]], dataset(8, 12, 8)[["v"]], dataset(12, 19, 5)[["v"]]]
        expected = xarray.concat(parts, "time")
        expected["v"][3:5] = part["v"]
        expected.to_netcdf("expected.nc")
        assert knarr.verify("expected.nc", {url!r}, values_only=True)

        knarr.write(dataset(0, 8, 0), {bucket.url("words.zarr")!r}, chunks={{"time": 4}})
        knarr.write(dataset(8, 10, 3), {bucket.url("words.zarr")!r}, append_dim="time")
        for where in ("s3://{bucket.name}/none.zarr", "https://127.0.0.1:1/none.zarr"):
            try:
                knarr.write(part, where, region={{"time": slice(3, 5)}})
            except (FileNotFoundError, ValueError, knarr.KnarrError) as error:
                assert "compute=False" in str(error) or "only read" in str(error), error
            else:
                raise AssertionError("it was written")
    """
    in_python(program, server, tmp_path)
    (tmp_path / "words").mkdir()
    for key in bucket.keys("words.zarr/"):
        path = tmp_path / "words" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.get(f"words.zarr/{key}"))
    words = zarr.open_group(tmp_path / "words", mode="r")["word"][...]
    assert list(words) == [f"w{n}" for n in range(10)]
