//! One file that a program writes with PnetCDF, and whose values are handed over, or that it reads from another component.
//! The program's own library has a file of the same definitions and no values, the header; all that is asked of it and of its
//! codes goes there.

mod nonblocking;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, Weak};

use knarr_array::error::{Error, ErrorKind};
use knarr_array::region::{Region, Regions};
use knarr_capture::{HandedOver, Point};
use knarr_captured::{CapturedFile, Values};
use knarr_config::Publish;
use knarr_handover::{AssembledPuts, Put, PutLog};

use crate::codes::{
    EINDEFINE, EINDEP, EINTOVERFLOW, EINVALCOORDS, ENOTFILL, ENOTINDEP, ENOTRECVAR, ENOTVAR, EPERM, EREAD, EWRITE,
    NOERR, Offset,
};
use crate::real::real;
use crate::requests::{Requests, Wanted};
use crate::values::access::{Access, Elements};
use crate::values::{gather, in_file_type, memory_type, settled};
use crate::variables::{Variable, Variables, name};

/// What may be done with a file at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Define,
    Collective,
    Independent,
}

/// A captured file.
pub(crate) struct Captured {
    /// Its number, which the library gave the header.
    pub(crate) id: c_int,
    pub(crate) common: CapturedFile,
    /// The one that has its values, if the program reads a file that it still writes.
    pub(crate) reopened: Option<Weak<Mutex<Captured>>>,
    pub(crate) mode: Mode,
    /// Definitions that nothing was ever put into: `ncmpi_abort` forgets the file.
    pub(crate) is_new: bool,
    /// As they were when definitions ended last.
    variables: Option<Variables>,
    /// Records along the unlimited dimension, as this rank knows.
    pub(crate) records: u64,
    /// Number of collective calls.
    order: u64,
    /// Puts that take effect when the program waits for them.
    pub(crate) requests: Requests,
    /// What `ncmpi_set_fill` and `ncmpi_def_var_fill` asked for: all variables, or these, or not these.
    pub(crate) fills_all: bool,
    pub(crate) fills: BTreeMap<c_int, bool>,
    /// An error of one rank in a collective call is that of all: PnetCDF's safe mode.
    is_safe: bool,
    /// Variables with errors of handing over.
    failed_variables: BTreeSet<String>,
    /// What was put by the last get, and by how many bytes of logs.
    read: Option<(Vec<u64>, Arc<AssembledPuts>)>,
    /// Bytes that were put, as the program counts them.
    pub(crate) put_bytes: u64,
}

/// Records of a CDF-1 or CDF-2 file, which has four bytes for their number.
const MOST_RECORDS: u64 = u32::MAX as u64;

/// A call of DTF's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// `dtf_transfer`.
    Once,
    /// `dtf_transfer_multiple`: those that read may call `dtf_transfer` several times.
    Several,
    /// `dtf_complete_multiple`: they have.
    Completed,
}

/// How an access was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Collective,
    Independent,
    /// One of several in a call that is collective, or not.
    Among {
        collective: bool,
    },
}

impl Captured {
    pub(crate) fn new(id: c_int, common: CapturedFile) -> Self {
        let is_new = common.is_own();
        Self {
            id,
            common,
            reopened: None,
            mode: if is_new { Mode::Define } else { Mode::Collective },
            is_new,
            variables: None,
            records: 0,
            order: 0,
            requests: Requests::default(),
            fills_all: false,
            fills: BTreeMap::new(),
            is_safe: std::env::var_os("PNETCDF_SAFE_MODE").is_some_and(|mode| mode == "1"),
            failed_variables: BTreeSet::new(),
            read: None,
            put_bytes: 0,
        }
    }

    /// Where values go.
    ///
    /// # Errors
    /// `NC_EPERM` if the program only reads the file.
    fn log(&mut self) -> std::result::Result<&mut PutLog, c_int> {
        self.common.log().ok_or(EPERM)
    }

    /// The variables as they are defined now.
    pub(crate) fn variables(&mut self) -> std::result::Result<&Variables, c_int> {
        if self.variables.is_none() || self.mode == Mode::Define {
            self.variables = Some(Variables::of(self.id)?);
        }
        self.variables.as_ref().ok_or(EINDEFINE)
    }

