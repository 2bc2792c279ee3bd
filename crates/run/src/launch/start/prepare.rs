//! Everything that must be in order before the program starts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::meeting::{Component, Launcher};
use knarr_capture::{HandedOver, Snapshot};
use knarr_config::{Config, FileRule, Output, Route};
use knarr_flow::engine::Engine;
use knarr_flow::output::remove_abandoned;
use knarr_flow::read_store::Part;
use knarr_formats::zarr;
use knarr_link::Secret;

use crate::launch::aggregators::first::{self, First};
use crate::launch::aggregators::nodes::Nodes;
use crate::launch::aggregators::noting::Noting;
use crate::launch::checkpoint::{self, Kept};
use crate::launch::coupling::away::Away;
use crate::launch::coupling::partners::{Partners, Watching};
use crate::launch::jobs::written::{self, Learnt};
use crate::launch::names::Names;
use crate::launch::spools::scratch::Scratch;
use crate::launch::spools::spool::{self, SHARED_MEMORY, Spool};
use crate::launch::spools::stage::{self, Stage};
use crate::launch::start::components;
use crate::launch::start::listening;
use crate::launch::start::options::Options;
use crate::launch::start::program::Signals;
use crate::launch::start::ranks;
use crate::launch::start::restart::Restarted;
use crate::launch::start::rules;
use crate::means::Means;
use crate::notices::Notices;

/// What a run has when its program may start.
pub(in crate::launch) struct Begun {
    /// Components on other nodes; they leave the spool before it goes.
    pub(in crate::launch) away: Away,
    /// The components that it transfers files with.
    pub(in crate::launch) partners: Partners,
    _watching: Watching,
    /// What processes that read files set up for themselves.
    pub(in crate::launch) means: Means,
    pub(in crate::launch) engine: Engine,
    pub(in crate::launch) snapshot: Snapshot,
    pub(in crate::launch) learnt: Learnt,
    /// Where what is learnt is kept for the next run.
    pub(in crate::launch) learnt_path: PathBuf,
    pub(in crate::launch) stage: Stage,
    /// Names of files that are not there yet. The page lies in the spool, and goes before it.
    pub(in crate::launch) names: Arc<Names>,
    /// Where programs hand values over; kept as long as the run lasts.
    pub(in crate::launch) spool: Option<Spool>,
    /// What is to do with other nodes.
    pub(in crate::launch) nodes: Nodes,
    /// The launchers of other ranks on this node, if there are any.
    pub(in crate::launch) first: Option<First>,
    /// The program as others know it that it transfers files to, in each directory in which they meet.
    pub(in crate::launch) components: Vec<Component>,
    /// `.knarr` beside the configuration. It goes after all that may be in it.
    pub(in crate::launch) scratch: Scratch,
    pub(in crate::launch) preload: OsString,
    pub(in crate::launch) signals: Signals,
    /// The rules of route `checkpoint`; taken when the program starts.
    pub(in crate::launch) kept: Vec<Kept>,
    pub(in crate::launch) program: Vec<OsString>,
    /// The command as typed, and when.
    pub(in crate::launch) command: String,
    pub(in crate::launch) when: String,
    pub(in crate::launch) notices: Arc<dyn Notices>,
}

