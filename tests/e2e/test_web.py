"""What web servers hold is read: Zarr stores with consolidated metadata, and files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

pytest.importorskip("boto3", reason="comes with moto")

from conftest import Knarr
from object_server import Proxy, Web


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    return folder


@pytest.fixture
def web(folder: Path) -> Iterator[Web]:
    web = Web(folder)
    yield web
    web.stop()


@pytest.fixture
def field(made) -> Path:
    return made("netcdf", "climate_history")


def test_stores_are_read(knarr, web, folder, field, out):
    knarr("repack", field, "-o", folder / "a b.zarr")
    url = f"{web.url}/a%20b.zarr"
    knarr("verify", field, url)
    assert knarr.content_hash(url) == knarr.content_hash(field)
    [told] = knarr.json("inspect", url)["files"]
    assert told["path"] == url and told["format"] == "Zarr v3"
    knarr("repack", url, "-o", out / "back.nc")
    knarr("verify", field, out / "back.nc", "--values-only")


@pytest.mark.parametrize("version", [2, 3])
def test_stores_of_others_are_read(knarr, web, folder, version):
    root = zarr.create_group(folder / "z.zarr", zarr_format=version)
    values = np.arange(600.0).reshape(20, 30)
    group = root.create_group("g", attributes={"title": "inner"})
    # Chunks that hold nothing but the fill value are not there.
    group.create_array("T", shape=(20, 60), dtype="f8", chunks=(7, 11))[:, :30] = values
    group.create_array("b-c", shape=(3,), dtype="i2", attributes={"units": "m"})[:] = [1, 2, 3]
    url = f"{web.url}/z.zarr"
    knarr.fails(3, "inspect", url, names=(url, "consolidate"))
    zarr.consolidate_metadata(folder / "z.zarr", zarr_format=version)
    knarr("verify", folder / "z.zarr", url)
    assert knarr.content_hash(url) == knarr.content_hash(folder / "z.zarr")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that is its own authority, with its key."""
    path = tmp_path / "server.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    command += [
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        path,
        "-out",
        tmp_path / "public.pem",
    ]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(path.read_text() + (tmp_path / "public.pem").read_text())
    return path


def test_servers_with_tls_are_read_if_they_are_who_they_say(field, folder, certificate):
    web = Web(folder, certificate)
    trusting = Knarr(SSL_CERT_FILE=str(certificate.with_name("public.pem")))
    try:
        trusting("repack", field, "-o", folder / "a.zarr")
        for url in (f"{web.url}/a.zarr", f"{web.url}/a.nc"):
            shutil.copy(field, folder / "a.nc")
            trusting("verify", field, url)
        Knarr(AWS_MAX_ATTEMPTS="1").fails(3, "inspect", f"{web.url}/a.nc", names=(web.url, "SSL_CERT_FILE"))
    finally:
        web.stop()


def test_a_lone_array_needs_no_consolidated_metadata(knarr, web, folder):
    zarr.create_array(folder / "lone.zarr", shape=(50,), dtype="i4", chunks=(10,))[:] = np.arange(50)
    knarr("verify", folder / "lone.zarr", f"{web.url}/lone.zarr")


def test_shards_are_read_by_ranges(knarr, web, folder):
    # Shorter ones are read whole.
    values = np.random.default_rng(7).random(3 << 20)
    array = zarr.create_array(folder / "s.zarr", shape=values.shape, dtype="f8", chunks=(1 << 16,), shards=values.shape)
    array[:] = values
    knarr("verify", folder / "s.zarr", f"{web.url}/s.zarr")
    assert any("bytes=-" in one for one in web.ranges), "indices are read from the end"
    assert len(web.ranges) <= 6, "chunks that follow each other come together"


@pytest.mark.parametrize("name", ["climate_history", "cdf2_all"])
def test_files_are_read(knarr, web, folder, made, out, name):
    path = made("netcdf", name)
    (folder / "a b.nc").write_bytes(path.read_bytes())
    url = f"{web.url}/a%20b.nc"
    knarr("verify", path, url)
    knarr("repack", url, "-o", out / "a.nc")
    knarr("verify", path, out / "a.nc")


def test_files_without_names_of_variables_are_called_as_they_are(knarr, web, folder):
    values = np.arange(600, dtype="f4").reshape(20, 30)
    np.save(folder / "a b.npy", values)
    (folder / "a b.bin").write_bytes(values.tobytes())
    for suffix, more in ("npy", ()), ("bin", ("--raw", "shape=20x30,type=float32")):
        path, url = folder / f"a b.{suffix}", f"{web.url}/a%20b.{suffix}"
        knarr("verify", path, url, *more)
        assert list(knarr.json("hash", url, *more)["variables"]) == ["a b"]


def test_stores_in_a_zip_file_are_read(knarr, web, folder, field):
    knarr("repack", field, "-o", folder / "a b.zarr.zip")
    knarr("verify", field, f"{web.url}/a%20b.zarr.zip")


def test_failures_are_told(knarr, web, folder, field):
    knarr.fails(3, "inspect", f"{web.url}/none.nc", names=(f"{web.url}/none.nc", "neither a Zarr store nor a file"))
    knarr.fails(3, "inspect", f"{web.url}/", names=("neither a Zarr store nor a file",))
    knarr.fails(4, "repack", field, "-o", f"{web.url}/b.zarr", names=("s3:// are written",))
    few = type(knarr)(AWS_MAX_ATTEMPTS="3")
    few.fails(3, "inspect", "http://127.0.0.1:9/a.nc", names=("http://127.0.0.1:9/a.nc", "cannot be reached"))


def test_servers_that_forbid_or_fail_are_told(knarr, web, folder, field):
    knarr("repack", field, "-o", folder / "a.zarr")
    proxy = Proxy(web.server.server_address[1], lambda one: (403, b"") if "/c/" in one.path else None)
    few = type(knarr)(AWS_MAX_ATTEMPTS="3")
    few.fails(3, "hash", f"{proxy.endpoint}/a.zarr", names=(f"{proxy.endpoint}/a.zarr", "403"))
    proxy.answer = lambda one: (503, b"") if "/c/" in one.path else None
    few.fails(3, "hash", f"{proxy.endpoint}/a.zarr", names=("503",))
    proxy.answer = lambda one: (503, b"") if one.number == 0 else None
    few("verify", field, f"{proxy.endpoint}/a.zarr")
    proxy.stop()