    /// A variable, and whether the file is a CDF-5.
    pub(crate) fn variable(&mut self, number: c_int) -> std::result::Result<(Arc<Variable>, bool), c_int> {
        let variables = self.variables()?;
        let found = usize::try_from(number).ok().and_then(|number| variables.all.get(number));
        found.cloned().map(|variable| (variable, variables.is_cdf5)).ok_or(ENOTVAR)
    }

    /// Number of the unlimited dimension, or -1.
    pub(crate) fn unlimited(&mut self) -> c_int {
        self.variables().map_or(-1, |variables| variables.unlimited)
    }

    /// The code of a call that has written the header: MPI-IO is silent about a disk that is full, and without the header nothing
    /// can be made of the values.
    pub(crate) fn written_header(&mut self, code: c_int) -> c_int {
        let is_writer = self.common.ranks.comm().rank() == 0 && self.common.is_own();
        if code != NOERR || !is_writer {
            return code;
        }
        let mut size = 0;
        // SAFETY: a function of PnetCDF with an argument of its type.
        let known = unsafe { real!(ncmpi_inq_header_size(c_int, *mut Offset))(self.id, &raw mut size) };
        let is_whole = || {
            let mut file = File::open(self.common.header())?;
            let mut magic = [0; 3];
            file.read_exact(&mut magic)?;
            Ok::<_, io::Error>(
                magic == *b"CDF" && i64::try_from(file.metadata()?.len()).is_ok_and(|length| length >= size),
            )
        };
        if known != NOERR || is_whole().unwrap_or(false) {
            let _ = fs::remove_file(self.common.directory.join(HandedOver::EARLIER_HEADER));
            return NOERR;
        }
        let error = Error::new(ErrorKind::Write, "the program's library does not write its header")
            .hint("free memory in /dev/shm, or space beside knarr.toml");
        self.common.fail(error);
        EWRITE
    }

    /// Definitions are about to begin again. The library writes the new header over the old one, without which nothing can be made
    /// of what was put.
    pub(crate) fn keep_header(&self) {
        if self.common.ranks.comm().rank() == 0 && self.common.is_own() && self.mode != Mode::Define {
            let (header, earlier) = (self.common.header(), self.common.directory.join(HandedOver::EARLIER_HEADER));
            // Where there is no room for a copy the library may yet find some for the header.
            if fs::copy(header, &earlier).is_err() {
                let _ = fs::remove_file(earlier);
            }
        }
    }

    /// Definitions have ended, or begun again.
    pub(crate) fn entered(&mut self, mode: Mode) {
        self.order += 1;
        if mode != Mode::Independent && self.mode != Mode::Independent {
            self.variables = None;
        }
        self.is_new &= mode == Mode::Define;
        let is_defined = self.mode == Mode::Define && mode == Mode::Collective;
        self.mode = mode;
        if is_defined && let Err(error) = self.common.publish() {
            self.common.fail(error);
        }
    }

    /// Whether a blocking access may be made now.
    fn check(&self, how: How) -> std::result::Result<(), c_int> {
        match (self.mode, how) {
            (Mode::Define, _) => Err(EINDEFINE),
            (Mode::Collective, How::Independent | How::Among { collective: false }) => Err(ENOTINDEP),
            (Mode::Independent, How::Collective | How::Among { collective: true }) => Err(EINDEP),
            _ => Ok(()),
        }
    }

    /// A blocking put. Collective calls agree on the number of records if the variable has such.
    ///
    /// # Safety
    /// The access is as the function says that the program called.
    pub(crate) unsafe fn put(&mut self, access: &Access, how: How) -> c_int {
        if let Err(code) = self.log().map(drop).and_then(|()| self.check(how)) {
            return code;
        }
        if how == How::Collective {
            self.order += 1;
        }
        // A rank that names no variable of the file takes part, too, whatever the others have put into.
        let may_grow = self.unlimited() >= 0;
        // SAFETY: the caller's promise.
        let code = match unsafe { self.copy(access) } {
            Ok((put, records, code)) => self.add(put.into_iter().collect(), records).err().unwrap_or(code),
            Err(code) => code,
        };
        if how != How::Collective {
            return code;
        }
        let agreed = if may_grow { self.agree_on_records() } else { NOERR };
        self.agree_on(if code == NOERR { agreed } else { code })
    }

    /// In safe mode, the code of a rank that has an error; else that of this rank. Collective.
    fn agree_on(&self, code: c_int) -> c_int {
        if self.is_safe { self.worst(code) } else { code }
    }

