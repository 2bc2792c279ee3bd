//! Finishes what runs that were killed have left in their spools.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{Datasets, HandedOver, NodePart};
use knarr_flow::engine::{Engine, Silent};
use knarr_flow::urls::url_of;

use crate::launch::aggregators::node_leader;
use crate::launch::jobs::deliver::{
    DeliverJob, Delivered, holds_nothing, is_store, made_instead, mend_header, was_not_begun,
};
use crate::launch::jobs::outputs::Outputs;
use crate::launch::jobs::packed::PackedFiles;
use crate::launch::outcome::{Done, Files, Outcome};
use crate::launch::spools::copies::{copied_from, copied_to, spools_of_node};
use crate::launch::spools::scratch::Scratch;
use crate::launch::spools::{run_directory, spool};
use crate::launch::start::prepare::rules_of;
use crate::launch::start::rules;
use knarr_capture::processes::{Identity, written_or_mapped};
use knarr_worker::means::Means;
use knarr_worker::{Pool, Share};

/// Makes the files that were handed over and not delivered, in the spool `directory` or in the spools in it. Files that were
/// not closed hold what was put into them. If the configuration `rules` has a rule for a file, that counts. Nothing is made that a program still writes, or that would replace a newer file. The command as typed, and the day, are noted in the files.
///
/// # Errors
/// `Usage` if there is nothing, or a run that goes on delivers it; those of the engine. What becomes of each file is a result.
pub fn recover(
    means: &Means,
    directory: &Path,
    rules: Option<&Path>,
    (command, when): (&str, &str),
) -> Result<Vec<Done>> {
    let engine = means.engine()?;
    // What lies in spools was noted by its real path.
    let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let directory = directory.as_path();
    let read = |path: &Path| {
        let config = rules_of(path)?;
        rules::check(&config, &engine.codecs).map_err(|error| error.at(path.display().to_string())).map(|()| config)
    };
    let rules = rules.map(read).transpose()?;
    let workers = Arc::new(Pool::new(means.clone()));
    let mut files = Files::default();
    let mut spools = spool::recoverable(directory)?;
    let mut all: Vec<_> = spools.iter().flat_map(|spool| HandedOver::to_be_made(spool)).collect();
    // The newest of several of one name stays.
    all.sort_by_key(|(_, handed)| handed.as_ref().map_or(0, |handed| handed.generation));
    let (mut tried, mut made, mut outputs) = (BTreeSet::new(), BTreeSet::new(), Outputs::default());
    // Parts may have been brought here from there.
    let shared: BTreeSet<PathBuf> = all.iter().filter_map(|(_, handed)| Some(handed.as_ref().ok()?.disk())).collect();
    // Of one file, versions may lie in memory and in tiers.
    let all_spools = |spools: &[PathBuf]| spools.iter().flat_map(|spool| spools_of_node(spool)).collect::<Vec<_>>();
    for (directory, handed) in all {
        let (directory, handed, not_begun) = match handed {
            Ok(handed) => {
                // Its launcher was killed before it had removed what was copied to a tier.
                let directory = HandedOver::staged_at(&directory).map_or(directory.clone(), |copy| {
                    handed.staged(&directory, &copy);
                    spools.extend(copy.parent().map(Path::to_owned));
                    copy
                });
                let directory = copied_to(&directory).map_or(directory.clone(), |copy| {
                    HandedOver::moved(&directory, &copy);
                    spools.extend(copy.parent().map(Path::to_owned));
                    copy
                });
                if let Some(memory) = copied_from(&directory) {
                    HandedOver::moved(&memory, &directory);
                    spools.extend(memory.parent().map(Path::to_owned));
                }
                let (directory, handed) = with_maker(directory, handed, &spools);
                let not_begun = was_not_begun(&directory, &handed);
                let rule = rules.as_ref().and_then(|rules| rules.rule_for(&handed.target)).cloned();
                (directory, HandedOver { rule: rule.unwrap_or(handed.rule), ..handed }, not_begun)
            }
            Err(error) => {
                files.add(directory.clone(), Outcome::Undelivered(error, directory), String::new());
                continue;
            }
        };
        // Several parts lead to the same one, which takes them along.
        if !tried.insert(directory.clone()) || !directory.exists() {
            continue;
        }
        if handed.part > 0 && handed.take_note() {
            // The node that has made the file was gone before this one heard of it.
            HandedOver::discard(&directory);
            spools.extend(directory.parent().map(Path::to_owned));
            continue;
        }
        let (found, missing) = parts(&handed, &spools);
        let target = handed.target.clone();
        if let Some(error) = in_use((&directory, &handed), &found) {
            files.add(target, Outcome::Undelivered(error, directory), String::new());
            continue;
        }
        let all_here = || std::iter::once(&directory).chain(found.values());
        if HandedOver::was_made(&directory) {
            // Its launcher was killed before it had removed it. The program may have written the file anew since.
            handed.hand_on(&directory, &all_spools(&spools));
            all_here().for_each(|part| HandedOver::discard(part));
            if missing.is_empty() {
                handed.take_notes();
            }
            spools.extend(all_here().filter_map(|part| Some(part.parent()?.to_owned())).collect::<Vec<_>>());
            continue;
        }
        if (missing.is_empty() || not_begun) && all_here().all(|part| is_empty(part, &handed)) {
            for part in all_here() {
                HandedOver::discard(part);
                spools.extend(part.parent().map(Path::to_owned));
            }
            let why = "nothing was put into it before the program ended: no file is made";
            files.add(target, Outcome::Left(why.to_owned()), String::new());
            continue;
        }
        if handed.part == 0 && !missing.is_empty() && handed.is_in_place(&directory) {
            // Other nodes have heard that the file is in its place, and have removed their parts.
            HandedOver::discard(&directory);
            spools.extend(directory.parent().map(Path::to_owned));
            continue;
        }
        let output = handed.rule.made_of(&target);
        let was_made = made.contains(&output);
        let refused = match outputs.take(&handed) {
            Ok(()) => refused(&engine, (&directory, &handed), &spools, was_made)
                .or_else(|| bring_header(&directory, &found).err()),
            Err(error) => Some(error),
        };
        let outcome = match refused {
            Some(error) => Outcome::Undelivered(error, directory.clone()),
            None => {
                mend_header(&directory);
                let job = DeliverJob {
                    directory: directory.clone(),
                    handed: handed.clone(),
                    spools: all_spools(&spools),
                    found: found.clone(),
                    earlier: None,
                    staging: None,
                    level: None,
                    keeping: None,
                    is_packed: handed.rule.packs_when_closed() && handed.rule.pattern.matches(&target),
                    workers: Arc::clone(&workers),
                    share: Share::of_all(engine.jobs),
                    cancel: Arc::new(AtomicBool::new(false)),
                    is_running: false,
                    was_made,
                    command: command.to_owned(),
                    when: when.to_owned(),
                    packed: Arc::new(PackedFiles::new(None)),
                    progress: Box::new(Silent),
                };
                match job.run() {
                    Delivered::Is(outcome) => outcome,
                    // Nothing is to wait, and it has all memory.
                    Delivered::Staged(_) | Delivered::Short => {
                        Outcome::Undelivered(Error::internal("memory is short"), directory.clone())
                    }
                }
            }
        };
        if let Outcome::Packed(_) = outcome {
            made.insert(output);
            found.values().for_each(|part| handed.remove(part));
            if missing.is_empty() {
                handed.take_notes();
            }
            spools.extend(found.values().chain([&directory]).filter_map(|part| Some(part.parent()?.to_owned())));
        }
        let note = match (&outcome, &handed.failure) {
            (Outcome::Packed(_), Some(error)) => format!("without what could not be handed over: {error}"),
            (Outcome::Packed(made), None) => made_instead(&handed.rule, made).unwrap_or_default(),
            _ => String::new(),
        };
        files.add(target, outcome, note);
    }
    for spool in spools.iter().filter(|spool| HandedOver::to_be_made(spool).is_empty()) {
        spool::remove(spool);
    }
    // A launcher that was killed has left its marks there, and where it was reached.
    let of_spools = spools.iter().filter_map(|spool| spool.parent());
    let places: BTreeSet<&Path> = of_spools.chain(shared.iter().map(PathBuf::as_path)).chain([directory]).collect();
    places.into_iter().for_each(Scratch::tidy);
    run_directory::sweep();
    node_leader::sweep();
    Ok(files.into_list())
}

