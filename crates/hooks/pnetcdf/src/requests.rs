//! Nonblocking puts and gets of a file that wait to take effect.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;

use knarr_handover::Put;

use crate::values::access::{Elements, Memory};

/// Nonblocking puts.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pending: BTreeMap<c_int, Request>,
    next: c_int,
    /// How many of them are puts.
    puts: usize,
    /// Those that were taken ahead.
    ahead: BTreeSet<c_int>,
    /// Buffer for `bput`: its size and what is used of it.
    pub(crate) attached: Option<(u64, u64)>,
}

/// A nonblocking access. What is put was copied when the program asked for it.
#[derive(Debug)]
pub(crate) enum Request {
    Put {
        /// `None` if it has no elements.
        put: Option<Put>,
        records: u64,
        /// Bytes of the attached buffer that it takes.
        attached: u64,
    },
    /// Where elements of a variable are wanted.
    Get { variable: c_int, memory: Memory, elements: Elements },
}

// SAFETY: a request to read holds addresses of the program's memory, which are used by the thread that waits for it, as
// PnetCDF's own requests are.
unsafe impl Send for Request {}

/// Which requests are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    /// All, ahead of the program's own waiting, which finds nothing to do then.
    Ahead,
    Puts,
    Gets,
    /// Numbers; one that is negative stands for nothing.
    Numbers(Vec<c_int>),
}

impl Requests {
    pub(crate) fn add(&mut self, request: Request) -> c_int {
        let number = self.next;
        self.next = self.next.wrapping_add(1).max(0);
        self.puts += usize::from(matches!(request, Request::Put { .. }));
        self.pending.insert(number, request);
        number
    }

    /// What a program means that waits for numbers. PnetCDF looks at them only if there are others: its functions of Fortran
    /// tell no number for a put with `NC_ERANGE`, and programs wait for it by the one of before.
    pub(crate) fn meant(&self, wanted: &Wanted) -> Wanted {
        let Wanted::Numbers(numbers) = wanted else { return wanted.clone() };
        let are_all = numbers.len() == self.pending.len() && (self.puts == 0 || self.puts == self.pending.len());
        let is_known = |number: &c_int| self.pending.contains_key(number) || self.ahead.contains(number);
        if are_all && !numbers.iter().all(is_known) {
            return Wanted::Numbers(self.pending.keys().copied().collect());
        }
        wanted.clone()
    }

    /// Requests that are not done.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// True if values wait that went through the attached buffer.
    pub(crate) fn use_buffer(&self) -> bool {
        self.pending.values().any(|request| matches!(request, Request::Put { attached: 1.., .. }))
    }

    /// Takes requests out; `None` for numbers that are none. Those that stand for nothing are left out of the list only if
    /// all of a kind are meant.
    pub(crate) fn take(&mut self, wanted: &Wanted) -> Vec<Option<Request>> {
        let numbers: Vec<c_int> = match wanted {
            Wanted::Numbers(numbers) => numbers.clone(),
            Wanted::All | Wanted::Ahead => self.pending.keys().copied().collect(),
            Wanted::Puts | Wanted::Gets => {
                let is_put = |request: &Request| matches!(request, Request::Put { .. });
                let meant = self.pending.iter().filter(|(_, request)| is_put(request) == (*wanted == Wanted::Puts));
                meant.map(|(&number, _)| number).collect()
            }
        };
        let mut taken = Vec::with_capacity(numbers.len());
        for number in numbers {
            let is_nothing = number < 0 || self.ahead.remove(&number);
            let request = if is_nothing { Some(Request::nothing()) } else { self.pending.remove(&number) };
            if *wanted == Wanted::Ahead {
                self.ahead.insert(number);
            }
            self.puts -= usize::from(!is_nothing && matches!(request, Some(Request::Put { .. })));
            if let (Some(Request::Put { attached, .. }), Some((_, used))) = (&request, &mut self.attached) {
                *used = used.saturating_sub(*attached);
            }
            taken.push(request);
        }
        taken
    }
}

impl Request {
    /// `NC_REQ_NULL`.
    fn nothing() -> Self {
        Self::Put { put: None, records: 0, attached: 0 }
    }
}
