//! What every [`Comm`] must do. Each of its ranks calls [`check`] at the same time.

use crate::comm::{self, Comm, ROOT};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of rank `rank` in round `round`: other ones and another number of them each time, now and then none.
fn message(rank: usize, round: usize) -> Vec<u8> {
    of_length((rank * 7919 + round * 104_729) % 5_000 * (round % 3), rank * 7 + round)
}

fn of_length(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|i| u8::try_from((i * 31 + seed) % 251).unwrap_or(0)).collect()
}

fn expect(comm: &dyn Comm, holds: bool, what: &str) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Error::internal(format!("rank {} of {}: {what}", comm.rank(), comm.size()))),
    }
}

/// Checks a communicator.
///
/// # Errors
/// What it does not do.
pub fn check(comm: &dyn Comm) -> Result<()> {
    expect(comm, comm.rank() < comm.size(), "its number is not below that of ranks")?;
    messages(comm)?;
    many_to_one(comm)?;
    wrong_ranks(comm)?;
    places(comm)?;
    together(comm)?;
    large(comm)?;
    agreement(comm)
}

/// What one rank sends to another arrives whole and in order, whatever its length: also about powers of two, where
/// implementations may cut.
fn messages(comm: &dyn Comm) -> Result<()> {
    let lengths = [0, 1, 0, 7, 8, 9, 1023, 1024, 1025, 0, 2048, 3000, 4096, 65_536, 70_000];
    for from in 0..comm.size() {
        for to in (0..comm.size()).filter(|&to| to != from) {
            for (number, length) in lengths.into_iter().enumerate() {
                let message = of_length(length, from * 17 + to + number);
                if comm.rank() == from {
                    comm.send(to, &message)?;
                } else if comm.rank() == to {
                    expect(comm, comm.receive(from)? == message, "a message is another one")?;
                }
            }
        }
    }
    Ok(())
}

/// Who receives says from whom, and messages of others wait.
fn many_to_one(comm: &dyn Comm) -> Result<()> {
    for round in 0..2 {
        if comm.rank() != ROOT {
            comm.send(ROOT, &message(comm.rank(), round))?;
        }
    }
    if comm.rank() == ROOT {
        for from in (1..comm.size()).rev() {
            for round in 0..2 {
                expect(comm, comm.receive(from)? == message(from, round), "a message of another rank")?;
            }
        }
    }
    Ok(())
}

/// Ranks that are none, and this one, are refused; nothing is broken by it.
fn wrong_ranks(comm: &dyn Comm) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let is_usage = |error: Option<Error>| error.is_some_and(|error| error.kind() == ErrorKind::Usage);
    for other in [rank, size, usize::MAX] {
        expect(comm, is_usage(comm.send(other, b"x").err()), "it sends to itself or to no rank")?;
        expect(comm, is_usage(comm.receive(other).err()), "it receives from itself or from no rank")?;
    }
    expect(comm, is_usage(comm::gather(comm, size, b"x").err()), "gather takes a root that is no rank")?;
    expect(comm, is_usage(comm::broadcast(comm, size, Vec::new()).err()), "broadcast takes a root that is no rank")
}

fn places(comm: &dyn Comm) -> Result<()> {
    let nodes = comm::nodes(comm)?;
    expect(comm, nodes.get(comm.rank()) == Some(&comm.node()), "its node is another one for the others")?;
    for (other, node) in nodes.iter().enumerate() {
        expect(comm, *node <= other, "a node has a number that is not its lowest rank")?;
        expect(comm, nodes.get(*node) == nodes.get(other), "the lowest rank of a node is on another one")?;
    }
    Ok(())
}

fn together(comm: &dyn Comm) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let expected = |round| (0..size).map(|rank| message(rank, round)).collect::<Vec<_>>();
    for round in 0..20 {
        let root = round % size;
        let gathered = comm::gather(comm, root, &message(rank, round))?;
        expect(comm, gathered == (rank == root).then(|| expected(round)), "gather")?;
        let bytes = comm::broadcast(comm, root, message(rank, round))?;
        expect(comm, bytes == message(root, round), "broadcast")?;
        expect(comm, comm::all_gather(comm, &message(rank, round))? == expected(round), "all_gather")?;
        comm::barrier(comm)?;
    }
    Ok(())
}

/// Messages longer than what libraries send at once.
fn large(comm: &dyn Comm) -> Result<()> {
    let long = vec![u8::try_from(comm.rank() % 251).unwrap_or(0); (3 << 20) + comm.rank()];
    let all = comm::all_gather(comm, &long)?;
    let is_whole = |(rank, bytes): (usize, &Vec<u8>)| {
        bytes.len() == (3 << 20) + rank && bytes.iter().all(|&byte| usize::from(byte) == rank % 251)
    };
    expect(comm, all.iter().enumerate().all(is_whole), "long messages")
}

/// One rank's error is that of all, and they can go on together after it.
fn agreement(comm: &dyn Comm) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    expect(comm, comm::agree(comm, Ok(rank)).ok() == Some(rank), "agreement takes a value away")?;
    for bad in 0..size {
        let mine = if rank >= bad {
            Err(Error::new(ErrorKind::NotFound, format!("no file {rank}")).hint("make it").at("file"))
        } else {
            Ok(())
        };
        let found = comm::agree(comm, mine).err();
        let text = match size {
            1 => "file: no file 0; hint: make it".to_owned(),
            _ => format!("rank {bad} of {size}: file: no file {bad}; hint: make it"),
        };
        let is_it = found.is_some_and(|error| error.kind() == ErrorKind::NotFound && error.to_string() == text);
        expect(comm, is_it, "agreement has another error than that of the lowest rank")?;
    }
    expect(comm, comm::agree(comm, Ok(())).is_ok(), "agreement remembers an error")
}
