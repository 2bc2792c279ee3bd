//! Makes files of what a program has handed over, in another process, and takes it out of the spool.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::model::Variable;
use knarr_capture::{Datasets, Form, HandedOver, Image, NodePart, Reading, Transcoded, tier_of_spool};
use knarr_choose::plan::Plan;
use knarr_codec::chain::ChainSpec;
use knarr_config::FileRule;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::{FileIdentity, Replaces};
use knarr_flow::settings::Settings;
use knarr_flow::store::Source;
use knarr_flow::urls::url_of;
use knarr_formats::classic::{self, ClassicSource};
use knarr_formats::handed_over::HandedOverSource;
use knarr_formats::hdf5::Handed;
use knarr_formats::output::{self, OutputKind};
use knarr_formats::zarr;
use knarr_formats::{Clocks, Inputs, open_handed_over, open_hdf5_unlocked};
use knarr_handover::{AheadChunks, AssembledPuts, RankValues, RemoteRank, read_puts};
use knarr_link::{Link, link_to};
use knarr_routes::compress::{RepackOptions, Repacked, write_source};
use knarr_tier::Room;
use serde::{Deserialize, Serialize};

use crate::launch::jobs::closed::is_short;
use crate::launch::jobs::kind::kind_of;
use crate::launch::jobs::packed::PackedFiles;
use crate::launch::jobs::stage::drain::{Drain, Way};
use crate::launch::jobs::stage::kept::Keeping;
use crate::launch::jobs::stage::packed::Packing;
use crate::launch::jobs::stage::room::{Staging, summed};
use crate::launch::jobs::stage::seal::Seal;
use crate::launch::jobs::tasks::{Made, Mask};
use crate::launch::outcome::Outcome;
use knarr_decisions::level::EncodingLevel;
use knarr_worker::{Failure, Pool, Share, Task};

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
    /// Where the file may wait.
    staging: Option<Staging>,
    /// How well it is encoded, if that is not what its rule says.
    level: Option<EncodingLevel>,
    /// An older version was made in this recovery: it is replaced.
    was_made: bool,
    command: String,
    when: String,
}

