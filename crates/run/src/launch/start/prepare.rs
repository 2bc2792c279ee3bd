//! Everything that must be in order before the program starts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::meeting::{Component, Launcher};
use knarr_capture::{HandedOver, Snapshot};
use knarr_codec::codec::{CodecList, FilterSet, REGISTERED};
use knarr_config::{Config, FileRule, Route};
use knarr_flow::engine::Engine;
use knarr_flow::output::remove_abandoned;
use knarr_flow::read_store::Part;
use knarr_formats::zarr;
use knarr_link::Secret;

use crate::launch::aggregators::node_leader::{self, NodeLeader};
use crate::launch::aggregators::nodes::Nodes;
use crate::launch::aggregators::noting::Noting;
use crate::launch::checkpoint::{self, WatchedRule};
use crate::launch::coupling::partners::{Partners, Watching};
use crate::launch::coupling::remote_components::RemoteComponents;
use crate::launch::names::Names;
use crate::launch::spools::run_directory::{self, RunDirectory};
use crate::launch::spools::scratch::{self, Scratch};
use crate::launch::spools::spool::{self, SHARED_MEMORY, Spool};
use crate::launch::start::components;
use crate::launch::start::listening;
use crate::launch::start::options::Options;
use crate::launch::start::program::Signals;
use crate::launch::start::ranks;
use crate::launch::start::restart::Restarted;
use crate::launch::start::rules;
use crate::launch::start::tiers::{self, StagedSpools};
use crate::notices::Notices;
use knarr_worker::means::Means;

/// What a run has when its program may start.
pub(in crate::launch) struct RunSetup {
    /// Components on other nodes; they leave the spool before it goes.
    pub(in crate::launch) remote_components: RemoteComponents,
    /// The components that it transfers files with.
    pub(in crate::launch) partners: Partners,
    _watching: Watching,
    /// What processes that read files set up for themselves.
    pub(in crate::launch) means: Means,
    pub(in crate::launch) engine: Engine,
    pub(in crate::launch) snapshot: Snapshot,
    pub(in crate::launch) run_directory: RunDirectory,
    /// Names of files that are not there yet. The page lies in the spool, and goes before it.
    pub(in crate::launch) names: Arc<Names>,
    /// Its spools in tiers, which have the accounts of that in memory.
    pub(in crate::launch) staged: StagedSpools,
    /// Where programs hand values over; kept as long as the run lasts.
    pub(in crate::launch) spool: Option<Spool>,
    /// What is to do with other nodes.
    pub(in crate::launch) nodes: Nodes,
    /// The launchers of other ranks on this node, if there are any.
    pub(in crate::launch) leader: Option<NodeLeader>,
    /// The program as others know it that it transfers files to, in each directory in which they meet.
    pub(in crate::launch) components: Vec<Component>,
    /// `.knarr` beside the configuration. It goes after all that may be in it.
    pub(in crate::launch) scratch: Scratch,
    pub(in crate::launch) preload: OsString,
    pub(in crate::launch) signals: Signals,
    /// The rules of route `checkpoint`; taken when the program starts.
    pub(in crate::launch) watched: Vec<WatchedRule>,
    pub(in crate::launch) program: Vec<OsString>,
    /// The command as typed, and when.
    pub(in crate::launch) command: String,
    pub(in crate::launch) when: String,
    pub(in crate::launch) notices: Arc<dyn Notices>,
}

