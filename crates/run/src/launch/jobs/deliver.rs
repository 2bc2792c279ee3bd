//! Makes files of what a program has handed over, in another process, and takes it out of the spool.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::model::Variable;
use knarr_capture::{Datasets, Form, HandedOver, NodePart, Reading, Shown, account_of};
use knarr_choose::plan::Plan;
use knarr_codec::chain::ChainSpec;
use knarr_config::{FileRule, Output, Route};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::network::url_of;
use knarr_flow::output::FileIdentity;
use knarr_flow::settings::Settings;
use knarr_flow::store::Source;
use knarr_formats::classic::{self, ClassicSource};
use knarr_formats::handed_over::HandedOverSource;
use knarr_formats::zarr;
use knarr_formats::{Clocks, Inputs, open_handed_over, open_hdf5_unlocked};
use knarr_handover::{Account, AheadChunks, Far, Gathered, Held, read_puts};
use knarr_link::{Link, link_to};
use knarr_routes::compress::{OutputFormat, RepackOptions, Repacked, write_source};
use rustix::fs::Mode;
use rustix::process::umask;
use serde::{Deserialize, Serialize};

use crate::launch::jobs::packed::PackedFiles;
use crate::launch::outcome::Outcome;
use crate::worker::{Effort, Failure, Task, Worker};

/// Makes the file that lies in a directory of the spool.
#[derive(Serialize, Deserialize)]
pub(crate) struct Deliver {
    #[serde(with = "knarr_array::path_bytes")]
    directory: PathBuf,
    handed: HandedOver,
    /// Directories of the parts that are on this machine, by their numbers; links lead to the others.
    found: BTreeMap<usize, PathBuf>,
    /// What was chosen for an earlier file of the same rule.
    earlier: Option<Plan>,
    command: String,
    when: String,
}

impl Task for Deliver {
    const NAME: &'static str = "deliver";
    /// What was made, and whether that is a file in place of a Zarr store.
    type Answer = (Repacked, bool);

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<(Repacked, bool)> {
        let Self { directory, handed, found, earlier, command, when } = self;
        let _mask = handed.umask.map(Mask::of_program);
        handed.forget_made(&directory)?;
        let source = source_of(&directory, &handed, &found, engine)?;
        let is_hdf5 = Datasets::read(&directory)?.is_some();
        let HandedOver { target, rule, ranks, is_new, .. } = &handed;
        let output = rule.made_of(target);
        let header = directory.join(if *ranks == 0 { Shown::CLASSIC } else { HandedOver::HEADER });
        // That of a classic file has its size already.
        let plain_bytes = match fs::metadata(&header).map_or(0, |found| found.len()) {
            all if *ranks == 0 => all,
            header => source.model().variables.iter().map(Variable::raw_bytes).fold(header, u64::saturating_add),
        };
        // Of a small file, all that HDF5 needs to find its way may take more than the values.
        let is_free = rule.route == Route::Compress && rule.compress.output.is_none();
        let may_stay = !is_hdf5 && is_free && plain_bytes <= SMALL;
        let classic_above = if may_stay { Some((plain_bytes, classic::version_of(&header)?)) } else { None };
        // The plan is saved when the program has ended.
        let replaces = handed.replaces(&output, &directory);
        let options = RepackOptions { replaces, command, when, save_plan: false, classic_above };
        // Other places are looked at when the program creates the file.
        if let Some(url) = url_of(&output).filter(|_| *is_new)
            && is_store(engine, url)?
        {
            return Err(Error::new(ErrorKind::Exists, "the program wants nothing replaced, and a store is there")
                .hint("remove it, and have this one made by 'knarr run --recover'")
                .at(url));
        }
        let format = match rule.compress.output() {
            Output::Netcdf4 => OutputFormat::NetCdf4,
            // The format that the program chose.
            Output::Classic if is_hdf5 => OutputFormat::NetCdf4,
            Output::Classic => OutputFormat::Classic(classic::version_of(&header)?),
            Output::Zarr | Output::S3(_) => OutputFormat::Zarr,
        };
        let settings = Settings { earlier: earlier.map(Arc::new), as_whole: true, ..rule.lenient_settings()? };
        let made = match write_source(engine, source, (&output, format), &settings, &options, progress) {
            // The program does not know of Zarr.
            Err(error) if error.kind() == ErrorKind::Unsupported && format == OutputFormat::Zarr => {
                let source = source_of(&directory, &handed, &found, engine)?;
                let options = RepackOptions { replaces: handed.replaces(target, &directory), ..options };
                let instead = (target.as_path(), OutputFormat::NetCdf4);
                let written = write_source(engine, source, instead, &settings, &options, progress);
                written.map(|made| (made, true)).map_err(|_| error)
            }
            written => written.map(|made| (made, false)),
        };
        let (made, is_file) = made.inspect(|_| handed.note_made(&directory))?;
        Ok((Repacked { input_bytes: plain_bytes, ..made }, is_file))
    }
}

