//! The bounds within which values of a file may lose something on their way, for a side that reads it.
//!
//! The node that offers a file knows its header, and says for which variables there is a bound. A side that reads gives that
//! back with each question, because other nodes that have values do not know the header.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use knarr_array::error::{Error, Result};
use knarr_link::Link;

use crate::remote::transfer_bound::{Crossed, TransferBound};
use crate::remote::wire_codec::WireCodecTuner;

/// Bytes of what a question says of a bound, at most: questions are bounded. Values of a variable with a longer name come
/// exact.
const LONGEST: usize = 4096;

/// The bounds of a file: asked for when its values are read first.
#[derive(Debug, Default)]
pub struct Bounds(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By the numbers of variables.
    known: Option<BTreeMap<usize, Arc<TransferBound>>>,
    crossed: BTreeMap<usize, Crossed>,
}

impl Bounds {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What may become of the values of a variable; `None` if it has no bound. `ask` asks the node that offers the file.
    ///
    /// # Errors
    /// Those of `ask`; `Corrupt` for an answer that makes no sense.
    pub(crate) fn of(
        &self,
        variable: usize,
        ask: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Option<Arc<TransferBound>>> {
        let mut state = self.state();
        let known = match &state.known {
            Some(known) => known,
            None => {
                let all: Vec<(usize, TransferBound)> =
                    serde_json::from_slice(&ask()?).map_err(|_| Error::corrupt("bounds that make no sense"))?;
                let is_short =
                    |within: &TransferBound| serde_json::to_vec(within).is_ok_and(|bytes| bytes.len() <= LONGEST);
                let makes_sense = |within: &TransferBound| is_short(within) && within.quality().is_ok();
                let all = all.into_iter().filter(|(_, within)| makes_sense(within));
                state.known.insert(all.map(|(number, within)| (number, Arc::new(within))).collect())
            }
        };
        Ok(known.get(&variable).cloned())
    }

    /// Values of a variable with a bound have come.
    pub(crate) fn came(&self, variable: usize, crossed: Crossed) {
        let mut state = self.state();
        let all = state.crossed.entry(variable).or_default();
        *all = all.and(crossed);
    }

    /// What has come of each variable with a bound since this was asked last.
    pub fn take_crossed(&self) -> Vec<(Arc<TransferBound>, Crossed)> {
        let mut state = self.state();
        let crossed = std::mem::take(&mut state.crossed);
        let known = |number: &usize| state.known.as_ref()?.get(number).cloned();
        crossed.into_iter().filter_map(|(number, crossed)| Some((known(&number)?, crossed))).collect()
    }
}

/// How values of variables with a bound come from a node.
#[derive(Clone)]
pub struct Bounded {
    /// The bounds.
    pub bounds: Arc<Bounds>,
    /// To the node that offers the file, which knows them.
    pub offers: Arc<dyn Link>,
    /// Name of the directory in the spool there.
    pub file: String,
    /// Which way is the fastest for such values.
    pub tuner: Arc<WireCodecTuner>,
}