/// Gets everything in order, and brings restart files back if that is asked for. `first` lets the launchers of other ranks in.
///
/// # Errors
/// Of what is not in order.
pub(in crate::launch) fn prepare(options: Options, notices: Arc<dyn Notices>, first: Option<First>) -> Result<Begun> {
    let mut config = read(&options.config)?;
    if config.file.iter().any(|rule| rule.route == Route::Checkpoint) {
        ranks::refuse_many(|name| std::env::var(name).ok())?;
    }
    let machine = config.machine.beside(&options.config);
    let (means, for_values) = Means::of_run(&options.resources, &machine)?;
    let mut engine = means.engine()?;
    engine.cancel = Arc::new(AtomicBool::new(false));
    let learnt_path = written::path(&options.config);
    // What was asked for stands last: it wins over what was learnt.
    let learnt = Learnt::read(&learnt_path);
    let mut prescriptions = learnt.prescriptions(&config);
    let asked = written::asked(&config, &engine.codecs);
    prescriptions.extend(asked.map_err(|error| error.at(options.config.display().to_string()))?);
    rules::check(&config, &engine.codecs).map_err(|error| error.at(options.config.display().to_string()))?;
    let kept = restart_files(&options, &config, &*notices)?;
    let beside = locate(&mut config, &options.config)?;
    check_buckets(&config, options.component.as_deref(), &engine)
        .map_err(|error| error.at(options.config.display().to_string()))?;
    let named = |error: Error| error.at(options.config.display().to_string());
    let places = components::places(&mut config, options.component.as_deref(), &beside).map_err(named)?;
    let filters = written::filters(&engine.codecs);
    let Options { restart, force, filter: library, program, component, command, when, .. } = options;
    let inside = stage::library()?;
    let adapters = inside.parent().unwrap_or(Path::new("")).to_owned();
    let threads = engine.jobs;
    let mut snapshot = Snapshot { config, prescriptions, library, filters, threads, spool: None, adapters, component };
    if snapshot.library.is_none() && snapshot.uses_own_filter() {
        return Err(Error::new(
            ErrorKind::NotFound,
            "Knarr's HDF5 filter, which portable = \"knarr\" needs, is missing",
        )
        .hint(
            "install libknarr_h5.so in hdf5-plugins beside knarr ('make build' does), or set portable to \"standard\"",
        ));
    }
    let preload = stage::preload(&inside)?;
    let signals = Signals::listen(Arc::clone(&engine.cancel))?;
    let scratch = Scratch::enter(written::directory(&options.config));
    for kept in remove_abandoned(scratch.path()) {
        let was = "was written while a run that was killed packed it: put it where it belongs";
        notices.warn(&format!("{}: {was}", kept.display()));
    }
    for spool in [Path::new(SHARED_MEMORY), scratch.path()].into_iter().flat_map(spool::abandoned) {
        let left = HandedOver::to_be_made(&spool).len();
        notices.warn(&format!(
            "{left} files that a program has handed over were not delivered by their run\n  hint: 'knarr run \
             --recover {}' finishes them",
            spool.display()
        ));
    }
    let spool = place_for_values(scratch.path(), &snapshot.config, &*notices);
    // Components on other nodes are let in when they come.
    let job = first.as_ref().filter(|first| first.may_have_others());
    let reach = job.map(|_| listening::of_job(|name| std::env::var(name).ok(), first::hydra().as_deref()));
    let nodes = Nodes::new(first::name(), reach.as_ref(), (&engine, means.clone()), Arc::clone(&notices))?;
    if let Some(spool) = &spool {
        nodes.add(spool.path());
        snapshot.spool = Some(spool.place(for_values, scratch.path(), &nodes)?);
    }
    let own = snapshot.spool.clone();
    // Nobody is together with a launcher that is alone.
    let run = first.as_ref().map_or_else(|| Secret::new().map(|secret| secret.token()), |first| Ok(first.run()))?;
    let who = Launcher {
        run,
        node: first::name(),
        spool: own.as_ref().map(|own| own.directory.clone()).unwrap_or_default(),
        token: own.as_ref().map(|own| own.token.clone()).unwrap_or_default(),
        network: knarr_link::network(),
        addresses: knarr_link::addresses(),
    };
    if own.is_none() && places.is_some() {
        let what = "values that are transferred have no place: neither in memory nor beside the configuration";
        return Err(Error::new(ErrorKind::Write, what).hint(format!("make room in {SHARED_MEMORY}")));
    }
    let components = components::enter(places, &who).map_err(|error| error.at(beside.display().to_string()))?;
    let (partners, watching) = Partners::begin(&snapshot, &notices)?;
    let away = Away::begin(&snapshot, &partners, &notices)?;
    let stage = Stage::new(&snapshot)?;
    let noting = job.is_some().then(|| noting(scratch.path(), &snapshot, &*notices)).flatten();
    let names = Names::of_run(spool.as_ref(), &stage.directory, noting, &*notices);
    if !components.is_empty() {
        names.has_transfers();
    }
    if let Some(first) = &first {
        first.open(&stage.directory, &preload)?;
    }
    let mut begun = Begun {
        away,
        partners,
        _watching: watching,
        means,
        engine,
        snapshot,
        learnt,
        learnt_path,
        stage,
        names: Arc::new(names),
        spool,
        nodes,
        first,
        components,
        scratch,
        preload,
        signals,
        kept,
        program,
        command,
        when,
        notices,
    };
    if restart {
        begun.bring_back(force)?;
    }
    begun.pass_over()?;
    begun.engine.check_cancelled()?;
    Ok(begun)
}

/// Notes about names for other nodes; `None` if no name can be pending.
fn noting(scratch: &Path, snapshot: &Snapshot, notices: &dyn Notices) -> Option<Noting> {
    if snapshot.spool.is_none() || snapshot.pending_tails().0.is_empty() {
        return None;
    }
    let (noting, made) = Noting::begin(scratch, snapshot);
    if let Err(error) = made {
        notices.warn(&format!(
            "other nodes cannot be told of files that are not there yet: {error}\n  programs wait in the calls that close \
             them until they are there"
        ));
    }
    Some(noting)
}

