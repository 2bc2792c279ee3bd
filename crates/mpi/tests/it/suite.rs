//! The conformance suite of communicators under every MPI that is installed: the adapter is compiled with its mpicc, and
//! mpirun starts this test program again for each rank. Skipped for an MPI that is not there, which CI refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests report by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use knarr_array::comm::{self, Comm};
use knarr_array::comm_suite;
use knarr_mpi::{Launch, NAMED_BY};

/// Name of the compiler, and mpirun with what containers need.
const MPIS: [(&str, &str, &[&str]); 2] = [
    ("mpicc.openmpi", "mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe"]),
    ("mpicc.mpich", "mpirun.mpich", &[]),
];

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Compiles the adapter, with `options`.
fn adapter(compiler: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/knarr_mpi.c");
    // Tests run at the same time.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("{compiler}-{}-{number}.so", std::process::id());
    let adapter = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiled = Command::new(compiler)
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"])
        .args(options)
        .arg(source)
        .arg("-o")
        .arg(&adapter)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    adapter
}

/// Calls `check` for every MPI that is installed, with a function that runs a test of this program on so many ranks.
/// Its adapter is compiled with `macros`.
fn with_every_mpi(macros: &[&str], check: impl Fn(&dyn Fn(usize, &str) -> Output)) {
    for (compiler, mpirun, options) in MPIS {
        if !is_installed(compiler) || !is_installed(mpirun) {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI takes no skips: there is no {compiler}; run 'make setup' as root"
            );
            eprintln!("skipped: there is no {compiler}");
            continue;
        }
        let adapter = adapter(compiler, macros);
        check(&|ranks, test| {
            Command::new(mpirun)
                .args(options)
                .args(["-n", &ranks.to_string()])
                .arg(std::env::current_exe().unwrap())
                .args([&format!("suite::{test}"), "--exact", "--ignored", "--nocapture"])
                .env(NAMED_BY, &adapter)
                .output()
                .unwrap()
        });
        std::fs::remove_file(adapter).unwrap();
    }
}

/// Runs the conformance suite on so many ranks.
fn check(run: &dyn Fn(usize, &str) -> Output, ranks: usize) {
    let output = run(ranks, "on_each_rank");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert_eq!(out.matches("1 passed").count(), ranks, "{out}");
}

#[test]
fn every_mpi_does_what_a_communicator_must() {
    with_every_mpi(&[], |run| [2, 3, 7, 8].into_iter().for_each(|ranks| check(run, ranks)));
}

#[test]
fn long_messages_go_in_pieces() {
    with_every_mpi(&["-DKNARR_LONGEST_PIECE=1024"], |run| [2, 3].into_iter().for_each(|ranks| check(run, ranks)));
}

#[test]
fn a_rank_that_panics_ends_all() {
    with_every_mpi(&[], |run| {
        // Rank 4 of seven has ranks 5 and 6 behind it.
        for (ranks, test) in [(3, "rank_1_panics"), (7, "rank_4_panics")] {
            let begin = Instant::now();
            let output = run(ranks, test);
            assert!(!output.status.success());
            assert!(begin.elapsed() < Duration::from_secs(120), "the others waited");
        }
    });
}

#[test]
#[ignore = "takes 5 GiB of memory: by hand"]
fn messages_of_more_than_2_gib_arrive() {
    with_every_mpi(&[], |run| {
        let output = run(2, "sends_more_than_2_gib");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    });
}

#[test]
#[ignore = "run under mpirun by another test"]
fn on_each_rank() {
    let launch = Launch::of_environment().expect("mpirun started this");
    let mpi = launch.join().unwrap();
    assert_eq!((mpi.rank(), mpi.size(), mpi.node()), (launch.rank, launch.size, 0));
    comm_suite::check(&mpi).unwrap();
    assert!(!mpi.is_broken());
}

fn panics(lost: usize) {
    let mpi = Launch::of_environment().expect("mpirun started this").join().unwrap();
    comm::barrier(&mpi).unwrap();
    assert!(mpi.rank() != lost, "rank {lost} is lost");
    // The others wait for it.
    comm::agree(&mpi, Ok(())).unwrap();
}

#[test]
#[ignore = "run under mpirun by another test"]
fn rank_1_panics() {
    panics(1);
}

#[test]
#[ignore = "run under mpirun by another test"]
fn rank_4_panics() {
    panics(4);
}

#[test]
#[ignore = "run under mpirun by another test"]
fn sends_more_than_2_gib() {
    let mpi = Launch::of_environment().expect("mpirun started this").join().unwrap();
    let length = (2 << 30) + 12_345;
    // Another value in each piece, also where one begins.
    let value = |i: usize| u8::try_from((i >> 12) % 251).unwrap();
    if mpi.rank() == 0 {
        mpi.send(1, &(0..length).map(value).collect::<Vec<u8>>()).unwrap();
    } else {
        let message = mpi.receive(0).unwrap();
        assert_eq!(message.len(), length);
        assert!(message.iter().enumerate().all(|(i, &byte)| byte == value(i)));
    }
}