impl Task for Deliver {
    const NAME: &'static str = "deliver";
    type Answer = Made;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Made> {
        let Self { directory, handed, found, earlier, staging, level, was_made, command, when } = self;
        let _mask = handed.umask.map(Mask::of_program);
        handed.forget_made(&directory)?;
        let source = source_of(&directory, &handed, &found, engine)?;
        let is_hdf5 = Datasets::read(&directory)?.is_some();
        let HandedOver { target, rule, ranks, is_new, .. } = &handed;
        let output = rule.made_of(target);
        let header = directory.join(if *ranks == 0 { Transcoded::CLASSIC } else { HandedOver::HEADER });
        // That of a classic file has its size already.
        let plain_bytes = match fs::metadata(&header).map_or(0, |found| found.len()) {
            all if *ranks == 0 => all,
            header => source.model().variables.iter().map(Variable::raw_bytes).fold(header, u64::saturating_add),
        };
        // Of a small file, all that HDF5 needs to find its way may take more than the values.
        let is_free = rule.route().traits().is_handed_over && rule.compress().output.is_none();
        let may_stay = !is_hdf5 && is_free && plain_bytes <= SMALL;
        let classic_above = if may_stay { Some((plain_bytes, classic::version_of(&header)?)) } else { None };
        // The plan is saved when the program has ended.
        let replaces = handed.replaces(&output, &directory);
        let options = RepackOptions { replaces, command, when, classic_above, ..RepackOptions::default() };
        // Other places are looked at when the program creates the file.
        if let Some(url) = url_of(&output).filter(|_| *is_new && rule.place.is_none())
            && is_store(engine, url)?
        {
            return Err(Error::new(ErrorKind::Exists, "the program wants nothing replaced, and a store is there")
                .hint("remove it, and have this one made by 'knarr run --recover'")
                .at(url));
        }
        let kind = kind_of(&handed, &*source, (!is_hdf5).then_some(header.as_path()))?;
        let filters = handed.readers_filters();
        let settings = rule.lenient_settings()?;
        let goal = level.map_or_else(|| settings.goal.clone(), EncodingLevel::goal);
        let settings = Settings { earlier: earlier.map(Arc::new), as_whole: true, filters, goal, ..settings };
        if let Some(reserved) = staging.as_ref().and_then(|staging| staging.reserve(plain_bytes, &directory)) {
            let source = source_of(&directory, &handed, &found, engine)?;
            let options = RepackOptions { replaces: Replaces::Anything, is_private: true, ..options.clone() };
            let output: (&Path, &dyn OutputKind) = (&reserved.path, kind);
            let staged = write_source(engine, source, output, &settings, &options, progress)
                .and_then(|made| reserved.keep(&directory, (Repacked { input_bytes: plain_bytes, ..made }, false)));
            match staged {
                Ok((repacked, is_file)) => return Ok(Made { repacked, is_file, is_staged: true, placed: None }),
                // Others have filled the tier.
                Err(error) if error.kind() == ErrorKind::Write => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(url) = rule.place.as_ref().and(url_of(&output)) {
            // No tier has room, or the run is over that has tiers.
            let here = Unplaced(directory.join(UNPLACED));
            let options = RepackOptions { replaces: Replaces::Anything, is_private: true, ..options };
            let made = write_source(engine, source, (&here.0, kind), &settings, &options, progress)?;
            let (found, checksum) = summed(&here.0, None)?;
            let way = Way::of((&here.0, found.len(), checksum), &handed, (staging.as_ref(), was_made))?;
            way.to_bucket(url, engine, progress)?;
            handed.note_made(&directory);
            let repacked = Repacked { input_bytes: plain_bytes, ..made };
            return Ok(Made { repacked, is_file: false, is_staged: false, placed: None });
        }
        let made = match write_source(engine, source, (&output, kind), &settings, &options, progress) {
            // The program does not know of Zarr.
            Err(error) if error.kind() == ErrorKind::Unsupported && output != *target => {
                let source = source_of(&directory, &handed, &found, engine)?;
                let options = RepackOptions { replaces: handed.replaces(target, &directory), ..options };
                let instead: (&Path, &dyn OutputKind) = (target, output::NETCDF4);
                let written = write_source(engine, source, instead, &settings, &options, progress);
                written.map(|made| (made, true)).map_err(|_| error)
            }
            written => written.map(|made| (made, false)),
        };
        let (made, is_file) = made.inspect(|_| handed.note_made(&directory))?;
        if let Some(last) = staging.as_ref().and_then(Staging::last) {
            last.pass(made.output_bytes);
        }
        Ok(Made { repacked: Repacked { input_bytes: plain_bytes, ..made }, is_file, is_staged: false, placed: None })
    }
}

/// Name of a file on its way to a bucket for which no tier has room.
const UNPLACED: &str = "unplaced";

/// Such a file. It goes when it was sent, or was not.
struct Unplaced(PathBuf);

impl Drop for Unplaced {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Files up to this size are as the program's library writes them, if they would be larger otherwise.
const SMALL: u64 = 1 << 20;

/// Where the values of each rank are.
pub(in crate::launch) fn rank_values(
    handed: &HandedOver,
    directory: &Path,
    found: &BTreeMap<usize, PathBuf>,
) -> Vec<RankValues> {
    let links: Vec<Arc<dyn Link>> = handed.parts.iter().map(|part| link_to(part.peer.clone())).collect();
    let of = |rank| {
        let number = handed.parts.iter().position(|part| part.ranks.contains(&rank)).unwrap_or(handed.part);
        let here = if number == handed.part { Some(directory) } else { found.get(&number).map(PathBuf::as_path) };
        match (here, handed.parts.get(number), links.get(number)) {
            (None, Some(part), Some(link)) => {
                let (link, file) = (Arc::clone(link), part.file.clone());
                // Files are made of exact values.
                RankValues::There(RemoteRank { link, file, rank, tuner: None, bounded: None })
            }
            (here, ..) => {
                let here = here.unwrap_or(directory);
                RankValues::Here { values: here.join(HandedOver::values(rank)), log: here.join(HandedOver::log(rank)) }
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
    let puts = AssembledPuts::of(u64::MAX, rank_values(handed, directory, found))?;
    let puts = puts.with_ahead(AheadChunks::open(directory));
    if let Some(logged) = logged.filter(|logged| *logged != puts.logged()) {
        let what =
            format!("its logs have {} bytes of records, and had {logged} when the file was closed", puts.logged());
        return Err(Error::corrupt(what).at(directory.display().to_string()));
    }
    let header = directory.join(HandedOver::HEADER);
    Ok(match Datasets::read(directory)? {
        Some(Datasets { addresses }) => {
            let state = Handed { is_closed: records.is_some(), is_serial: handed.is_serial };
            open_handed_over(&header, (puts, &addresses), target, state, &engine.codecs)?
        }
        None if *ranks == 0 => {
            let whole = directory.join(Transcoded::CLASSIC);
            classic::complete(&whole)?;
            Box::new(ClassicSource::open(&whole)?)
        }
        None => Box::new(HandedOverSource::open(&header, puts, *records, target)?),
    })
}

/// True if nothing was put into a file that the program has not closed, or whose header is not whole.
pub(in crate::launch) fn holds_nothing(directory: &Path, open: &HandedOver) -> bool {
    if HandedOver::has_image(directory) {
        return false;
    }
    if open.was_not_made(directory) {
        return true;
    }
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
    let has_image = HandedOver::has_image(directory);
    handed.own_part().filter(|_| !has_image).is_some_and(|part| !has_all_logs(part) || !handed.may_have_header())
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

/// Brings back the header from before definitions began again, if the library has not got the new one written; or that which HDF5
/// has written for the first rank, if no copy could be made of it.
pub(in crate::launch) fn mend_header(directory: &Path) {
    let header = directory.join(HandedOver::HEADER);
    let earlier = directory.join(HandedOver::EARLIER_HEADER);
    // The header may be a link to where other nodes reach it.
    if !has_header(directory) && earlier.exists() && std::fs::copy(&earlier, &header).is_ok() {
        let _ = std::fs::remove_file(earlier);
    }
    let own = directory.join(HandedOver::header_of(0));
    if std::fs::symlink_metadata(&header).is_err() && own.exists() {
        // Without one the file cannot be made, which is told.
        let _ = std::fs::copy(own, header);
    }
}

/// Writes what a file or a session holds in another format, for a program whose library does not read that.
#[derive(Serialize, Deserialize)]
pub(crate) struct Transcode {
    #[serde(with = "knarr_array::path_bytes")]
    directory: PathBuf,
    /// Where it is written if it finds no memory.
    #[serde(with = "knarr_array::path_bytes")]
    disk: PathBuf,
    shown: Transcoded,
}

impl Transcode {
    pub(in crate::launch) fn new(directory: PathBuf, disk: PathBuf, shown: Transcoded) -> Self {
        Self { directory, disk, shown }
    }

    /// Where what the source holds is written: in memory if there is room for it, else on the disk. Returns the room that was
    /// taken.
    fn place(&self, source: &dyn Source, form: Form) -> Result<(PathBuf, Option<Room>)> {
        let here = self.directory.join(Transcoded::file(form));
        // On the disk that several nodes share, if it is read on them.
        if let Ok(there) = std::fs::read_link(&here) {
            return Ok((there, None));
        }
        let bytes = source.model().variables.iter().map(Variable::raw_bytes).fold(HEADER, u64::saturating_add);
        if let Some(room) = Room::take(&tier_of_spool(self.directory.parent().unwrap_or(&self.directory)), bytes, 0) {
            return Ok((here, Some(room)));
        }
        let name = self.directory.file_name().unwrap_or_default().to_string_lossy();
        let spool = self.directory.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let there = self.disk.join(format!("shown-{spool}-{name}.nc"));
        std::fs::create_dir_all(&self.disk).map_err(|error| Error::write(&self.disk, &error))?;
        // It goes with the directory.
        std::os::unix::fs::symlink(&there, &here).map_err(|error| Error::write(&here, &error))?;
        Ok((there, None))
    }
}

/// Bytes that a header takes, as a rule.
const HEADER: u64 = 1 << 16;

impl Task for Transcode {
    const NAME: &'static str = "show";
    type Answer = ();

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<()> {
        let Transcoded { source, form, .. } = self.shown.clone();
        let source: Box<dyn Source> = match HandedOver::read(&source) {
            Ok(Some(handed)) => source_of(&source, &handed, &BTreeMap::new(), engine)?,
            _ if source.is_dir() => knarr_formats::open(&source, &engine.codecs)?,
            _ if url_of(&source).is_some() => {
                let (stores, max_mem) = (engine.stores.clone(), engine.max_mem / 2);
                knarr_formats::open_with(&source, &engine.codecs, &Inputs { stores, max_mem, ..Inputs::default() })?
            }
            _ => Box::new(open_hdf5_unlocked(&source, &engine.codecs)?),
        };
        let (target, room) = self.place(&*source, form)?;
        let written = match form {
            Form::Classic => {
                let file = File::create(&target).map_err(|error| Error::write(&target, &error))?;
                let version = classic::Version::Cdf5;
                classic::write(engine, &*source, (&file, &target), version, &Clocks::default(), progress)
            }
            Form::NetCdf4 => {
                let settings = Settings { chain: Some(ChainSpec::raw()), verify: false, ..Settings::default() };
                let options = RepackOptions { save_plan: false, ..RepackOptions::default() };
                write_source(engine, source, (&target, output::NETCDF4), &settings, &options, progress).map(drop)
            }
        };
        // When the directory goes, what the file takes is given back.
        if let (Some(room), Ok(found)) = (room, std::fs::metadata(&target)) {
            room.filled(&found);
        }
        written
    }
}

/// A delivery.
pub(in crate::launch) struct DeliverJob {
    pub(in crate::launch) directory: PathBuf,
    pub(in crate::launch) handed: HandedOver,
    /// Where newer versions of the file may be.
    pub(in crate::launch) spools: Vec<PathBuf>,
    /// Directories of parts of other nodes that are on this machine.
    pub(in crate::launch) found: BTreeMap<usize, PathBuf>,
    /// What was chosen for an earlier file of the same rule.
    pub(in crate::launch) earlier: Option<Arc<Plan>>,
    /// Where it may wait.
    pub(in crate::launch) staging: Option<Staging>,
    /// How well it is encoded, if that is not what its rule says.
    pub(in crate::launch) level: Option<EncodingLevel>,
    /// It stays in its tier when it has moved.
    pub(in crate::launch) keeping: Option<Keeping>,
    /// If the program itself has written it in a tier, it is packed there.
    pub(in crate::launch) is_packed: bool,
    pub(in crate::launch) workers: Arc<Pool>,
    pub(in crate::launch) share: Share,
    pub(in crate::launch) cancel: Arc<AtomicBool>,
    /// The program has not ended.
    pub(in crate::launch) is_running: bool,
    /// An older version was made in this recovery.
    pub(in crate::launch) was_made: bool,
    pub(in crate::launch) command: String,
    pub(in crate::launch) when: String,
    /// Files that the program may want back.
    pub(in crate::launch) packed: Arc<PackedFiles>,
    /// Hears how far it is.
    pub(in crate::launch) progress: Box<dyn Progress + Send>,
}

/// What became of a delivery.
pub(in crate::launch) enum Delivered {
    /// This.
    Is(Outcome),
    /// The file waits in a tier, from which it is to be moved to its place. This was made of it.
    Staged(Box<Repacked>),
    /// It needs more memory than its share.
    Short,
}

/// How often a delivery is tried whose process dies.
const ATTEMPTS: usize = 2;

impl DeliverJob {
    /// Delivers. Values whose file is in place leave the spool; the others stay.
    pub(in crate::launch) fn run(mut self) -> Delivered {
        let mut died = None;
        for _ in 0..ATTEMPTS {
            match self.ask(died.is_some()) {
                Ok(Made { repacked, is_staged: true, .. }) => return Delivered::Staged(Box::new(repacked)),
                Ok(Made { repacked, is_file, placed, .. }) => {
                    let input = self.handed.target.clone();
                    let output = if is_file { input.clone() } else { self.handed.rule.made_of(&input) };
                    // Who opens the file waits until its values have left the spool.
                    if self.is_running
                        && let Err(error) = self.packed.note(&output, &repacked.as_made)
                    {
                        return Delivered::Is(self.failed(error));
                    }
                    if let Some((keeping, name)) = self.keeping.take().zip(placed) {
                        keeping.keep(&self.directory, &input, name);
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
                    return Delivered::Is(Outcome::Packed(Box::new(Repacked { input, output, ..repacked })));
                }
                Err(Failure::Died(error)) => died = Some(error),
                Err(Failure::Failed(error)) if is_short(&self.share, &error) => return Delivered::Short,
                Err(Failure::Failed(error)) => return Delivered::Is(self.failed(error)),
            }
        }
        Delivered::Is(self.failed(died.unwrap_or_else(|| Error::internal("nothing was tried"))))
    }

    /// Has a process do what is to be done next. One that was to do it before may have died.
    fn ask(&self, has_died: bool) -> Result<Made, Failure> {
        let (directory, handed, staging) = (self.directory.clone(), self.handed.clone(), self.staging.clone());
        let waits = || matches!(Image::<(Repacked, bool)>::of(&directory), Ok(Some(_)));
        if handed.reserved.is_some() && !waits() {
            let task = Seal {
                directory: directory.clone(),
                handed: handed.clone(),
                staging: staging.clone(),
                packing: Packing {
                    is_wanted: self.is_packed,
                    level: self.level,
                    command: self.command.clone(),
                    when: self.when.clone(),
                    may_grow: self.share.may_grow,
                    has_died,
                },
            };
            let sealed = self.workers.ask(&task, &self.share, &self.cancel, &*self.progress)?;
            if staging.is_some() {
                return Ok(sealed);
            }
        }
        if waits() {
            let (was_made, is_kept) = (self.was_made, self.keeping.is_some());
            let task = Drain { directory, handed, staging, was_made, is_kept };
            return self.workers.ask(&task, &self.share, &self.cancel, &*self.progress);
        }
        let (found, command, when) = (self.found.clone(), self.command.clone(), self.when.clone());
        let earlier = self.earlier.as_deref().cloned();
        let (level, was_made) = (self.level, self.was_made);
        let task = Deliver { directory, handed, found, earlier, staging, level, was_made, command, when };
        self.workers.ask(&task, &self.share, &self.cancel, &*self.progress)
    }

    /// True if a reader of a transfer may yet have the values open: their memory is not used again.
    fn may_be_read(&self) -> bool {
        let is_done = |reader: &String| {
            HandedOver::is_noted(&self.directory, reader, Reading::Done)
                && HandedOver::failure(&self.directory, reader).is_none()
        };
        self.handed.session > 0 && !self.handed.rule.transfer().to().iter().all(is_done)
    }

    fn failed(&self, error: Error) -> Outcome {
        let in_bucket = self.handed.rule.compress().output().url().is_some();
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
        if self.directory.exists() { Outcome::Undelivered(error, self.directory.clone()) } else { Outcome::Lost(error) }
    }
}

/// True if a store is there.
///
/// # Errors
/// Why that is not known.
pub(in crate::launch) fn is_store(engine: &Engine, url: &str) -> Result<bool> {
    let stores = engine.stores.as_ref().ok_or_else(|| Error::internal("a run without a network"))?;
    stores.read(url).and_then(|store| zarr::is_store(store.as_ref())).map_err(|error| error.at_once(url))
}

/// Says that a file has not become what its rule wants.
pub(in crate::launch) fn made_instead(rule: &FileRule, made: &Repacked) -> Option<String> {
    let wanted = rule.made_of(&made.input);
    (wanted != made.output).then(|| format!("Zarr cannot hold it: {} was not made", wanted.display()))
}
