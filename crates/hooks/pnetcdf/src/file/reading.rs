//! Gets: what this program has put, or another component.

use std::ffi::c_int;
use std::sync::{Arc, Weak};
use std::time::Instant;

use knarr_array::comm::barrier;
use knarr_array::error::{Error, ErrorKind};
use knarr_captured::sessions::{Unread, region_text};
use knarr_captured::{Values, lock};
use knarr_handover::{AssembledPuts, Beneath, RankValues};

use super::{Captured, How};
use crate::codes::{ENOTVAR, EREAD, NOERR};
use crate::values::access::{Access, Elements, Memory};
use crate::values::{memory_type, room, scatter, settled};
use crate::variables::{Variable, name};

impl Captured {
    /// What other ranks have put in the calls before is there then. Collective.
    pub(super) fn await_ranks(&self) -> std::result::Result<(), c_int> {
        match self.common.values {
            Values::Own(_) | Values::Elsewhere => barrier(self.common.ranks.comm()).map_err(|_| EREAD),
            // They put nothing.
            Values::ReadSession(_) => Ok(()),
        }
    }

    /// Reads what ranks have put.
    ///
    /// # Safety
    /// The access is as the function says that the program called.
    pub(crate) unsafe fn get(&mut self, access: &Access, how: How) -> c_int {
        if let Err(code) = self.check(how) {
            return code;
        }
        if how == How::Collective {
            self.order += 1;
            if let Err(code) = self.await_ranks() {
                return code;
            }
        }
        // SAFETY: the caller's promise.
        let code = unsafe { self.read(access) }.unwrap_or_else(|code| code);
        if how == How::Collective { self.agree_on(code) } else { code }
    }

    /// # Safety
    /// As for [`Captured::get`].
    unsafe fn read(&mut self, access: &Access) -> std::result::Result<c_int, c_int> {
        let (variable, _) = self.variable(access.variable)?;
        let grows = self.know_records(&variable)?;
        // SAFETY: the caller's promise.
        let elements = unsafe { access.elements(&variable, self.records, grows) }?;
        // SAFETY: the caller's promise.
        unsafe { self.read_elements(access.variable, &access.memory, &elements) }
    }

    /// Reads elements of a variable into the program's memory.
    ///
    /// # Safety
    /// The memory has room for them, as the function says that the program called.
    pub(super) unsafe fn read_elements(
        &mut self,
        number: c_int,
        memory: &Memory,
        elements: &Elements,
    ) -> std::result::Result<c_int, c_int> {
        let (variable, is_cdf5) = self.variable(number)?;
        let memory = &settled(&self.common.ranks, *memory)?;
        let memory_type = memory_type(&self.common.ranks, memory, &variable, is_cdf5)?;
        if elements.len() == 0 {
            return Ok(NOERR);
        }
        let place = usize::try_from(number).map_err(|_| ENOTVAR)?;
        let size = variable.element.size();
        let bytes = elements.len().saturating_mul(size as u64);
        let mut all = Vec::new();
        // SAFETY: the caller's promise.
        let direct = unsafe { room(&self.common.ranks, memory, &memory_type, &variable, elements) }?;
        let is_direct = direct.is_some();
        let out = match direct {
            Some(out) => out,
            None => {
                let bytes = usize::try_from(bytes).map_err(|_| EREAD)?;
                all.try_reserve_exact(bytes).map_err(|_| EREAD)?;
                all.resize(bytes, 0);
                all.as_mut_slice()
            }
        };
        let (mut known, begin) = (None, Instant::now());
        loop {
            let Seen { puts, is_filled, newer } = self.seen(number, elements, known)?;
            let beneath = if is_filled { Beneath::Fill(&variable.fill) } else { Beneath::Nothing(size) };
            match puts.read_regions(place, &elements.regions, &elements.stride, beneath, out) {
                Ok(()) => break,
                // It may yet come.
                Err(error) if error.kind() == ErrorKind::NotFound && newer.is_some() => known = newer,
                Err(error) => return Err(self.missed(number, &error)),
            }
        }
        if let Values::ReadSession(incoming) = &self.common.values {
            incoming.got(bytes, begin.elapsed());
        }
        if is_direct {
            return Ok(NOERR);
        }
        // SAFETY: the caller's promise.
        unsafe { scatter(&self.common.ranks, memory, &memory_type, &variable, elements, &all) }
    }

    /// What was put. Waits for another component, if that puts, until more is there than at the point `known`.
    fn seen(&mut self, number: c_int, elements: &Elements, known: Option<u64>) -> std::result::Result<Seen, c_int> {
        if let Values::ReadSession(incoming) = &mut self.common.values {
            let wanted = || {
                let first = elements.regions.iter().find(|(_, count)| !count.contains(&0));
                format!("variable '{}', {}", name(self.id, number), region_text(first))
            };
            let seen = incoming.beyond(known, wanted).map_err(|Unread| EREAD)?;
            let (puts, is_filled) = (Arc::clone(&seen.puts), seen.filled.contains(&number));
            return Ok(Seen { puts, is_filled, newer: seen.point });
        }
        let order = if self.reopened.is_some() { u64::MAX } else { self.order };
        let values = self.common.rank_values();
        let logged: Option<Vec<u64>> = values.iter().map(RankValues::logged).collect();
        // Logs are read once for all gets between which nothing was put.
        let known = self.read.as_ref().filter(|(known, puts)| logged.as_ref() == Some(known) && !puts.has_later());
        let puts = match known {
            Some((_, puts)) => Arc::clone(puts),
            None => Arc::new(AssembledPuts::of(order, values).map_err(|_| EREAD)?),
        };
        self.read = logged.map(|logged| (logged, Arc::clone(&puts)));
        Ok(Seen { puts, is_filled: true, newer: None })
    }

    /// Takes notice of the number of records, if another component writes them. True if there may be more of them later.
    pub(crate) fn know_records(&mut self, variable: &Variable) -> std::result::Result<bool, c_int> {
        if variable.is_record { self.know_all_records() } else { Ok(false) }
    }

    /// As [`Captured::know_records`], for the unlimited dimension. If nothing is to be seen before the file is closed, this
    /// waits until then.
    pub(crate) fn know_all_records(&mut self) -> std::result::Result<bool, c_int> {
        let (records, may_grow) = match &mut self.common.values {
            Values::Own(_) => return Ok(false),
            Values::ReadSession(incoming) => incoming.records().map_err(|Unread| EREAD)?,
            Values::Elsewhere => {
                let written = self.reopened.as_ref().and_then(Weak::upgrade).map(|file| lock(&file).records);
                // The program may have closed it meanwhile.
                (written.unwrap_or(self.records), false)
            }
        };
        self.records = records;
        Ok(may_grow)
    }

    /// The code for values that cannot be read.
    fn missed(&mut self, number: c_int, error: &Error) -> c_int {
        let name = name(self.id, number);
        if let Values::ReadSession(incoming) = &mut self.common.values {
            let what = format!("variable '{name}': {error}");
            // What nobody has put is no loss.
            if error.kind() == ErrorKind::NotFound { incoming.notify(&what) } else { incoming.failed(&what) }
        }
        EREAD
    }
}

/// What may be read.
struct Seen {
    puts: Arc<AssembledPuts>,
    /// The variable has fill values where nothing was put.
    is_filled: bool,
    /// How far the writer was, if it goes on.
    newer: Option<u64>,
}