/// Files up to this size are as the program's library writes them, if they would be larger otherwise.
const SMALL: u64 = 1 << 20;

/// Has this process deny new files the permissions that the program denies them, until it is dropped.
struct Mask(Mode);

impl Mask {
    fn of_program(mask: u32) -> Self {
        Self(umask(Mode::from_bits_truncate(mask)))
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        umask(self.0);
    }
}

/// Where the values of each rank are.
pub(in crate::launch) fn held(handed: &HandedOver, directory: &Path, found: &BTreeMap<usize, PathBuf>) -> Vec<Held> {
    let links: Vec<Arc<dyn Link>> = handed.parts.iter().map(|part| link_to(part.peer.clone())).collect();
    let of = |rank| {
        let number = handed.parts.iter().position(|part| part.ranks.contains(&rank)).unwrap_or(handed.part);
        let here = if number == handed.part { Some(directory) } else { found.get(&number).map(PathBuf::as_path) };
        match (here, handed.parts.get(number), links.get(number)) {
            (None, Some(part), Some(link)) => {
                let (link, file) = (Arc::clone(link), part.file.clone());
                // Files are made of exact values.
                Held::There(Far { link, file, rank, pace: None, bounded: None })
            }
            (here, ..) => {
                let here = here.unwrap_or(directory);
                Held::Here { values: here.join(HandedOver::values(rank)), log: here.join(HandedOver::log(rank)) }
            }
        }
    };
    (0..handed.ranks).map(of).collect()
}

/// What was handed over in a directory.
fn source_of(
    directory: &Path,
    handed: &HandedOver,
    found: &BTreeMap<usize, PathBuf>,
    engine: &Engine,
) -> Result<Box<dyn Source>> {
    let HandedOver { target, ranks, records, logged, .. } = handed;
    let puts = Gathered::of(u64::MAX, held(handed, directory, found))?.with_ahead(AheadChunks::open(directory));
    if let Some(logged) = logged.filter(|logged| *logged != puts.logged()) {
        let what =
            format!("its logs have {} bytes of records, and had {logged} when the file was closed", puts.logged());
        return Err(Error::corrupt(what).at(directory.display().to_string()));
    }
    let header = directory.join(HandedOver::HEADER);
    Ok(match Datasets::read(directory)? {
        Some(Datasets { addresses }) => {
            open_handed_over(&header, (puts, &addresses), target, records.is_some(), &engine.codecs)?
        }
        None if *ranks == 0 => {
            let whole = directory.join(Shown::CLASSIC);
            classic::complete(&whole)?;
            Box::new(ClassicSource::open(&whole)?)
        }
        None => Box::new(HandedOverSource::open(&header, puts, *records, target)?),
    })
}

/// True if nothing was put into a file that the program has not closed, or whose header is not whole.
pub(in crate::launch) fn holds_nothing(directory: &Path, open: &HandedOver) -> bool {
    let ranks: Vec<usize> = open.own_part().map_or_else(|| (0..open.ranks).collect(), |part| part.ranks.clone());
    let is_empty = |rank: &usize| match read_puts(&directory.join(HandedOver::log(*rank))) {
        Ok(log) => log.puts.is_empty(),
        // It is made before the program can put anything.
        Err(_) => !has_log(directory, *rank),
    };
    let may_hold_nothing = open.logged.is_none() || open.parts.is_empty() && !has_header(directory);
    open.ranks > 0 && may_hold_nothing && ranks.iter().all(is_empty)
}

/// True if ranks ended in the call that creates the file: it returns on none of any node before each has made its log, and
/// headers come after that, so there is no value of the file anywhere. Of a file on one node nothing is said.
pub(in crate::launch) fn was_not_begun(directory: &Path, handed: &HandedOver) -> bool {
    let has_all_logs = |part: &NodePart| part.ranks.iter().all(|rank| has_log(directory, *rank));
    handed.own_part().is_some_and(|part| !has_all_logs(part) || !handed.may_have_header())
}

