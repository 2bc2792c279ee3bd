//! What every [`Comm`] must do. Each of its ranks calls [`check`] at the same time.

use crate::comm::{self, Comm};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of rank `rank` in round `round`: other ones and another number of them each time, now and then none.
fn message(rank: usize, round: usize) -> Vec<u8> {
    let length = (rank * 7919 + round * 104_729) % 5_000 * (round % 3);
    (0..length).map(|i| u8::try_from((i * 31 + rank * 7 + round) % 251).unwrap_or(0)).collect()
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
    let (rank, size) = (comm.rank(), comm.size());
    expect(comm, rank < size, "its number is not below that of ranks")?;
    let nodes = comm::all_gather(comm, &comm.node().to_le_bytes())?;
    for (other, node) in nodes.iter().enumerate() {
        let node = node.as_slice().try_into().map_or(usize::MAX, usize::from_le_bytes);
        expect(comm, node <= other, "a node has a number that is not its lowest rank")?;
        expect(comm, nodes.get(node) == nodes.get(other), "the lowest rank of a node is on another one")?;
    }
    let expected = |round| (0..size).map(|rank| message(rank, round)).collect::<Vec<_>>();
    for round in 0..20 {
        let root = round % size;
        let gathered = comm.gather(root, &message(rank, round))?;
        expect(comm, gathered == (rank == root).then(|| expected(round)), "gather")?;
        let bytes = comm.broadcast(root, message(rank, round))?;
        expect(comm, bytes == message(root, round), "broadcast")?;
        expect(comm, comm::all_gather(comm, &message(rank, round))? == expected(round), "all_gather")?;
        comm::barrier(comm)?;
    }
    let is_usage = |error: Option<Error>| error.is_some_and(|error| error.kind() == ErrorKind::Usage);
    expect(comm, is_usage(comm.gather(size, b"x").err()), "gather takes a root that is no rank")?;
    expect(comm, is_usage(comm.broadcast(size, Vec::new()).err()), "broadcast takes a root that is no rank")?;
    large(comm)?;
    agreement(comm)
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