/// Gets everything in order, and brings restart files back if that is asked for. `leader` lets the launchers of other ranks in.
///
/// # Errors
/// Of what is not in order.
pub(in crate::launch) fn prepare(
    options: Options,
    notices: Arc<dyn Notices>,
    leader: Option<NodeLeader>,
) -> Result<RunSetup> {
    let mut config = read(&options.config)?;
    if config.file.iter().any(|rule| rule.route() == Route::Checkpoint) {
        ranks::refuse_many(|name| std::env::var(name).ok())?;
    }
    let machine = config.machine.beside(&options.config);
    let (means, for_values) = Means::of_run(&options.resources, &machine)?;
    let mut engine = means.engine()?;
    engine.cancel = Arc::new(AtomicBool::new(false));
    rules::check(&config, &engine.codecs).map_err(|error| error.at(options.config.display().to_string()))?;
    let watched = restart_files(&options, &config, &*notices)?;
    let beside = locate(&mut config, &options.config)?;
    check_buckets(&config, options.component.as_deref(), &engine)
        .map_err(|error| error.at(options.config.display().to_string()))?;
    let named = |error: Error| error.at(options.config.display().to_string());
    let places = components::places(&mut config, options.component.as_deref(), &beside).map_err(named)?;
    let filters = filters(&engine.codecs);
    let Options { restart, force, filter: library, program, component, command, when, .. } = options;
    let inside = run_directory::library()?;
    let adapters = inside.parent().unwrap_or(Path::new("")).to_owned();
    let mut snapshot = Snapshot { config, library, filters, spool: None, adapters, component };
    if snapshot.library.is_none() && snapshot.uses_own_filter() {
        return Err(Error::new(
            ErrorKind::NotFound,
            "Knarr's HDF5 filter, which portable = \"knarr\" needs, is missing",
        )
        .hint(
            "install libknarr_h5.so in hdf5-plugins beside knarr ('make build' does), or set portable to \"standard\"",
        ));
    }
    let preload = run_directory::preload(&inside)?;
    let signals = Signals::listen(Arc::clone(&engine.cancel))?;
    let scratch = Scratch::enter(scratch::of(&options.config));
    for kept in remove_abandoned(scratch.path()) {
        let was = "was written while a run that was killed packed it: put it where it belongs";
        notices.warn(&format!("{}: {was}", kept.display()));
    }
    let tiers_below = tiers::places(&snapshot.config, &beside).map_err(named)?;
    let waiting = tiers_below.iter().map(|place| place.path.as_path());
    for spool in [Path::new(SHARED_MEMORY), scratch.path()].into_iter().chain(waiting).flat_map(spool::abandoned) {
        let left = HandedOver::to_be_made(&spool).len();
        notices.warn(&format!(
            "{left} files that a program has handed over were not delivered by their run\n  hint: 'knarr run \
             --recover {}' finishes them",
            spool.display()
        ));
    }
    let spool = place_for_values(scratch.path(), &snapshot.config, &*notices);
    // Components on other nodes are let in when they come.
    let job = leader.as_ref().filter(|leader| leader.may_have_others());
    let reach = job.map(|_| listening::of_job(|name| std::env::var(name).ok(), node_leader::hydra().as_deref()));
    let nodes = Nodes::new(node_leader::name(), reach.as_ref(), (&engine, means.clone()), Arc::clone(&notices))?;
    if let Some(spool) = &spool {
        nodes.add(spool.path());
        let memory = tiers::memory(&snapshot.config, for_values);
        snapshot.spool = Some(spool.place(memory, tiers_below, scratch.path(), &nodes)?);
    }
    let own = snapshot.spool.clone();
    // Nobody is together with a launcher that is alone.
    let run = leader.as_ref().map_or_else(|| Secret::new().map(|secret| secret.token()), |leader| Ok(leader.run()))?;
    let who = Launcher {
        run,
        node: node_leader::name(),
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
    let remote_components = RemoteComponents::begin(&snapshot, &partners, &notices)?;
    let run_directory = RunDirectory::new(&snapshot)?;
    let noting = job.is_some().then(|| noting(scratch.path(), &snapshot, &*notices)).flatten();
    let names = Names::of_run(spool.as_ref(), &run_directory.directory, noting, &*notices);
    if !components.is_empty() {
        names.has_transfers();
    }
    // Programs would find older files of the names of those that wait.
    let places = spool.as_ref().zip(snapshot.spool.as_ref()).filter(|_| names.are_seen());
    let staged = places.map_or_else(StagedSpools::new, |(spool, place)| {
        tiers::spools((&snapshot.config, place, spool.path()), &nodes, &*notices)
    });
    if !staged.is_empty() {
        names.writes_in_tiers();
    }
    if snapshot.config.file.iter().any(FileRule::packs_when_closed) {
        names.packs_when_closed();
    }
    if let Some(leader) = &leader {
        leader.open(&run_directory.directory, &preload)?;
    }
    let mut setup = RunSetup {
        remote_components,
        partners,
        _watching: watching,
        means,
        engine,
        snapshot,
        run_directory,
        names: Arc::new(names),
        staged,
        spool,
        nodes,
        leader,
        components,
        scratch,
        preload,
        signals,
        watched,
        program,
        command,
        when,
        notices,
    };
    if restart {
        setup.bring_back(force)?;
    }
    setup.pass_over()?;
    setup.engine.check_cancelled()?;
    Ok(setup)
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

/// The filters that may be chosen here: programs are asked which of them they have.
fn filters(codecs: &CodecList) -> FilterSet {
    REGISTERED.iter().map(|filter| filter.id).filter(|&id| codecs.for_hdf5(id).next().is_some()).collect()
}

/// A spool. Without one programs write their files through their own library.
fn place_for_values(otherwise: &Path, config: &Config, notices: &dyn Notices) -> Option<Spool> {
    let is_needed =
        config.file.iter().any(|rule| rule.route().traits().is_handed_over || rule.route() == Route::Transfer);
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
        |rule: &&FileRule| rule.route() != Route::Transfer || component.is_none_or(|own| rule.transfer().from() == own);
    let urls = config.file.iter().filter(is_own).filter_map(FileRule::bucket);
    for url in urls.collect::<BTreeSet<_>>() {
        let stores = engine.stores.as_ref().ok_or_else(|| Error::internal("a run without a network"))?;
        // Whether it is there says nothing; an answer does.
        let answer = stores
            .read(url)
            .and_then(|store| store.get(zarr::CONTENTS.descriptions, Part::Whole { most: u64::MAX }, &mut Vec::new()));
        answer.map_err(|error| error.at(url))?;
    }
    Ok(())
}

/// The rules of route `checkpoint`, ready to be watched.
fn restart_files(options: &Options, config: &Config, notices: &dyn Notices) -> Result<Vec<WatchedRule>> {
    let watched = checkpoint::prepare(config, &options.config, &options.program, notices)?;
    if options.restart && watched.is_empty() {
        return Err(Error::usage("--restart, but no rule has route \"checkpoint\"")
            .hint("add a rule for restart files, or leave --restart out")
            .at(options.config.display().to_string()));
    }
    Ok(watched)
}

impl RunSetup {
    /// `--restart`: brings the newest whole set of each rule back.
    fn bring_back(&self, force: bool) -> Result<()> {
        let notices = &*self.notices;
        let mut steps = BTreeSet::new();
        for watched in &self.watched {
            let place = |error: Error| error.at(format!("--restart, '{}'", watched.pattern()));
            let Some(found) = watched.restart(&self.engine, force, notices).map_err(place)? else {
                notices.notify(&format!(
                    "no set is in {} yet: the program starts from its beginning",
                    watched.sets().display()
                ));
                continue;
            };
            for damage in &found.damaged {
                notices.warn(&format!("{damage}; an earlier set is taken instead"));
            }
            let Restarted { step, set, restored, there, .. } = &found;
            notices.notify(&format!(
                "restart from step {step}: {restored} of {} files were brought back from {}, {there} were there already",
                restored + there,
                set.display()
            ));
            if (restored + there) as u64 != watched.count() {
                notices.warn(&format!(
                    "{} has {} files, and {} ranks write now",
                    set.display(),
                    restored + there,
                    watched.count()
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
        for watched in &mut self.watched {
            if let Some(word) = watched.begin()? {
                self.notices.notify(&word);
            }
        }
        Ok(())
    }
}
