//! What a program calls, on all its ranks: define, put, go on computing, learn what became of the file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use knarr_array::array::{ArrayView, DType};
use knarr_array::comm::{Comm, ROOT, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::{Region, Regions};
use knarr_flow::engine::Engine;
use knarr_flow::pipeline::check_chains;
use knarr_flow::settings::{ChunkRule, Rule, Settings};
use knarr_flow::urls::url_of;
use knarr_formats::output::{self, OutputKind};
use knarr_handover::{Handover, Put, PutLog, PutSpool, RankLocation, Serving};
use serde::{Deserialize, Serialize};

use super::definitions::{Definition, Definitions, Value};
use super::delivery::{MadeByOne, Making, Written};
use super::nodes::Nodes;
use super::options::{Options, rule};
use crate::compress::{RepackOptions, vacant_kind};

/// A file that a program writes from all its ranks. One of them makes it; those on other nodes answer it when it asks for their
/// values, in threads that send no messages.
///
/// [`Output::create`], [`Output::end_step`], [`Output::commit`], [`Output::test`], [`Output::wait`] and [`Output::close`] are
/// collective, and the thread that calls them is the only one that calls the [`Comm`]. The others send no messages. The file
/// appears under its name when it is complete, proven and on the disk, or not at all.
///
/// After an error of a definition or a put the file is not written: what is collective returns it, on all ranks.
pub struct Output<C: Comm> {
    engine: Engine,
    path: PathBuf,
    kind: &'static dyn OutputKind,
    options: Options,
    handover: Handover<C, MadeByOne, PutLog>,
    definitions: Definitions,
    /// Answers the rank that makes the file, if that is on another node.
    serving: Option<Serving>,
    is_near: bool,
    /// Steps that have ended.
    steps: u64,
    outcome: Option<Result<Written>>,
}

/// What a rank says when it hands its values over.
#[derive(Serialize, Deserialize)]
struct Handed {
    defined: Vec<Definition>,
    place: RankLocation,
    blocked_seconds: f64,
}

impl<C: Comm> Output<C> {
    /// Begins a file, whose format its suffix says. `made` are its options and what does the work, if this rank has them.
    /// Collective.
    ///
    /// # Errors
    /// On all ranks: `Exists` if the file is there and may not be replaced; `Usage` or `Unsupported` for a suffix that stands
    /// for no format with variables, and for options that contradict each other; `NotFound` without a directory for the file;
    /// `Write` if a rank has no room for values.
    pub fn create(comm: C, path: &Path, made: Result<(Engine, Options)>) -> Result<Self> {
        let made = made.and_then(|(engine, options)| {
            options.settings.check_qualities()?;
            // The others would only see what rank 0 sees, later.
            let kind = match comm.rank() {
                ROOT => {
                    let wanted = RepackOptions { replaces: options.replace.into(), ..RepackOptions::default() };
                    let kind = vacant_kind(path, &wanted)?;
                    check_directory(path)?;
                    kind
                }
                _ => output::of(path)?,
            };
            let target = kind.limits(options.settings.portable);
            let checked = target.and_then(|target| check_chains(&engine.codecs, &options.settings, target));
            checked.map_err(|error| error.at(path.display().to_string()))?;
            Ok((engine, options, kind))
        });
        let (engine, options, kind) = agree(&comm, made)?;
        let Nodes { is_near, ranks_here } = Nodes::exchange(&comm, path)?;
        let disk = if url_of(path).is_some() { std::env::temp_dir() } else { directory_of(path) };
        let spool = options.resources.spool.as_deref();
        let spool = agree(&comm, PutSpool::open(spool, &disk, ranks_here))?;
        let engine = options.resources.engine(&engine);
        let mut handover = Handover::new(comm, spool, std::sync::Arc::clone(&engine.cancel));
        handover.expect(0);
        let (definitions, path, serving) = (Definitions::default(), path.to_owned(), None);
        Ok(Self { engine, path, kind, options, handover, definitions, serving, is_near, steps: 0, outcome: None })
    }

    /// Defines a dimension; without a length it can grow, and is as long as what is put along it. Not collective, but all
    /// ranks define the same things in the same order.
    ///
    /// # Errors
    /// `Usage` for a name that cannot be or is taken, for a length of 0, and after the commit.
    pub fn define_dimension(&mut self, name: &str, length: Option<u64>) -> Result<()> {
        self.not_collective(|output| {
            output.definitions.dimension(name, length).map_err(|error| error.at(format!("dimension '{name}'")))
        })
    }

    /// Defines a variable along dimensions that are defined, the slowest first. `wishes` are its bounds, chain and chunks in
    /// words of `knarr.toml`, such as `max_abs_error` and `0.01`. Not collective, as [`Output::define_dimension`].
    ///
    /// # Errors
    /// `Usage` for a name that cannot be or is taken, dimensions that are not defined, wishes that mean nothing, and after
    /// the commit; `Quality` for bounds that the type cannot keep; `Unsupported` for elements that are no numbers, and for chains
    /// that serve nothing.
    pub fn define_variable(
        &mut self,
        name: &str,
        dtype: DType,
        dimensions: &[&str],
        wishes: &[(String, String)],
    ) -> Result<()> {
        self.not_collective(|output| {
            rule(name, wishes)
                .and_then(|rule| output.check(rule, dtype, dimensions))
                .and_then(|()| output.definitions.variable(name, dtype, dimensions, wishes.to_vec()))
                .map_err(|error| error.at_variable(name))
        })
    }

    /// Refuses wishes that a variable of this type and with these dimensions cannot have.
    fn check(&self, rule: Rule, dtype: DType, dimensions: &[&str]) -> Result<()> {
        rule.quality.unwrap_or_default().validate(dtype)?;
        // One number may be the length along the dimension that has the name of the variable.
        let is_along = |shape: &[u64]| shape.len() == 1 && dimensions.contains(&rule.pattern.as_str());
        if let Some(ChunkRule::Shape(shape)) = &rule.chunks
            && shape.len() != dimensions.len()
            && !is_along(shape)
        {
            let what = format!("chunks with {} dimensions, the variable has {}", shape.len(), dimensions.len());
            return Err(Error::usage(what).hint("give one extent for each dimension of the variable"));
        }
        let settings = Settings { rules: vec![rule], ..self.options.settings.clone() };
        settings.check_qualities()?;
        check_chains(&self.engine.codecs, &settings, self.kind.limits(settings.portable)?)
    }

    /// Sets an attribute of a variable, or of the file. `_FillValue` is what elements are that nobody puts; without it they
    /// are netCDF's fill values. Not collective, as [`Output::define_dimension`].
    ///
    /// # Errors
    /// `Usage` for a name that cannot be or is taken, an unknown variable, a fill value of another type, and after the commit.
    pub fn set_attribute(&mut self, variable: Option<&str>, name: &str, value: Value) -> Result<()> {
        self.not_collective(|output| {
            let set = output.definitions.attribute(variable, name, value);
            let set = set.map_err(|error| error.at(format!("attribute '{name}'")));
            set.map_err(|error| match variable {
                Some(variable) => error.at_variable(variable),
                None => error,
            })
        })
    }

    /// Copies an array, in the byte order of this machine, which the program may change at once: the region of a variable
    /// that begins at `start`, or at the first element. Where regions overlap, what was put in a later step counts, in one
    /// step what the higher rank put, and of one rank the last. Not collective.
    ///
    /// # Errors
    /// `Usage` for an unknown variable, another type, a region that is not inside, and after the commit; `Write` if there is
    /// no room.
    pub fn put(&mut self, name: &str, array: &ArrayView<'_>, start: Option<Vec<u64>>) -> Result<()> {
        let _inside = self.handover.enter();
        self.not_collective(|output| {
            let spec = array.spec();
            let Some(variable) = output.definitions.find(name) else { return Err(output.definitions.unknown(name)) };
            let count: Vec<u64> = spec.shape.iter().map(|&n| n as u64).collect();
            let region = Region { start: start.unwrap_or_else(|| vec![0; count.len()]), count };
            variable.check(spec.dtype, &region)?;
            if region.is_empty() {
                return Ok(());
            }
            let (number, dtype, order) = (variable.number, spec.dtype, output.steps);
            let boxes = Regions::from(&region);
            let put = Put { variable: number, dtype, boxes, stride: Vec::new(), parts: Vec::new(), order, offset: 0 };
            output.handover.spool_mut().put(put, array.bytes()).map_err(|error| error.at_variable(name))
        })
    }

    /// Does what is not collective, unless the file was committed. Notes its error: the file would lack something.
    fn not_collective(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let open = match self.handover.opened() {
            Some(_) => self.handover.check_open(),
            None => Err(Error::usage("the file was committed: nothing can be added to it")),
        };
        let done = open.and_then(|()| work(self)).map_err(|error| error.at(self.path.display().to_string()));
        done.inspect_err(|error| self.handover.fail(error))
    }

    /// Notes that something which belongs to the file could not be handed over: what is collective returns the first such
    /// error on all ranks.
    pub fn fail(&mut self, error: &Error) {
        self.handover.fail(error);
    }

    /// Ends a step: what is put afterwards counts where it overlaps with what was put before. The ranks learn of each
    /// other's errors. Collective.
    ///
    /// # Errors
    /// On all ranks: the first error of a definition or put of one of them; `Usage` if they define different things, or if
    /// the file was committed.
    pub fn end_step(&mut self) -> Result<()> {
        let _inside = self.handover.enter();
        let mine = self.state().map(|()| self.definitions.news().to_vec());
        let all = self.handover.exchange("end_step", Some(self.steps), mine)?;
        self.agree(&all)?;
        self.steps += 1;
        Ok(())
    }

    /// Whether this rank can go on.
    fn state(&self) -> Result<()> {
        if self.handover.opened().is_none() {
            return Err(Error::usage("the file was committed already").at(self.path.display().to_string()));
        }
        self.handover.failed().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Compares what the ranks have defined.
    fn agree(&mut self, defined: &[Vec<Definition>]) -> Result<()> {
        let agreed = self.definitions.agree(defined).map_err(|error| error.at(self.path.display().to_string()));
        agreed.inspect_err(|error| self.handover.fail(error))
    }

    /// Hands all values over and returns as soon as the file is being made, in a thread of rank 0 that sends no messages.
    /// Collective.
    ///
    /// # Errors
    /// As for [`Output::end_step`]. Nothing is written then.
    pub fn commit(&mut self) -> Result<()> {
        let inside = self.handover.enter();
        let blocked_seconds = self.handover.take_blocked().as_secs_f64();
        let defined = self.definitions.news().to_vec();
        let mine = self.state().and_then(|()| self.place()).map(|place| Handed { defined, place, blocked_seconds });
        let all = self.handover.exchange("commit", None, mine)?;
        drop(inside);
        let (mut defined, mut ranks, mut blocked_seconds) = (Vec::new(), Vec::new(), 0.0f64);
        for handed in all {
            defined.push(handed.defined);
            ranks.push(handed.place);
            blocked_seconds = blocked_seconds.max(handed.blocked_seconds);
        }
        self.agree(&defined)?;
        self.handover.end()?;
        let started = self.start(ranks, blocked_seconds);
        // Nobody else knows why there is no file.
        started.inspect_err(|error| self.outcome = Some(Err(error.clone())))
    }

    /// Where the rank that makes the file finds the values of this one.
    fn place(&mut self) -> Result<RankLocation> {
        if self.is_near {
            return Ok(RankLocation::near(self.handover.spool()));
        }
        let serving =
            Serving::start(self.handover.spool()).map_err(|error| error.at(self.path.display().to_string()))?;
        Ok(self.serving.insert(serving).place())
    }

    /// Begins to make the file. Collective.
    fn start(&mut self, ranks: Vec<RankLocation>, blocked_seconds: f64) -> Result<()> {
        let is_maker = self.handover.comm().rank() == ROOT;
        let making = is_maker.then(|| self.making(ranks, blocked_seconds)).transpose();
        let making = agree(self.handover.comm(), making)?;
        self.handover.start(0, MadeByOne(making))
    }

    fn making(&self, ranks: Vec<RankLocation>, blocked_seconds: f64) -> Result<Making> {
        // What the program has put is not lost to a wish.
        let mut settings = Settings { lenient: true, ..self.options.settings.clone() };
        for (variable, wishes) in self.definitions.wishes() {
            settings.rules.push(rule(variable, wishes)?);
        }
        settings.check_qualities()?;
        Ok(Making {
            engine: self.engine.clone(),
            model: self.definitions.model(),
            settings,
            ranks,
            path: self.path.clone(),
            kind: self.kind,
            replace: self.options.replace,
            command: self.options.command.clone(),
            blocked_seconds,
            since: Instant::now(),
        })
    }

    /// True if the file is complete. Does not wait. Collective.
    ///
    /// # Errors
    /// On all ranks, why there is no file; `Usage` if it was not committed.
    pub fn test(&mut self) -> Result<bool> {
        let committed = self.check_committed();
        match self.handover.test(committed)? {
            true => self.settle().map(|()| true),
            false => Ok(false),
        }
    }

    /// Waits until the file is complete. Collective.
    ///
    /// # Errors
    /// As for [`Output::test`].
    pub fn wait(&mut self) -> Result<()> {
        let committed = self.check_committed();
        self.handover.exchange("wait", None, committed)?;
        self.settle()
    }

    fn check_committed(&self) -> Result<()> {
        match self.handover.opened() {
            None => Ok(()),
            Some(_) => Err(Error::usage("the file was not committed").at(self.path.display().to_string())),
        }
    }

    fn settle(&mut self) -> Result<()> {
        if self.handover.pending().is_some() {
            let settled = self.handover.settle();
            let settled = settled.and_then(|written| written.ok_or_else(|| Error::internal("nothing was delivered")));
            self.serving = None;
            self.outcome = Some(settled);
        }
        match &self.outcome {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// What became of the file, once [`Output::wait`] or [`Output::test`] has said that it is complete.
    pub fn written(&self) -> Option<&Written> {
        self.outcome.as_ref()?.as_ref().ok()
    }

    /// Commits the file unless that was done, waits until it is complete, and ends the session. Collective. In a process that
    /// was forked it does nothing and returns nothing.
    ///
    /// # Errors
    /// Why there is no file, on all ranks.
    pub fn close(mut self) -> Result<Option<Written>> {
        if !self.handover.is_own() {
            return Ok(None);
        }
        if self.handover.opened().is_some() {
            self.commit()?;
        }
        self.wait()?;
        self.outcome.take().transpose()
    }
}

/// A program learns at the beginning, not at the end of its work, that there is no place for its file.
fn check_directory(path: &Path) -> Result<()> {
    let directory = directory_of(path);
    if url_of(path).is_some() || directory.is_dir() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotFound, "the directory of the file does not exist")
        .hint("make it before")
        .at(path.display().to_string()))
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