/// True if nothing was put into a part of a file, of which `handed` is known beside what lies there.
fn is_empty(part: &Path, handed: &HandedOver) -> bool {
    HandedOver::left_in(part).is_ok_and(|open| holds_nothing(part, open.as_ref().unwrap_or(handed)))
}

/// The rank that has the header may have been killed, or have found no room, before it had written it, or the list of all datasets:
/// another one did so then. All create the same datasets in the same order.
///
/// # Errors
/// `Read`, `Corrupt`, `Write`: nothing may be made without that list.
fn bring_header(directory: &Path, found: &BTreeMap<usize, PathBuf>) -> Result<()> {
    let header = directory.join(HandedOver::HEADER);
    let listed = |part: &Path| {
        let datasets = Datasets::read(part)?;
        Ok::<_, Error>(datasets.filter(|_| part.join(HandedOver::HEADER).exists()))
    };
    let number = |datasets: &Datasets| datasets.addresses.len();
    let mut longest: Option<(&Path, Datasets)> = None;
    for part in std::iter::once(directory).chain(found.values().map(PathBuf::as_path)) {
        if let Some(datasets) = listed(part)?
            && longest.as_ref().is_none_or(|(_, longest)| number(longest) < number(&datasets))
        {
            longest = Some((part, datasets));
        }
    }
    let Some((part, datasets)) = longest.filter(|(part, _)| *part != directory) else { return Ok(()) };
    let beside = header.with_extension("new");
    // The list comes last: as long as it is the shorter one, this is tried again.
    std::fs::copy(part.join(HandedOver::HEADER), &beside)
        .and_then(|_| std::fs::rename(&beside, &header))
        .map_err(|error| Error::write(&header, &error))?;
    datasets.save(directory)
}

