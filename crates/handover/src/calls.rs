//! Collective calls: all ranks of a program do the same thing, or all of them learn that they do not.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use knarr_array::comm::{self, Comm, all_gather};
use knarr_array::error::{Error, Result};

/// What a rank is about to do.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    name: String,
    step: Option<u64>,
}

impl Call {
    pub(crate) fn new(name: &str, step: Option<u64>) -> Self {
        Self { name: name.to_owned(), step }
    }

    fn describe(&self) -> String {
        self.step.map_or_else(|| self.name.clone(), |step| format!("{} of step {step}", self.name))
    }
}

/// The ranks of a program, as long as they do the same things.
pub(crate) struct Calls<C: Comm> {
    pub(crate) comm: C,
    /// Ranks do different things: nothing can be done together any more.
    broken: Option<Error>,
}

impl<C: Comm> Calls<C> {
    pub(crate) fn new(comm: C) -> Self {
        Self { comm, broken: None }
    }

    /// Tells the other ranks what this one is about to do, and whether it can. Returns what all of them say.
    ///
    /// # Errors
    /// That of the lowest rank that has one; `Usage` if ranks do different things, and from then on always.
    pub(crate) fn exchange<T: Serialize + DeserializeOwned>(&mut self, call: &Call, mine: Result<T>) -> Result<Vec<T>> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        if self.comm.size() == 1 {
            return mine.map(|mine| vec![mine]);
        }
        let message = comm::written(&(call, &mine))?;
        let all = all_gather(&self.comm, &message).and_then(same_call);
        let all = all.inspect_err(|error| self.broken = Some(error.clone()))?;
        let size = all.len();
        let of = |(rank, bytes): (usize, &Vec<u8>)| {
            let (_, result) = comm::read::<(Call, Result<T>)>(bytes)?;
            result.map_err(|error| error.at(format!("rank {rank} of {size}")))
        };
        all.iter().enumerate().map(of).collect()
    }
}

/// Returns the messages of all ranks if they are about to do the same thing.
fn same_call(all: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    // What comes with it is of the type of the call.
    let read = all.iter().map(|bytes| comm::read::<(Call, serde_json::Value)>(bytes).map(|(call, _)| call));
    let calls = read.collect::<Result<Vec<_>>>()?;
    let different = calls.iter().enumerate().find(|(_, call)| Some(*call) != calls.first());
    match different.zip(calls.first()) {
        None => Ok(all),
        Some(((rank, call), first)) => {
            Err(Error::usage(format!("rank {rank} calls {}, rank 0 {}", call.describe(), first.describe()))
                .hint("call the same functions in the same order on all ranks; one of them may have failed before"))
        }
    }
}
