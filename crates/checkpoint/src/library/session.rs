//! What a program calls, on all its ranks: hand over, go on computing, learn what became of it, restart.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::busy::Busy;
use super::image::Share;
use super::options::Options;
use super::restart::{Restart, check_alike, files_of, image_of, indices};
use super::spool::Spool;
use crate::layout::Layout;
use crate::measured::{self, By, Measured};
use crate::sets;
use crate::together::check_options;
use crate::{Group, Grouping, Input, Member, PackOptions, Packed, Part, Set, Together, deal, verify};
use knarr_array::array::ArrayView;
use knarr_array::comm::{self, Comm, ROOT, agree, all_gather};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::guard::guarded;
use knarr_array::wire::{Reader, put_bytes};
use knarr_flow::engine::{Engine, Silent};
use knarr_flow::output::remove_abandoned;

/// A set that was completed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// Its step.
    pub step: u64,
    /// Its directory.
    pub path: PathBuf,
    /// Bytes that were handed over by all ranks.
    pub raw_bytes: u64,
    /// Bytes that were written.
    pub packed_bytes: u64,
    /// From the commit until it was complete, in seconds.
    pub seconds: f64,
}

/// The checkpoints of a program in a directory of sets.
///
/// All functions but [`Session::put`] and [`Session::add_file`] are collective. Only the thread that calls them calls its
/// [`Comm`]; packing runs in a thread of its own, on one rank of each group of a node. At most one step is under way: its
/// arrays lie in memory once more, and the next step waits for it.
pub struct Session<C: Comm> {
    engine: Engine,
    comm: C,
    directory: PathBuf,
    options: Options,
    spool: Spool,
    /// Held by rank 0 from the first step on.
    lock: Option<File>,
    open: Option<Step>,
    pending: Option<Pending>,
    last: Option<Committed>,
    warnings: Vec<Error>,
    /// What the calls for a step take.
    busy: Busy,
    /// The restart that goes on until a step is begun.
    restarting: Option<Restarting>,
    /// Ranks do different things: nothing can be done together any more.
    broken: Option<Error>,
}

/// What a restart takes.
struct Restarting {
    set: PathBuf,
    opening: Duration,
    reading: Busy,
}

/// A step that is handed over.
struct Step {
    step: u64,
    files: Vec<Input>,
    /// Why it cannot be committed.
    failed: Option<Error>,
}

/// A step that is packed.
struct Pending {
    step: u64,
    path: PathBuf,
    thread: JoinHandle<(Together, Result<Part>)>,
}

/// What a rank is about to do.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Call {
    name: String,
    step: Option<u64>,
}

impl Call {
    fn new(name: &str, step: Option<u64>) -> Self {
        Self { name: name.to_owned(), step }
    }

    fn describe(&self) -> String {
        self.step.map_or_else(|| self.name.clone(), |step| format!("{} of step {step}", self.name))
    }
}

impl<C: Comm> Session<C> {
    /// Makes checkpoints in `directory`, which is made if it is not there. Collective.
    ///
    /// # Errors
    /// `Write` if the directory or the spool cannot be made; `Usage` for options that cannot be; as for [`comm::gather`].
    pub fn open(engine: &Engine, comm: C, directory: &Path, options: Options) -> Result<Self> {
        let make = || {
            if options.keep == Some(0) {
                return Err(Error::usage("no set is to be kept").hint("keep at least 1"));
            }
            // Rather now than when the first step is committed.
            check_options(&options.engine(engine), &options.pack)?;
            std::fs::create_dir_all(directory).map_err(|error| Error::write(directory, &error))?;
            Spool::open(options.spool.as_deref(), directory, options.memory)
        };
        let spool = agree(&comm, make())?;
        Ok(Self {
            engine: options.engine(engine),
            comm,
            directory: directory.to_owned(),
            options,
            spool,
            lock: None,
            open: None,
            pending: None,
            last: None,
            warnings: Vec::new(),
            busy: Busy::default(),
            restarting: None,
            broken: None,
        })
    }

