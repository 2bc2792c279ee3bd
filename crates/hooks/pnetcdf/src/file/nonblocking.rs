//! Nonblocking calls: requests that take effect when the program waits for them.

use std::ffi::c_int;

use knarr_config::Publish;

use super::{Captured, How};
use crate::codes::{EINSUFFBUF, EINVAL_REQUEST, ENULLABUF, NOERR, REQ_NULL};
use crate::requests::{Request, Wanted};
use crate::values::access::{Access, Kind, Memory};
use crate::values::datatypes::Datatypes;
use crate::values::{memory_type, settled};

impl Captured {
    /// A nonblocking put. Its number comes back through `request`. With `attached` its values go through the buffer that the
    /// program has attached, or so it believes.
    ///
    /// # Safety
    /// The access is as the function says that the program called.
    pub(crate) unsafe fn put_later(&mut self, access: &Access, request: Option<&mut c_int>, attached: bool) -> c_int {
        if attached && self.requests.attached.is_none() {
            return ENULLABUF;
        }
        if let Err(code) = self.log() {
            return code;
        }
        let before = self.put_bytes;
        // PnetCDF takes requests in define mode, too, for variables that are defined.
        // SAFETY: the caller's promise.
        let copied = unsafe { self.copy(access) };
        let (put, records, code) = match copied {
            Ok(copied) => copied,
            Err(code) => return code,
        };
        let Some(put) = put else {
            // Nothing to wait for.
            request.into_iter().for_each(|request| *request = REQ_NULL);
            return code;
        };
        let bytes = if attached { self.put_bytes - before } else { 0 };
        if let Some((size, used)) = &mut self.requests.attached {
            if *used + bytes > *size {
                return EINSUFFBUF;
            }
            *used += bytes;
        }
        let number = self.requests.add(Request::Put { put: Some(put), records, attached: bytes });
        if let Some(request) = request {
            *request = number;
        }
        code
    }

    /// A nonblocking get, which reads when the program waits for it.
    ///
    /// # Safety
    /// The access is as the function says that the program called, until it is waited for.
    pub(crate) unsafe fn get_later(&mut self, access: &Access, request: Option<&mut c_int>) -> c_int {
        let checked = self.variable(access.variable).and_then(|(variable, is_cdf5)| {
            let memory = settled(&self.common.ranks, access.memory)?;
            memory_type(&self.common.ranks, &memory, &variable, is_cdf5)?;
            let grows = self.know_records(&variable)?;
            // SAFETY: the caller's promise.
            unsafe { access.elements(&variable, self.records, grows) }.map(|elements| (memory, elements))
        });
        let (mut memory, elements) = match checked {
            Ok(checked) => checked,
            Err(code) => return code,
        };
        if elements.len() == 0 {
            request.into_iter().for_each(|request| *request = REQ_NULL);
            return NOERR;
        }
        if let Kind::Flexible { datatype, .. } = &mut memory.kind {
            // The program may free its own meanwhile.
            *datatype = self.common.ranks.kept(*datatype);
        }
        let number = self.requests.add(Request::Get { variable: access.variable, memory, elements });
        if let Some(request) = request {
            *request = number;
        }
        NOERR
    }

    /// Makes requests take effect: those with the numbers `wanted`, or all of a kind. Returns the code of each of `wanted`,
    /// and the first code that is an error.
    pub(crate) fn wait(&mut self, wanted: &Wanted, collective: bool) -> (Vec<c_int>, c_int) {
        let needed = if collective { How::Collective } else { How::Independent };
        if let Err(code) = self.check(needed) {
            return (Vec::new(), code);
        }
        self.order += u64::from(collective);
        let taken = self.requests.take(&self.requests.meant(wanted));
        let mut codes = vec![NOERR; taken.len()];
        let (mut gets, mut all, mut most) = (Vec::new(), Vec::new(), 0);
        for (code, request) in codes.iter_mut().zip(taken.into_iter().enumerate()) {
            match request {
                (_, Some(Request::Put { put, records, .. })) => {
                    all.extend(put);
                    most = most.max(records);
                }
                (at, Some(Request::Get { variable, memory, elements })) => gets.push((at, variable, memory, elements)),
                (_, None) => *code = EINVAL_REQUEST,
            }
        }
        // In one piece: there may be very many of them. What fails fails for all.
        if let Err(failed) = if all.is_empty() { Ok(()) } else { self.add(all, most) } {
            codes.iter_mut().filter(|code| **code == NOERR).for_each(|code| *code = failed);
        }
        if collective {
            let mut agreed = self.agree_on_records();
            if agreed == NOERR && self.common.rule.transfer().publish() == Publish::Wait {
                agreed = self.show_values((Publish::Wait, false), self.order);
                // What comes after this call is not seen.
                self.order += 1;
            }
            if agreed != NOERR {
                return (codes, agreed);
            }
        }
        for (at, variable, memory, elements) in gets {
            // SAFETY: the program promised that its memory is there until now.
            let code = unsafe { self.read_elements(variable, &memory, &elements) }.unwrap_or_else(|code| code);
            if let Kind::Flexible { datatype, .. } = memory.kind {
                self.common.ranks.give_back(datatype);
            }
            if let Some(place) = codes.get_mut(at) {
                *place = code;
            }
        }
        let first = codes.iter().copied().find(|&code| code != NOERR).unwrap_or(NOERR);
        (codes, first)
    }

    /// Forgets requests. Returns as [`Captured::wait`].
    pub(crate) fn cancel(&mut self, wanted: &Wanted) -> (Vec<c_int>, c_int) {
        let taken = self.requests.take(wanted);
        for request in taken.iter().flatten() {
            if let Request::Get { memory: Memory { kind: Kind::Flexible { datatype, .. }, .. }, .. } = request {
                self.common.ranks.give_back(*datatype);
            }
        }
        let code = |request: &Option<Request>| if request.is_some() { NOERR } else { EINVAL_REQUEST };
        let codes: Vec<c_int> = taken.iter().map(code).collect();
        let first = codes.iter().copied().find(|&code| code != NOERR).unwrap_or(NOERR);
        (codes, first)
    }
}