    /// The code of a rank that has an error; else `NC_NOERR`. Collective.
    pub(crate) fn worst(&self, code: c_int) -> c_int {
        let worst = self.common.ranks.largest(u64::from(code.unsigned_abs()));
        worst.map_or(code, |worst| c_int::try_from(worst).map_or(code, |worst| -worst))
    }

    /// A call that puts into, or gets from, several variables begins. Each is [`How::Among`] the others.
    pub(crate) fn begin_many(&mut self, collective: bool, puts: bool) -> c_int {
        if let Err(code) = self.check(if collective { How::Collective } else { How::Independent }) {
            return code;
        }
        self.order += u64::from(collective);
        if collective && !puts { self.await_ranks().err().unwrap_or(NOERR) } else { NOERR }
    }

    /// Copies values into the spool. Returns what is to be logged, the records that there are then, and `NC_ERANGE` or
    /// `NC_NOERR`.
    ///
    /// # Safety
    /// As for [`Captured::put`].
    unsafe fn copy(&mut self, access: &Access) -> std::result::Result<(Option<Put>, u64, c_int), c_int> {
        let (variable, is_cdf5) = self.variable(access.variable)?;
        let memory = settled(&self.common.ranks, access.memory)?;
        let memory_type = memory_type(&self.common.ranks, &memory, &variable, is_cdf5)?;
        // SAFETY: the caller's promise.
        let elements = unsafe { access.elements(&variable, self.records, true) }?;
        let records = if variable.is_record { elements.records() } else { 0 };
        if !is_cdf5 && records > MOST_RECORDS {
            let begins = |(start, _): (&[u64], &[u64])| start.first().is_some_and(|first| *first > MOST_RECORDS);
            return Err(if elements.regions.iter().any(begins) { EINVALCOORDS } else { EINTOVERFLOW });
        }
        // SAFETY: the caller's promise.
        let values = unsafe { gather(&self.common.ranks, &memory, &memory_type, &elements) }?;
        let bytes = elements.len().saturating_mul(variable.element.size() as u64);
        let reserved = self.log()?.reserve(bytes);
        let offset = reserved.map_err(|error| self.fail(access.variable, error))?;
        let log = self.log()?;
        let dtype = variable.element.dtype();
        let written = in_file_type(&values, &memory_type, &variable, |at, piece| log.write(offset + at, dtype, piece));
        let code = written.map_err(|error| self.fail(access.variable, error))?;
        let number = u32::try_from(access.variable).unwrap_or(0);
        let Elements { regions: boxes, stride, .. } = elements;
        let put = Put { variable: number, dtype, boxes, stride, parts: Vec::new(), order: 0, offset };
        self.put_bytes += bytes;
        Ok(((bytes > 0).then_some(put), records, code))
    }

    /// Logs puts whose values are in the spool.
    fn add(&mut self, mut puts: Vec<Put>, records: u64) -> std::result::Result<(), c_int> {
        puts.iter_mut().for_each(|put| put.order = self.order);
        let number = puts.first().map_or(0, |put| put.variable);
        let number = c_int::try_from(number).unwrap_or(0);
        self.log()?.push(&puts).map_err(|error| self.fail(number, error))?;
        self.records = self.records.max(records);
        Ok(())
    }

    /// Notes an error of handing over, which no later call makes good.
    fn fail(&mut self, variable: c_int, error: Error) -> c_int {
        self.failed_variables.insert(name(self.id, variable));
        self.common.fail(error);
        EWRITE
    }

    /// All ranks take the largest number of records. Collective.
    pub(crate) fn agree_on_records(&mut self) -> c_int {
        let largest = self.common.ranks.largest(self.records);
        match largest {
            Ok(records) => {
                self.records = records;
                NOERR
            }
            Err(_) => crate::codes::EINVAL,
        }
    }

    /// True if the ranks put into the file, and its definitions have ended.
    pub(crate) fn is_written(&self) -> bool {
        self.common.is_own() && self.mode != Mode::Define
    }

    /// A collective call by which puts before and after it are in order.
    pub(crate) fn synced(&mut self) -> c_int {
        self.order += 1;
        if self.mode == Mode::Define {
            return NOERR;
        }
        let agreed = self.agree_on_records();
        // What comes after this call has its order.
        if agreed == NOERR { self.show_values((Publish::Sync, false), self.order - 1) } else { agreed }
    }