/// What lies in `directory`, or the part of the node that makes the file, if that can be read here.
fn with_maker(directory: PathBuf, handed: HandedOver, spools: &[PathBuf]) -> (PathBuf, HandedOver) {
    let maker = parts(&handed, spools).0.remove(&0);
    match maker.and_then(|maker| Some((HandedOver::left_in(&maker).ok()??, maker))) {
        Some((handed, maker)) => (maker, handed),
        None => (directory, handed),
    }
}

/// The parts of a file that other nodes hold and that can be read here, by their numbers, and the others. They lie where they
/// were, or in one of `spools`.
fn parts<'h>(handed: &'h HandedOver, spools: &[PathBuf]) -> (BTreeMap<usize, PathBuf>, Vec<&'h NodePart>) {
    let (mut found, mut missing) = (BTreeMap::new(), Vec::new());
    for (number, part) in handed.parts.iter().enumerate().filter(|(number, _)| *number != handed.part) {
        let is_it = |directory: &PathBuf| {
            // One that cannot be read is missing: nothing is made without it.
            let other = HandedOver::left_in(directory).ok().flatten();
            other.is_some_and(|other| other.part == number && other.parts == handed.parts)
        };
        let places = spools.iter().map(|spool| spool.join(&part.file));
        let here = std::iter::once(part.directory()).chain(places).find(is_it);
        match here {
            Some(directory) => drop(found.insert(number, directory)),
            None => missing.push(part),
        }
    }
    (found, missing)
}

