//! Communicators: the conformance suite, and ranks that go away.
#![allow(clippy::unwrap_used, reason = "tests report by panicking")]

use knarr_array::comm::{self, Comm, Solo, Threads};
use knarr_array::error::{Error, ErrorKind};
use knarr_array::testing::comm_suite;

#[test]
fn solo_does_what_it_must() {
    comm_suite::check(&Solo).unwrap();
}

#[test]
fn threads_do_what_they_must() {
    for nodes in [&[0][..], &[0, 0], &[0, 1, 0], &[0, 0, 2, 2, 4, 0, 2, 7]] {
        for checked in Threads::run(Threads::on_nodes(nodes), |comm| comm_suite::check(&comm)) {
            checked.unwrap();
        }
    }
}

/// Whoever is lost, and at whichever step: everybody ends, and nobody believes that all is well.
#[test]
fn a_rank_that_is_gone_fails_the_others() {
    for lost in 0..4 {
        for step in 0..3 {
            for panics in [false, true] {
                let ended = Threads::run(Threads::new(4), |comm| {
                    for round in 0..3 {
                        if (comm.rank(), round) == (lost, step) {
                            if panics {
                                // As a panic, without its message.
                                std::panic::resume_unwind(Box::new("lost"));
                            }
                            return Err(Error::usage("left"));
                        }
                        comm::agree(&comm, Ok(()))?;
                    }
                    Ok(())
                });
                for (rank, ended) in ended.into_iter().enumerate() {
                    let expected = match rank == lost {
                        true if panics => ErrorKind::Internal,
                        true => ErrorKind::Usage,
                        false => ErrorKind::Interrupted,
                    };
                    assert_eq!(ended.unwrap_err().kind(), expected, "rank {rank}, {lost} lost in step {step}");
                }
            }
        }
    }
}
