//! Stores in a bucket pass the suites of all stores. The server is moto, which comes with `make setup`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use knarr_flow::urls::{Contents, StoreResolver};
use knarr_s3::ObjectStores;
use knarr_testing::suites::store::{Objects, Stores, check};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{ObjectStore, ObjectStoreExt};

const MOTO_ANSWERS_WITHIN: Duration = Duration::from_secs(60);
const BUCKET: &str = "stores";

/// moto in a process of its own, with a bucket.
struct Server {
    process: Child,
    endpoint: String,
}

/// The interpreter with moto: `KNARR_PYTHON`, or the one of the repository's `.venv`.
fn python() -> PathBuf {
    let python = std::env::var_os("KNARR_PYTHON")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python"), PathBuf::from);
    assert!(python.exists(), "{} is missing: set KNARR_PYTHON or run 'make setup'", python.display());
    python
}

impl Server {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new(python())
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { process, endpoint: format!("http://127.0.0.1:{port}") };
        let begin = Instant::now();
        // It may take a connection before it answers any.
        let ask = || -> std::io::Result<String> {
            let mut socket = TcpStream::connect(("127.0.0.1", port))?;
            write!(
                socket,
                "PUT /{BUCKET} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )?;
            let mut answer = String::new();
            socket.read_to_string(&mut answer).map(|_| answer)
        };
        let answer = loop {
            match ask() {
                Ok(answer) => break answer,
                Err(error) => {
                    assert!(server.process.try_wait().unwrap().is_none(), "moto ended: is it installed?");
                    assert!(begin.elapsed() < MOTO_ANSWERS_WITHIN, "moto does not answer: {error}");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        };
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        server
    }

    fn variables(&self) -> Vec<(String, String)> {
        let pairs = [
            ("AWS_ACCESS_KEY_ID", "testing"),
            ("AWS_SECRET_ACCESS_KEY", "testing"),
            ("AWS_ENDPOINT_URL", &self.endpoint),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// What looks into the bucket from outside.
    fn bucket(&self) -> AmazonS3 {
        AmazonS3Builder::new()
            .with_endpoint(&self.endpoint)
            .with_allow_http(true)
            .with_bucket_name(BUCKET)
            .with_access_key_id("testing")
            .with_secret_access_key("testing")
            .build()
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn everything(runtime: &tokio::runtime::Runtime, bucket: &AmazonS3) -> Objects {
    runtime.block_on(async {
        let mut objects = Objects::new();
        for found in bucket.list(None).try_collect::<Vec<_>>().await.unwrap() {
            let bytes = bucket.get(&found.location).await.unwrap().bytes().await.unwrap();
            objects.insert(found.location.to_string(), bytes.to_vec());
        }
        objects
    })
}

#[test]
fn a_bucket() {
    let server = Server::start();
    let (stores, bucket) = (ObjectStores::with(server.variables()), server.bucket());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let contents = Contents { noun: "store", descriptions: "zarr.json", is_mark: |name| name == "zarr.json" };
    let url = format!("s3://{BUCKET}/a b/store.zarr");
    let file = std::env::temp_dir().join(format!("knarr-s3-stores-{}", std::process::id()));
    check(&Stores {
        create: &|| stores.create(&url, contents, false),
        published: &|| {
            let found = everything(&runtime, &bucket);
            let below =
                |(key, bytes): (String, Vec<u8>)| Some((key.strip_prefix("a b/store.zarr/")?.to_owned(), bytes));
            let found: Objects = found.into_iter().map(|object| below(object).unwrap()).collect();
            found.contains_key("zarr.json").then_some(found)
        },
        read: &|| Some(stores.read(&url).unwrap()),
        overhead: &|| 0,
        remove: &|| {
            let found = everything(&runtime, &bucket);
            runtime.block_on(async {
                for key in found.keys() {
                    bucket.delete(&key.as_str().into()).await.unwrap();
                }
            });
        },
        file: &file,
    });
    assert_eq!(everything(&runtime, &bucket), Objects::new(), "nothing stays of what was given up");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn bytes_come_in_any_pieces() {
    const MIB: usize = 1 << 20;
    let server = Server::start();
    let stores = Arc::new(ObjectStores::with(server.variables()));
    let contents = Contents { noun: "store", descriptions: "zarr.json", is_mark: |name| name == "zarr.json" };
    let url = format!("s3://{BUCKET}/pieces");
    let bytes: Vec<u8> = (0..20 * MIB).map(|at| u8::try_from(at * 7 / 5 % 251).unwrap()).collect();
    for lengths in [vec![8 * MIB, 8 * MIB, 4 * MIB], vec![20 * MIB], vec![1, 17 * MIB, 3 * MIB - 1], vec![8 * MIB]] {
        let mut store = stores.create(&url, contents, true).unwrap();
        let mut at = 0;
        for length in &lengths {
            assert_eq!(store.append("a/grown", &bytes[at..at + length]).unwrap(), at as u64);
            at += length;
        }
        store.finish("a/grown").unwrap();
        assert!(store.append("a/grown", b"more").is_err(), "a finished object does not grow");
        store.write("a/whole", &bytes[..at]).unwrap();
        store.write("zarr.json", b"{}").unwrap();
        assert_eq!(store.publish().unwrap(), 2 * at as u64 + 2);
        let mut found = Vec::new();
        let read = stores.read(&url).unwrap();
        for key in ["a/grown", "a/whole"] {
            let whole = knarr_flow::read_store::Part::Whole { most: u64::MAX };
            assert_eq!(read.get(key, whole, &mut found).unwrap(), Some(at as u64));
            assert!(found == bytes[..at], "{key} in {lengths:?}");
        }
    }
}