/// Why what lies in `directory` and what was found of it elsewhere must stay: a launcher or a program still uses it.
fn in_use((directory, handed): (&Path, &HandedOver), found: &BTreeMap<usize, PathBuf>) -> Option<Error> {
    let mut parts = found.values().map(PathBuf::as_path).chain([directory]);
    if let Some(error) = parts.find_map(|part| spool::in_use(part.parent()?)) {
        return Some(error);
    }
    let directories = std::iter::once(directory).chain(found.values().map(PathBuf::as_path));
    let logs = directories.flat_map(|part| (0..handed.ranks).map(|rank| part.join(HandedOver::log(rank))));
    let identities = logs.filter_map(|log| std::fs::metadata(log).ok()).map(|found| Identity::of(&found));
    let whole = handed.reserved.and_then(|_| HandedOver::whole_file(directory));
    let files = identities.chain(whole).collect();
    let process = match written_or_mapped(&files) {
        Ok(written) => written.into_values().next()?,
        Err(error) => return Some(Error::read(Path::new("/proc"), &error)),
    };
    let what = format!("process {process} still writes the file");
    Some(Error::usage(what).hint("wait until the program has ended"))
}

/// Why nothing is made of what lies in `directory`: parts of other nodes are missing, or the disk to which logs were moved, or
/// what has its name is newer. A store in a bucket that `was_made` by this command is an older one.
fn refused(
    engine: &Engine,
    (directory, handed): (&Path, &HandedOver),
    spools: &[PathBuf],
    was_made: bool,
) -> Option<Error> {
    // Numbers of datasets mean nothing if each rank has counted others.
    if let Some(error) = handed.failure.as_ref().filter(|error| error.kind() == ErrorKind::Usage) {
        let hint = format!("nothing can be made of what was put: remove {}", directory.display());
        return Some(error.clone().hint(hint));
    }
    let (_, missing) = parts(handed, spools);
    let missing = if handed.part == 0 { missing.first().copied() } else { handed.maker() };
    // Whole in a tier, it needs no parts.
    if let Some(part) = missing.filter(|_| !HandedOver::has_image(directory)) {
        let ranks = part.ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let what = format!("the part of node '{}' is not here: that of rank {ranks}", part.node());
        let hint = "it lies there in the directory that is named, or in .knarr beside knarr.toml: copy the spools of all \
                    nodes into one directory, and name that";
        return Some(Error::new(ErrorKind::NotFound, what).hint(hint).at(part.directory().display().to_string()));
    }
    let logs = (0..handed.ranks).map(|rank| directory.join(HandedOver::log(rank)));
    if let Some(away) = logs.filter(|log| !log.exists()).find_map(|log| std::fs::read_link(log).ok()) {
        let error = Error::new(ErrorKind::NotFound, "what was put lies there, and that cannot be found");
        return Some(error.hint("mount that disk, or move the directory back").at(away.display().to_string()));
    }
    let output = handed.rule.made_of(&handed.target);
    if let Some(url) = url_of(&output) {
        return if was_made { None } else { in_bucket(engine, url, directory) };
    }
    let newer = handed.replaces(&output, directory).check(&output).err()?;
    Some(newer.hint(format!("move it away to have the other one made, or remove {}", directory.display())))
}

/// The same for a store in a bucket: of one that is there nobody knows whether it is newer.
fn in_bucket(engine: &Engine, url: &str, directory: &Path) -> Option<Error> {
    match is_store(engine, url) {
        Ok(false) => None,
        Ok(true) => Some(
            Error::new(ErrorKind::Exists, "a store is there, which may be newer than what was handed over")
                .hint(format!("remove it to have the other one made, or remove {}", directory.display()))
                .at(url),
        ),
        Err(error) => Some(error),
    }
}
