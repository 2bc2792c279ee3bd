"""Servers of objects on the loopback: S3 (moto or s3s-fs), a proxy that misbehaves, and a web server of a folder."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import boto3
import botocore.config
import botocore.exceptions
import pytest

START_LIMIT_S = 60
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}
FEW = {"AWS_MAX_ATTEMPTS": "2"}
"""Attempts of a request in tests where it fails for good."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bucket:
    """A bucket of a server, and what is in it."""

    def __init__(self, endpoint: str, name: str):
        self.name = name
        self.client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
            config=botocore.config.Config(s3={"addressing_style": "path"}, proxies={}),
        )
        self.client.create_bucket(Bucket=name)

    def url(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def keys(self, prefix: str = "") -> dict[str, int]:
        """Lengths of all objects below a prefix, by the rest of their keys."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        found = (one for page in pages for one in page.get("Contents", ()))
        return {one["Key"].removeprefix(prefix): one["Size"] for one in found}

    def get(self, key: str) -> bytes:
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=body)

    def put_folder(self, folder: Path, prefix: str) -> None:
        for path in folder.rglob("*"):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder)}", path.read_bytes())

    def download(self, prefix: str, folder: Path) -> Path:
        for key in self.keys(f"{prefix}/"):
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.get(f"{prefix}/{key}"))
        return folder

    def uploads(self) -> list[str]:
        """Keys of uploads in parts that are neither complete nor given up."""
        try:
            listed = self.client.list_multipart_uploads(Bucket=self.name)
        except botocore.exceptions.ClientError as error:
            if error.response["Error"]["Code"] == "NotImplemented":
                pytest.skip("s3s-fs does not list uploads in parts")
            raise
        return [one["Key"] for one in listed.get("Uploads", ())]


class S3:
    """moto in a process of its own, or `s3s-fs` where the variable S3S_FS names that program: another opinion."""

    def __init__(self) -> None:
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.folder = tempfile.TemporaryDirectory(prefix="knarr-s3-")
        if program := os.environ.get("S3S_FS"):
            known = ["--access-key", "testing", "--secret-key", "testing"]
            command = [program, *known, "--host", "127.0.0.1", "--port", str(self.port), self.folder.name]
        else:
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None, "the server ended"
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.1)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


@dataclass
class Request:
    """A request as the proxy sees it."""

    method: str
    path: str
    body: bytes
    number: int
    """How many requests of this method and path there were before."""

    @property
    def key(self) -> str:
        """Key of the object, without its bucket."""
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]


def is_chunk(one: Request) -> bool:
    return one.method == "PUT" and "/c/" in one.key


Answer = Callable[[Request], tuple[int, bytes] | str | float | None]
"""What becomes of a request: an answer of the proxy's own; ``"drop"``: the connection is closed; a number: seconds to
wait before it is passed on; None: it is passed on."""


@dataclass
class Proxy:
    """Passes requests on to a server, unless `answer` says otherwise."""

    target_port: int
    answer: Answer = lambda request: None
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                known = sum((one.method, one.path) == (self.command, self.path) for one in proxy.requests)
                request = Request(self.command, self.path, body, known)
                proxy.requests.append(request)
                what = proxy.answer(request)
                if what == "drop":
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                if isinstance(what, tuple):
                    self.send_response(what[0])
                    self.send_header("Content-Length", str(len(what[1])))
                    self.end_headers()
                    self.wfile.write(what[1])
                    return
                if isinstance(what, int | float):
                    time.sleep(what)
                self.pass_on(body)

            def pass_on(self, body: bytes) -> None:
                connection = http.client.HTTPConnection("127.0.0.1", proxy.target_port, timeout=60)
                headers = {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "expect")}
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "content-length", "transfer-encoding", "server", "date"):
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else None
                self.send_header("Content-Length", length or str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)
                connection.close()

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def puts(self) -> list[str]:
        """Keys of the objects that were put, in order."""
        return [one.key for one in self.requests if one.method == "PUT"]

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Web:
    """Serves a folder as web servers do, with ranges. With a file of certificate and key it speaks TLS."""

    def __init__(self, folder: Path, certificate: Path | None = None):
        self.ranges: list[str] = []
        web = self

        class Handler(SimpleHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def __init__(self, *arguments: object, **how: object):
                super().__init__(*arguments, directory=str(folder), **how)

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                asked = self.headers.get("Range")
                path = Path(self.translate_path(self.path))
                if asked is None or not path.is_file():
                    super().do_GET()
                    return
                web.ranges.append(f"{self.path} {asked}")
                first, _, last = asked.removeprefix("bytes=").partition("-")
                content = path.read_bytes()
                if first:
                    start, end = int(first), min(int(last or len(content) - 1), len(content) - 1)
                else:
                    start, end = max(len(content) - int(last), 0), len(content) - 1
                if start > end:
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(content)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
                self.send_header("Content-Length", str(end - start + 1))
                self.end_headers()
                self.wfile.write(content[start : end + 1])

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        scheme = "http"
        if certificate:
            scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