/// A spool. Without one programs write their files through their own library.
fn place_for_values(otherwise: &Path, config: &Config, notices: &dyn Notices) -> Option<Spool> {
    let is_needed = config.file.iter().any(|rule| rule.route.traits().is_handed_over || rule.route == Route::Transfer);
    let warn = |words: String| {
        if is_needed {
            notices.warn(&words)
        }
    };
    match Spool::create(otherwise) {
        Ok((spool, None)) => Some(spool),
        Ok((spool, Some(error))) => {
            warn(format!(
                "values wait on a disk, which is slow, because there is no memory for them: {error}\n  they lie in {}",
                spool.path().display()
            ));
            Some(spool)
        }
        Err(error) => {
            warn(format!(
                "there is no place for values that programs hand over: {error}\n  MPI programs write their files \
                 themselves, and nothing is transferred"
            ));
            None
        }
    }
}

fn read(config: &Path) -> Result<Config> {
    Config::read(config)
        .map_err(|error| error.hint("write the file, or name another with --config; docs/run.md has an example"))
}

/// Says in the rules of a configuration file from where names count. Returns the directory that it lies in.
fn locate(config: &mut Config, path: &Path) -> Result<PathBuf> {
    let here = std::env::current_dir().map_err(|error| Error::read(Path::new("."), &error))?;
    let beside = std::path::absolute(path).map_err(|error| Error::read(path, &error))?;
    let beside = beside.parent().unwrap_or(Path::new("/")).to_owned();
    let top = std::fs::canonicalize(&beside).unwrap_or_else(|_| beside.clone());
    for rule in &mut config.file {
        rule.pattern = rule.pattern.below(&here);
        rule.directory.clone_from(&top);
    }
    Ok(beside)
}

/// The rules of a configuration file, for files that an earlier run has written.
///
/// # Errors
/// `NotFound` or `Read`; `Config`.
pub(in crate::launch) fn rules_of(path: &Path) -> Result<Config> {
    let mut config = read(path)?;
    locate(&mut config, path).map(|_| config)
}

/// Refuses buckets that cannot be reached: programs should learn of it before their work, not after it.
fn check_buckets(config: &Config, component: Option<&str>, engine: &Engine) -> Result<()> {
    // Of a file that another component writes, it makes nothing.
    let is_own =
        |rule: &&FileRule| rule.route != Route::Transfer || component.is_none_or(|own| rule.transfer.from() == own);
    let urls = config.file.iter().filter(is_own).filter_map(|rule| match rule.compress.output() {
        Output::S3(url) => Some(url.as_str()),
        _ => None,
    });
    for url in urls.collect::<BTreeSet<_>>() {
        let network = engine.network.as_ref().ok_or_else(|| Error::internal("a run without a network"))?;
        // Whether it is there says nothing; an answer does.
        let answer = network
            .read(url)
            .and_then(|store| store.get(zarr::CONTENTS.descriptions, Part::Whole { most: u64::MAX }, &mut Vec::new()));
        answer.map_err(|error| error.at(url))?;
    }
    Ok(())
}

/// The rules of route `checkpoint`, ready to be watched.
fn restart_files(options: &Options, config: &Config, notices: &dyn Notices) -> Result<Vec<Kept>> {
    let kept = checkpoint::prepare(config, &options.config, &options.program, notices)?;
    if options.restart && kept.is_empty() {
        return Err(Error::usage("--restart, but no rule has route \"checkpoint\"")
            .hint("add a rule for restart files, or leave --restart out")
            .at(options.config.display().to_string()));
    }
    Ok(kept)
}

impl Begun {
    /// `--restart`: brings the newest whole set of each rule back.
    fn bring_back(&self, force: bool) -> Result<()> {
        let notices = &*self.notices;
        let mut steps = BTreeSet::new();
        for kept in &self.kept {
            let place = |error: Error| error.at(format!("--restart, '{}'", kept.pattern()));
            let Some(found) = kept.restart(&self.engine, force, notices).map_err(place)? else {
                notices.tell(&format!(
                    "no set is in {} yet: the program starts from its beginning",
                    kept.sets().display()
                ));
                continue;
            };
            for damage in &found.damaged {
                notices.warn(&format!("{damage}; an earlier set is taken instead"));
            }
            let Restarted { step, set, restored, there, .. } = &found;
            notices.tell(&format!(
                "restart from step {step}: {restored} of {} files were brought back from {}, {there} were there already",
                restored + there,
                set.display()
            ));
            if (restored + there) as u64 != kept.count() {
                notices.warn(&format!(
                    "{} has {} files, and {} ranks write now",
                    set.display(),
                    restored + there,
                    kept.count()
                ));
            }
            steps.insert(*step);
        }
        if steps.len() > 1 {
            notices.warn(&format!("not all rules restart from the same step: {steps:?}"));
        }
        Ok(())
    }

    /// Files that are there before the program starts are not its own.
    fn pass_over(&mut self) -> Result<()> {
        for kept in &mut self.kept {
            if let Some(word) = kept.begin()? {
                self.notices.tell(&word);
            }
        }
        Ok(())
    }
}