    /// The rank of this process and how many there are.
    pub fn ranks(&self) -> (u64, u64) {
        (self.comm.rank() as u64, self.comm.size() as u64)
    }

    /// The set that was completed last in this session.
    pub fn last(&self) -> Option<&Committed> {
        self.last.as_ref()
    }

    /// What went wrong without being an error of a call, on rank 0: sets that were passed over, old ones that could not
    /// be removed. Returned once.
    pub fn take_warnings(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.warnings)
    }

    /// Begins a step, after waiting for the one before. What was handed over since a `begin` without `commit` is
    /// forgotten. Collective.
    ///
    /// # Errors
    /// What became of the step before, and then nothing is begun; `Exists` if there is a set of this step, unless sets may
    /// be replaced, or if another program makes sets there.
    pub fn begin(&mut self, step: u64) -> Result<()> {
        self.note_restart();
        let _inside = self.busy.enter();
        self.open = None;
        let allowed = if self.comm.rank() == ROOT { self.may_begin(step) } else { Ok(()) };
        self.meet(Call::new("begin", Some(step)), allowed)?;
        self.settle()?;
        self.spool.begin();
        self.open = Some(Step { step, files: Vec::new(), failed: None });
        Ok(())
    }

    fn may_begin(&mut self, step: u64) -> Result<()> {
        if self.lock.is_none() {
            self.lock = Some(sets::lock(&self.directory)?);
            remove_abandoned(&self.directory);
        }
        let path = sets::of_step(&self.directory, step);
        let is_pending = self.pending.as_ref().is_some_and(|pending| pending.step == step);
        if !self.options.pack.force && (is_pending || path.symlink_metadata().is_ok()) {
            return Err(Error::new(ErrorKind::Exists, format!("there is a checkpoint of step {step}"))
                .hint("remove it, or ask to replace those that are there (force)")
                .at(path.display().to_string()));
        }
        Ok(())
    }

    /// Forked processes share the memory that arrays are copied to, and have no thread that packs.
    fn check_process(&self) -> Result<()> {
        match self.spool.is_own() {
            true => Ok(()),
            false => Err(Error::usage("a process that was forked cannot go on with the checkpoints of its parent")
                .hint("hand over and restart in the process that opened them, or open them in the forked one")),
        }
    }

    fn opened(&mut self) -> Result<&mut Step> {
        self.check_process()?;
        let none = || Error::usage("no step was begun").hint("call begin first");
        self.open.as_mut().ok_or_else(none)
    }

    /// Copies an array of this rank; the program may change it at once. A global array has one name, type and shape on all
    /// ranks; each hands over as many regions of it as it has. Not collective.
    ///
    /// # Errors
    /// `Usage` if no step was begun, or for a name, a region or a type that cannot be; `Write` if there is no room. After
    /// an error the step cannot be committed: [`Session::commit`] then returns it on all ranks.
    pub fn put(&mut self, name: &str, array: &ArrayView<'_>, share: Share) -> Result<()> {
        let _inside = self.busy.enter();
        self.opened()?;
        let put = self.spool.put(name, array, share);
        self.note(put)
    }

    /// Notes that something which belongs to the step could not be handed over: [`Session::commit`] returns the first such
    /// error on all ranks.
    pub fn fail(&mut self, error: &Error) {
        if let Some(open) = &mut self.open {
            open.failed.get_or_insert_with(|| error.clone());
        }
    }

    fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.fail(error))
    }

    /// Adds a file of this rank, which a restart on as many ranks brings back under `name`, a path below a directory. It is
    /// read while it is packed: it must stay as it is until the step is complete. Not collective.
    ///
    /// # Errors
    /// `Usage` if no step was begun or for a name that cannot be; `NotFound` or `Read` for a file that cannot be read. After
    /// an error the step cannot be committed.
    pub fn add_file(&mut self, path: &Path, name: &str) -> Result<()> {
        let _inside = self.busy.enter();
        let folder = files_of(self.comm.rank() as u64);
        let added = add(self.opened()?, path, &[&folder, name.as_bytes()].concat());
        self.note(added)
    }

    /// Hands the step over: returns as soon as packing has begun. Collective.
    ///
    /// # Errors
    /// On all ranks that of one: what `put` or `add_file` returned, arrays of one name that are not alike, sets that cannot
    /// be written. The step is given up then, and the sets that are there stay.
    pub fn commit(&mut self) -> Result<()> {
        let _inside = self.busy.enter();
        let (rank, ranks) = self.ranks();
        let handed = match self.open.take() {
            None => Err(Error::usage("no step was begun").hint("call begin first")),
            Some(Step { failed: Some(error), .. }) => Err(error),
            Some(Step { step, files, .. }) => self.spool.finish(step, rank, ranks).map(|index| (step, files, index)),
        };
        // A rank without a step has an error, which says more than that its step is another one.
        let count = handed.as_ref().map(|(_, files, _)| files.len()).map_err(Clone::clone);
        let counts = self.meet(Call::new("commit", None), count)?;
        let (step, files, index) = handed?;
        let path = sets::of_step(&self.directory, step);
        let alike = self.check_alike(&index.write(0).1);
        agree(&self.comm, alike)?;
        let image = Input { path: self.spool.path(), name: image_of(rank), number: rank };
        let mine = self.comm.rank();
        let before: usize = self.comm.size() + counts.iter().take(mine).sum::<usize>();
        let files = files.into_iter().enumerate().map(|(number, input)| Member { rank: before + number, input });
        let members: Vec<Member> = std::iter::once(Member { rank: mine, input: image }).chain(files).collect();
        let groups = deal(&self.comm, &members, Grouping::Node, self.options.pack.group_size)?;
        let base = match mine {
            ROOT => sets::whole(&self.directory, &self.engine.codecs)
                .map(|(mut sets, _)| sets.pop().map(|set| set.path().to_owned())),
            _ => Ok(None),
        };
        let base = agree(&self.comm, base)?;
        let base: Option<PathBuf> = comm::share(&self.comm, &base)?;
        // An earlier set that cannot be read saves no bytes, and is no reason to go without a checkpoint.
        let base = base.filter(|base| Set::open(base, &self.engine.codecs).is_ok());
        let base =
            self.meet(Call::new("commit", Some(step)), Ok(base.is_some()))?.iter().all(|&all| all).then_some(base);
        let options = PackOptions { base: base.flatten(), keep: self.options.keep, ..self.options.pack.clone() };
        let together = Together::begin(&self.engine, &self.comm, &path, &options)?;
        let started = Pending::start(step, path, together, groups, self.options.find);
        self.pending = Some(agree(&self.comm, started)?);
        Ok(())
    }

    /// Compares what the ranks say of their arrays.
    fn check_alike(&self, index: &[u8]) -> Result<()> {
        let Some(all) = comm::gather(&self.comm, ROOT, index)? else { return Ok(()) };
        let all = all.iter().map(|bytes| super::image::Index::parse_anywhere(bytes)).collect::<Result<Vec<_>>>()?;
        check_alike(all.iter())
    }

    /// True if no step is under way: the one that was committed last is complete. Does not wait for packing. Collective.
    ///
    /// # Errors
    /// What became of the step, on all ranks that of one: it is given up, and the sets that are there stay.
    pub fn test(&mut self) -> Result<bool> {
        let _inside = self.busy.enter();
        let is_done = self.pending.as_ref().is_none_or(|pending| pending.thread.is_finished());
        let all = self.meet(Call::new("test", None), Ok(is_done))?;
        if all.iter().all(|&done| done) {
            self.settle()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Waits until no step is under way. Collective.
    ///
    /// # Errors
    /// As for [`Session::test`].
    pub fn wait(&mut self) -> Result<()> {
        let _inside = self.busy.enter();
        self.waited()
    }

    fn waited(&mut self) -> Result<()> {
        self.meet(Call::new("wait", None), Ok(()))?;
        self.settle()
    }

    /// Opens the checkpoint of `step`, or the newest one that is whole as far as its index tells; those that are passed
    /// over are warnings. `None` if there is none. With `verify` every byte of it is read and checked first. Waits for the
    /// step that is under way. Collective.
    ///
    /// # Errors
    /// `NotFound` if there is no set of this step; `Corrupt` or `Read` if it cannot be used; what became of the step under
    /// way.
    pub fn restart(&mut self, step: Option<u64>, verify: bool) -> Result<Option<Restart>> {
        self.meet(Call::new("restart", step), Ok(()))?;
        self.settle()?;
        let begin = Instant::now();
        let found = if self.comm.rank() == ROOT { self.find(step, verify) } else { Ok(None) };
        let found = agree(&self.comm, found)?;
        let mut message = Vec::new();
        if let Some((path, indices)) = &found {
            put_bytes(&mut message, &comm::written(path)?);
            put_bytes(&mut message, indices);
        }
        let message = comm::broadcast(&self.comm, ROOT, message)?;
        if message.is_empty() {
            return Ok(None);
        }
        let mut reader = Reader::new("message", &message);
        let path: PathBuf = comm::read(reader.bytes()?)?;
        let restart = agree(&self.comm, Restart::open(&self.engine, &path, reader.bytes()?))?;
        self.restarting = Some(Restarting { set: path, opening: begin.elapsed(), reading: restart.reading() });
        Ok(Some(restart))
    }

    /// Path of the set to restart from, with its indices.
    fn find(&mut self, step: Option<u64>, verify: bool) -> Result<Option<(PathBuf, Vec<u8>)>> {
        if let Some(step) = step {
            let path = sets::of_step(&self.directory, step);
            if !path.exists() {
                let all: Vec<String> = sets::completed(&self.directory)?
                    .iter()
                    .filter_map(|set| sets::step(set))
                    .map(|s| s.to_string())
                    .collect();
                let has = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                return Err(Error::new(ErrorKind::NotFound, format!("there is no checkpoint of step {step}"))
                    .hint(format!("the directory has those of steps: {has}"))
                    .at(self.directory.display().to_string()));
            }
            return self.usable(&path, verify).map(|indices| Some((path, indices)));
        }
        for path in sets::completed(&self.directory)?.into_iter().rev().filter(|path| sets::step(path).is_some()) {
            match self.usable(&path, verify) {
                Ok(indices) => return Ok(Some((path, indices))),
                Err(error) => self.warnings.push(error.at("passed over")),
            }
        }
        Ok(None)
    }

    fn usable(&self, path: &Path, is_verified: bool) -> Result<Vec<u8>> {
        let indices = indices(&self.engine, path)?;
        Restart::open(&self.engine, path, &indices)?;
        if is_verified {
            let verified = verify(&self.engine, &Set::open(path, &self.engine.codecs)?, &Silent)?;
            if let Some(damage) = verified.damage.into_iter().next() {
                return Err(damage.error.at(format!("rank {} of the set", damage.rank)));
            }
        }
        Ok(indices)
    }

    /// Completes the step that is under way and ends the session. Collective. In a process that was forked it does nothing.
    ///
    /// # Errors
    /// What became of the step; `Usage` if one was begun and not committed, which is not stored.
    pub fn close(mut self) -> Result<()> {
        if !self.spool.is_own() {
            return Ok(());
        }
        self.note_restart();
        // Nothing is computed after it, so nothing is kept waiting.
        self.waited()?;
        match self.open.take() {
            None => Ok(()),
            Some(Step { step, .. }) => {
                Err(Error::usage(format!("step {step} was begun and not committed, so it is not stored"))
                    .hint("commit it, or do not begin it"))
            }
        }
    }

    /// Completes the step that is under way, if there is one. All ranks have it, or none.
    fn settle(&mut self) -> Result<()> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let completed = self.complete(pending);
        // What calls take from now on is for the next step.
        let stopped = self.busy.take();
        if let Some(committed) = completed? {
            measured::note(&committed.path, &Measured::checkpoint(By::Library, Some(stopped), committed.seconds));
        }
        Ok(())
    }

    /// What rank 0 has to tell of a step that was packed.
    fn complete(&mut self, Pending { step, path, thread }: Pending) -> Result<Option<Committed>> {
        let joined = thread.join().map_err(|_| Error::internal("the thread that packs stopped"));
        let at_step = |error: Error| error.at(format!("checkpoint of step {step}"));
        let (together, part) = agree(&self.comm, joined).map_err(at_step)?;
        let packed = together.finish(&self.comm, part).map_err(at_step)?;
        if packed.is_some() {
            self.prune();
        }
        let committed = packed.map(|Packed { raw_bytes, packed_bytes, seconds, .. }| Committed {
            step,
            path,
            raw_bytes,
            packed_bytes,
            seconds,
        });
        self.last = comm::share(&self.comm, &committed)?;
        Ok(committed)
    }

    /// Notes what the restart took, unless nothing was read. The time of rank 0 stands for that of all.
    fn note_restart(&mut self) {
        let Some(Restarting { set, opening, reading }) = self.restarting.take() else { return };
        let reading = reading.take();
        if self.comm.rank() == ROOT && !reading.is_zero() {
            measured::note(&set, &Measured::restart(By::Library, opening + reading));
        }
    }

    fn prune(&mut self) {
        let Some(keep) = self.options.keep else { return };
        match sets::prune(&self.directory, keep, &self.engine.codecs, false) {
            Ok(pruned) => {
                self.warnings.extend(pruned.damaged.into_iter().map(|error| error.at("left alone")));
                self.warnings.extend(pruned.failed.into_iter().map(|error| error.at("old checkpoints stay")));
            }
            Err(error) => self.warnings.push(error.at("old checkpoints stay")),
        }
    }

    /// Tells the other ranks what this one is about to do, and whether it can. Returns what all of them say.
    ///
    /// # Errors
    /// That of the lowest rank that has one; `Usage` if ranks do different things, and from then on always.
    fn meet<T: Serialize + DeserializeOwned>(&mut self, call: Call, mine: Result<T>) -> Result<Vec<T>> {
        self.check_process()?;
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        if self.comm.size() == 1 {
            return mine.map(|mine| vec![mine]);
        }
        let message = comm::written(&(&call, &mine))?;
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

fn add(open: &mut Step, path: &Path, name: &[u8]) -> Result<()> {
    crate::names::check(name).map_err(|error| Error::usage(error.message()))?;
    let metadata = std::fs::metadata(path).map_err(|error| Error::read(path, &error))?;
    if !metadata.is_file() {
        return Err(Error::unsupported("not a regular file").at(path.display().to_string()));
    }
    if open.files.iter().any(|file| file.name == name) {
        let name = name.escape_ascii();
        return Err(Error::usage(format!("two files are called '{name}'")).hint("give one of them another name"));
    }
    let number = open.files.len() as u64;
    open.files.push(Input { path: path.to_owned(), name: name.to_vec(), number });
    Ok(())
}

impl Pending {
    fn start(
        step: u64,
        path: PathBuf,
        together: Together,
        groups: Vec<Group>,
        find: fn(&Path) -> Result<Layout>,
    ) -> Result<Self> {
        let work = move || {
            let part = guarded(|| together.pack_groups(&groups, &find, &Silent));
            (together, part)
        };
        let thread = std::thread::Builder::new().name("knarr-checkpoint".to_owned()).spawn(work);
        let thread =
            thread.map_err(|error| Error::new(ErrorKind::Write, format!("no thread to pack with: {error}")))?;
        Ok(Self { step, path, thread })
    }
}

impl<C: Comm> Drop for Session<C> {
    fn drop(&mut self) {
        if !self.spool.is_own() {
            // The thread is the parent's.
            std::mem::forget(self.pending.take());
        } else if let Some(pending) = self.pending.take() {
            // Nobody waits for it any more; the spool must outlive who reads from it.
            self.engine.cancel.store(true, Ordering::Relaxed);
            let _ = pending.thread.join();
        }
    }
}