/// False if a rank has made no log. One that leads to a disk which is not there, or that cannot be looked at, may hold puts.
fn has_log(directory: &Path, rank: usize) -> bool {
    let found = std::fs::symlink_metadata(directory.join(HandedOver::log(rank)));
    !found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// False if the program was told that its library cannot write the header.
fn has_header(directory: &Path) -> bool {
    let is_whole = |bytes: &[u8]| bytes.starts_with(b"\x89HDF") || classic::parse_header(bytes).is_ok();
    std::fs::read(directory.join(HandedOver::HEADER)).map_or(true, |bytes| is_whole(&bytes))
}

/// Brings back the header from before definitions began again, if the library has not got the new one written.
pub(in crate::launch) fn mend_header(directory: &Path) {
    let earlier = directory.join(HandedOver::EARLIER_HEADER);
    // The header may be a link to where other nodes reach it.
    if !has_header(directory) && earlier.exists() && std::fs::copy(&earlier, directory.join(HandedOver::HEADER)).is_ok()
    {
        let _ = std::fs::remove_file(earlier);
    }
}

/// Writes what a file or a session holds in another format, for a program whose library does not read that.
#[derive(Serialize, Deserialize)]
pub(crate) struct Show {
    #[serde(with = "knarr_array::path_bytes")]
    directory: PathBuf,
    /// Where it is written if it finds no memory.
    #[serde(with = "knarr_array::path_bytes")]
    disk: PathBuf,
    shown: Shown,
}

impl Show {
    pub(in crate::launch) fn new(directory: PathBuf, disk: PathBuf, shown: Shown) -> Self {
        Self { directory, disk, shown }
    }

    /// Where what the source holds is written: in memory if the account of the node has enough of it, else on the disk. Returns the
    /// bytes that were taken from the account.
    fn place(&self, source: &dyn Source, form: Form) -> Result<(PathBuf, u64)> {
        let here = self.directory.join(Shown::file(form));
        // On the disk that several nodes share, if it is read on them.
        if let Ok(there) = std::fs::read_link(&here) {
            return Ok((there, 0));
        }
        let bytes = source.model().variables.iter().map(Variable::raw_bytes).fold(HEADER, u64::saturating_add);
        let account = self.directory.parent().and_then(account_of);
        if account.is_none_or(|account| account.take(bytes)) {
            return Ok((here, bytes));
        }
        let name = self.directory.file_name().unwrap_or_default().to_string_lossy();
        let spool = self.directory.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let there = self.disk.join(format!("shown-{spool}-{name}.nc"));
        std::fs::create_dir_all(&self.disk).map_err(|error| Error::write(&self.disk, &error))?;
        // It goes with the directory.
        std::os::unix::fs::symlink(&there, &here).map_err(|error| Error::write(&here, &error))?;
        Ok((there, 0))
    }
}

/// Bytes that a header takes, as a rule.
const HEADER: u64 = 1 << 16;

impl Task for Show {
    const NAME: &'static str = "show";
    type Answer = ();

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<()> {
        let Shown { source, form, .. } = self.shown.clone();
        let source: Box<dyn Source> = match HandedOver::read(&source) {
            Ok(Some(handed)) => source_of(&source, &handed, &BTreeMap::new(), engine)?,
            _ if source.is_dir() => knarr_formats::open(&source, &engine.codecs)?,
            _ if url_of(&source).is_some() => {
                let (network, max_mem) = (engine.network.clone(), engine.max_mem / 2);
                knarr_formats::open_with(&source, &engine.codecs, &Inputs { network, max_mem, ..Inputs::default() })?
            }
            _ => Box::new(open_hdf5_unlocked(&source, &engine.codecs)?),
        };
        let (target, taken) = self.place(&*source, form)?;
        let written = match form {
            Form::Classic => {
                let file = File::create(&target).map_err(|error| Error::write(&target, &error))?;
                let version = classic::Version::Cdf5;
                classic::write(engine, &*source, (&file, &target), version, &Clocks::default(), progress)
            }
            Form::NetCdf4 => {
                let settings = Settings { chain: Some(ChainSpec::raw()), verify: false, ..Settings::default() };
                let options = RepackOptions { save_plan: false, ..RepackOptions::default() };
                write_source(engine, source, (&target, OutputFormat::NetCdf4), &settings, &options, progress).map(drop)
            }
        };
        // When the directory goes, what the file takes is given back.
        if let Some(account) = self.directory.parent().and_then(account_of).filter(|_| taken > 0) {
            account.give_back(taken);
            account.charge(std::fs::metadata(&target).map_or(0, |found| found.len()));
        }
        written
    }
}

/// A delivery.
pub(in crate::launch) struct Delivery {
    pub(in crate::launch) directory: PathBuf,
    pub(in crate::launch) handed: HandedOver,
    /// Where newer versions of the file may be.
    pub(in crate::launch) spools: Vec<PathBuf>,
    /// Directories of parts of other nodes that are on this machine.
    pub(in crate::launch) found: BTreeMap<usize, PathBuf>,
    /// What was chosen for an earlier file of the same rule.
    pub(in crate::launch) earlier: Option<Arc<Plan>>,
    pub(in crate::launch) worker: Arc<Mutex<Worker>>,
    pub(in crate::launch) effort: Effort,
    pub(in crate::launch) cancel: Arc<AtomicBool>,
    pub(in crate::launch) command: String,
    pub(in crate::launch) when: String,
    /// Files that the program may want back.
    pub(in crate::launch) packed: Arc<PackedFiles>,
    /// Hears how far it is.
    pub(in crate::launch) progress: Box<dyn Progress + Send>,
}

/// How often a delivery is tried whose process dies.
const ATTEMPTS: usize = 2;

impl Delivery {
    /// Delivers. Values whose file is in place leave the spool; the others stay.
    pub(in crate::launch) fn run(self) -> Outcome {
        let mut died = None;
        for _ in 0..ATTEMPTS {
            let (directory, handed) = (self.directory.clone(), self.handed.clone());
            let (found, command, when) = (self.found.clone(), self.command.clone(), self.when.clone());
            let earlier = self.earlier.as_deref().cloned();
            let task = Deliver { directory, handed, found, earlier, command, when };
            let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
            match worker.ask(&task, self.effort, &self.cancel, &*self.progress) {
                Ok((repacked, is_file)) => {
                    let input = self.handed.target.clone();
                    let output = if is_file { input.clone() } else { self.handed.rule.made_of(&input) };
                    // Who opens the file waits until its values have left the spool.
                    if self.effort.background
                        && let Err(error) = self.packed.note(&output, &repacked.as_made)
                    {
                        return self.failed(error);
                    }
                    self.handed.hand_on(&self.directory, &self.spools);
                    if self.may_be_read() {
                        HandedOver::discard(&self.directory);
                    } else {
                        self.handed.remove(&self.directory);
                    }
                    // Readers would find old values in the file that the program has replaced.
                    let replaced = self.handed.replaced.filter(|_| output != input);
                    if replaced.is_some() && replaced == FileIdentity::at(&input) {
                        let _ = std::fs::remove_file(&input);
                    }
                    return Outcome::Packed(Box::new(Repacked { input, output, ..repacked }));
                }
                Err(Failure::Died(error)) => died = Some(error),
                Err(Failure::Failed(error)) => return self.failed(error),
            }
        }
        self.failed(died.unwrap_or_else(|| Error::internal("nothing was tried")))
    }

    /// True if a reader of a transfer may yet have the values open: their memory is not used again.
    fn may_be_read(&self) -> bool {
        let is_done = |reader: &String| {
            HandedOver::is_noted(&self.directory, reader, Reading::Done)
                && HandedOver::failure(&self.directory, reader).is_none()
        };
        self.handed.session > 0 && !self.handed.rule.transfer.to().iter().all(is_done)
    }

    fn failed(&self, error: Error) -> Outcome {
        let in_bucket = matches!(self.handed.rule.compress.output(), Output::S3(_));
        let error = if in_bucket && error.kind() == ErrorKind::Interrupted {
            let what = "interrupted; an older store in the bucket may be gone, and what was handed over is kept";
            Error::new(ErrorKind::Interrupted, what)
        } else {
            error
        };
        // It may be in its place, if only its name is not on the disk.
        self.handed.hand_on(&self.directory, &self.spools);
        // Whoever waits for the file waits no longer. If it cannot be set aside now, the main loop tries again.
        let _ = match error.kind() {
            ErrorKind::Exists => HandedOver::set_aside_as_older(&self.directory),
            _ => HandedOver::set_aside(&self.directory),
        };
        Outcome::Undelivered(error, self.directory.clone())
    }
}

/// True if a store is there.
///
/// # Errors
/// Why that is not known.
pub(in crate::launch) fn is_store(engine: &Engine, url: &str) -> Result<bool> {
    let network = engine.network.as_ref().ok_or_else(|| Error::internal("a run without a network"))?;
    network.read(url).and_then(|store| zarr::is_store(store.as_ref())).map_err(|error| error.at_once(url))
}

/// Says that a file has not become what its rule wants.
pub(in crate::launch) fn made_instead(rule: &FileRule, made: &Repacked) -> Option<String> {
    let wanted = rule.made_of(&made.input);
    (wanted != made.output).then(|| format!("Zarr cannot hold it: {} was not made", wanted.display()))
}