    /// Lets the components that read the file see the puts up to number `order`, if the rule says so. All ranks have made
    /// them.
    fn show_values(&mut self, (call, stays): (Publish, bool), order: u64) -> c_int {
        let newest = Point { order, records: self.records, stays };
        match self.common.publish_values(call, newest) {
            Ok(()) => NOERR,
            Err(error) => {
                self.common.fail(error);
                EWRITE
            }
        }
    }

    /// A call of DTF's. All that was asked for so far takes effect. What was put is shown to the components that read the file, if
    /// the rule says so, and these have what they asked for when the call returns. Collective; returns a code.
    pub(crate) fn transferred(&mut self, transfer: Transfer) -> c_int {
        if self.mode == Mode::Define {
            return EINDEFINE;
        }
        let completes = transfer == Transfer::Completed;
        let (_, code) = self.wait(&Wanted::Ahead, self.mode == Mode::Collective);
        if let Values::ReadSession(incoming) = &mut self.common.values {
            let done = incoming.transferred(self.common.ranks.comm(), completes);
            return if code == NOERR { done.map_or(EREAD, |()| NOERR) } else { code };
        }
        if completes {
            return code;
        }
        self.order += 1;
        let agreed = self.agree_on_records();
        // What comes after this call has its order.
        let stays = transfer == Transfer::Several;
        let shown = if agreed == NOERR { self.show_values((Publish::Transfer, stays), self.order - 1) } else { agreed };
        self.common.await_transfer();
        if code == NOERR { shown } else { code }
    }

    /// Fills a record of a variable. Collective.
    pub(crate) fn fill_record(&mut self, number: c_int, record: Offset) -> c_int {
        if let Err(code) = self.log().map(drop).and_then(|()| self.check(How::Collective)) {
            return code;
        }
        self.order += 1;
        let filled = self.fill_one(number, record);
        let agreed = self.agree_on_records();
        filled.err().unwrap_or(agreed)
    }

    fn fill_one(&mut self, number: c_int, record: Offset) -> std::result::Result<(), c_int> {
        let (variable, _) = self.variable(number)?;
        if !variable.is_record {
            return Err(ENOTRECVAR);
        }
        if !self.fills(number, &variable) {
            return Err(ENOTFILL);
        }
        let record = u64::try_from(record).map_err(|_| EINVALCOORDS)?;
        if self.common.ranks.comm().rank() != 0 {
            self.records = self.records.max(record + 1);
            return Ok(());
        }
        let shape = variable.shape_now(1);
        let mut start = vec![0; shape.len()];
        start[0] = record;
        let region = Region::new(start, shape);
        let elements = region.volume().and_then(|n| usize::try_from(n).ok()).ok_or(EWRITE)?;
        let bytes = variable.fill.repeat(elements);
        let offset = self.log()?.reserve(bytes.len() as u64).map_err(|error| self.fail(number, error))?;
        let dtype = variable.element.dtype();
        self.log()?.write(offset, dtype, &bytes).map_err(|error| self.fail(number, error))?;
        let variable_number = u32::try_from(number).unwrap_or(0);
        let boxes = Regions::from(&region);
        let put =
            Put { variable: variable_number, dtype, boxes, stride: Vec::new(), parts: Vec::new(), order: 0, offset };
        self.add(vec![put], record + 1)
    }

    /// Whether the program wants fill values where it puts nothing.
    fn fills(&self, number: c_int, variable: &Variable) -> bool {
        self.fills.get(&number).copied().unwrap_or(self.fills_all) || variable.may_fill
    }

    /// The variables that have fill values where nothing was put.
    pub(crate) fn filled(&mut self) -> Vec<c_int> {
        let all = self.variables().map(|variables| variables.all.clone()).unwrap_or_default();
        let numbered = (0..).zip(&all);
        numbered.filter(|(number, variable)| self.fills(*number, variable)).map(|(number, _)| number).collect()
    }

    /// What became of the file on this rank, for the others: the error, if there was one.
    pub(crate) fn failure(&self) -> Option<Error> {
        let error = self.common.failed()?.clone();
        let variables: Vec<&str> =
            self.failed_variables.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        // An error of the header is none of a variable.
        Some(if variables.is_empty() { error } else { error.at_variable(&variables.join(", ")) })
    }
}
