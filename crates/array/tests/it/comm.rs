//! Communicators: the conformance suite, how many messages ranks send, and ranks that go away.
#![allow(clippy::unwrap_used, reason = "tests report by panicking")]

use std::cell::Cell;

use knarr_array::comm::{self, Comm, ROOT, Solo, Threads};
use knarr_array::comm_suite;
use knarr_array::error::{Error, ErrorKind, Result};

#[test]
fn solo_does_what_it_must() {
    comm_suite::check(&Solo).unwrap();
}

#[test]
fn threads_do_what_they_must() {
    let sizes = [1, 2, 3, 7, 16].map(Threads::new);
    let nodes = [&[0, 1, 0][..], &[0, 0, 2, 2, 4, 0, 2, 7]].map(Threads::on_nodes);
    for ranks in sizes.into_iter().chain(nodes) {
        for checked in Threads::run(ranks, |comm| comm_suite::check(&comm)) {
            checked.unwrap();
        }
    }
}

/// Counts messages.
struct Counted {
    comm: Threads,
    sent: Cell<u32>,
    received: Cell<u32>,
}

impl Comm for Counted {
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    fn size(&self) -> usize {
        self.comm.size()
    }

    fn node(&self) -> usize {
        self.comm.node()
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        self.sent.set(self.sent.get() + 1);
        self.comm.send(to, bytes)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        self.received.set(self.received.get() + 1);
        self.comm.receive(from)
    }
}

/// What each of so many ranks sends and receives while all of them do something together.
fn messages(size: usize, work: impl Fn(&dyn Comm) -> Result<()> + Sync) -> Vec<(u32, u32)> {
    let counted = Threads::run(Threads::new(size), |comm| {
        let counted = Counted { comm, sent: Cell::new(0), received: Cell::new(0) };
        work(&counted)?;
        Ok((counted.sent.get(), counted.received.get()))
    });
    counted.into_iter().map(Result::unwrap).collect()
}

#[test]
fn messages_are_as_many_as_a_number_has_digits() {
    for (size, digits) in [(64, 6), (63, 6), (65, 7), (2, 1), (1, 0)] {
        for root in [0, size / 2, size - 1] {
            let gathered = messages(size, |comm| comm::gather(comm, root, b"x").map(drop));
            assert_eq!(gathered[root], (0, digits));
            assert!(gathered.iter().all(|&(sent, received)| sent <= 1 && received <= digits));
            let told = messages(size, |comm| comm::broadcast(comm, root, b"x".to_vec()).map(drop));
            assert_eq!(told[root], (digits, 0));
            assert!(told.iter().all(|&(sent, received)| sent <= digits && received <= 1));
        }
        assert!(messages(size, comm::barrier).iter().all(|&both| both == (digits, digits)));
    }
}

/// Whoever is lost, and at whichever step: everybody ends, and nobody believes that all is well.
#[test]
fn a_rank_that_is_gone_fails_the_others() {
    for (size, lost) in (0..4).map(|lost| (4, lost)).chain((0..7).map(|lost| (7, lost))) {
        for step in 0..3 {
            for panics in [false, true] {
                let ended = Threads::run(Threads::new(size), |comm| {
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

/// What seven ranks return where rank 4, which has ranks 5 and 6 behind it, receives one message and is gone. The others
/// stay: only what they waited for in vain tells those that wait for them.
fn without_rank_4(from: usize, work: impl Fn(&Threads) -> Result<()> + Sync) -> Vec<Result<()>> {
    let ended = Threads::run(Threads::new(7), |comm| {
        if comm.rank() == 4 {
            comm.receive(from)?;
            return Err(Error::usage("left"));
        }
        let done = work(&comm);
        Ok((comm, done))
    });
    ended.into_iter().map(|ended| ended.and_then(|(_, done)| done)).collect()
}

fn is_gone(ended: &Result<()>, ranks: &[usize]) -> bool {
    let says = |error: &Error| ranks.iter().any(|rank| error.message() == format!("rank {rank} of 7 is gone"));
    ended.as_ref().is_err_and(|error| error.kind() == ErrorKind::Interrupted && says(error))
}

#[test]
fn a_rank_that_goes_while_others_gather_through_it_fails_them() {
    let gather = |comm: &Threads| {
        comm::gather(comm, ROOT, &[1; 1000])?;
        comm::broadcast(comm, ROOT, Vec::new()).map(drop)
    };
    let ended = without_rank_4(5, gather);
    // Those that wait for it name it, and the others who told them.
    for rank in [0, 5, 6] {
        assert!(is_gone(&ended[rank], &[4]), "{rank}: {:?}", ended[rank]);
    }
    for rank in [1, 2, 3] {
        assert!(is_gone(&ended[rank], &[0, 2]), "{rank}: {:?}", ended[rank]);
    }
}

#[test]
fn a_rank_that_goes_while_others_are_told_through_it_fails_them() {
    let told = |comm: &Threads| {
        comm::broadcast(comm, ROOT, vec![1; 1000])?;
        // Who is not behind it learns of it the next time.
        comm::agree(comm, Ok(()))
    };
    let ended = without_rank_4(0, told);
    for rank in [0, 5, 6] {
        assert!(is_gone(&ended[rank], &[4]), "{rank}: {:?}", ended[rank]);
    }
    for rank in [1, 2, 3] {
        assert!(is_gone(&ended[rank], &[0, 2]), "{rank}: {:?}", ended[rank]);
    }
}
