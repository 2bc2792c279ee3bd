//! Packing: the files of many ranks into one set.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::decide::{Decider, Decision};
use super::manifest::{FrameEntry, Manifest, RankFile, RankLayout, Store, Summary};
use super::merge::{MergeBuffers, Merger};
use super::names;
use super::repeats::{Earlier, Repeats};
use super::restore::reading;
use super::scan::{Finder, Scanned, Watched, piece_hash, scan};
use super::scheme::{BLOCK_SIZE, LARGEST_FRAME, Merged, Scheme, arrange};
use super::set::{FrameBuffers, MANIFEST, STORE_HEAD, Set, is_set, store_head};
use super::similarity::{Class, Similarity, whole_files};
use crate::engine::{Engine, Progress};
use crate::error::{Error, Result};
use crate::goal::Goal;
use crate::output::{Kind, Staging, WriteBehind};
use crate::pack::Packer;
use crate::pipeline::{Order as Work, in_order};
use crate::quality::Quality;

/// What is staged.
const SET: Kind = Kind { noun: "checkpoint set", is: is_set, many_files: false };
/// What a worker takes: copies of a frame that were fetched, merged, two of the chain, proof, result.
pub(super) const WORKER: u64 = 6 * LARGEST_FRAME;
/// Ranks of a group, at most: their files are open together.
pub const LARGEST_GROUP: usize = 512;

/// The file of one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Where it lies.
    pub path: PathBuf,
    /// Its name in the set: a relative path below the directory that a restore writes to.
    pub name: Vec<u8>,
}

/// How to pack.
#[derive(Debug, Clone)]
pub struct PackOptions {
    /// How pieces are merged.
    pub scheme: Scheme,
    /// Bytes of the blocks of schemes with blocks.
    pub block_size: u64,
    /// Ranks that share a file of frames, 1 to [`LARGEST_GROUP`].
    pub group_size: usize,
    /// What to optimise in the choice of chains.
    pub goal: Goal,
    /// Which variables are alike.
    pub similarity: Similarity,
    /// Decode and compare every frame before it is written.
    pub verify: bool,
    /// Replace an existing set.
    pub force: bool,
    /// An earlier set whose content need not be stored again.
    pub base: Option<PathBuf>,
}

/// Goal of checkpoints where none is asked for: they are written often and read rarely, but whole sets of them are kept,
/// so what makes them a tenth smaller may take many times as long.
pub const GOAL: &str = "ratio=0.97,encode=0.02,decode=0.01";

impl Default for PackOptions {
    fn default() -> Self {
        Self {
            scheme: Scheme::Auto,
            block_size: BLOCK_SIZE,
            group_size: 32,
            goal: GOAL.parse().unwrap_or_else(|_| Goal::balanced()),
            similarity: Similarity::default(),
            verify: true,
            force: false,
            base: None,
        }
    }
}

/// What packing did.
#[derive(Debug, Clone)]
pub struct Packed {
    /// What the set holds.
    pub manifest: Manifest,
    /// Bytes of the ranks' files.
    pub raw_bytes: u64,
    /// Bytes that were written: frames and manifest.
    pub packed_bytes: u64,
    /// Bytes of pieces that repeat others of the same group.
    pub repeated_bytes: u64,
    /// Bytes of pieces that the earlier set holds.
    pub reused_bytes: u64,
    /// Files that are carried as bytes, with the reason.
    pub carried_whole: Vec<(Vec<u8>, String)>,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// Packs `inputs`, in the order of ranks, into the set `target`. On error nothing is left behind and an existing set is
/// untouched.
///
/// # Errors
/// `Usage` for no inputs, names twice or impossible options; what reading and writing report, with the file; `Differs`
/// if a file changes meanwhile.
pub fn pack(
    engine: &Engine,
    inputs: &[Input],
    target: &Path,
    options: &PackOptions,
    find: Finder<'_>,
    progress: &dyn Progress,
) -> Result<Packed> {
    let begin = std::time::Instant::now();
    check(engine, inputs, options)?;
    let base = options.base.as_ref().map(|path| Set::open(path, &engine.codecs)).transpose()?;
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent).map_err(|error| Error::write(parent, &error))?;
    }
    let staging = Staging::create(target, SET, options.force)?;
    let mut packing = Packing {
        engine,
        options,
        earlier: base.as_ref().map(|set| (set, Earlier::new(set.manifest()))),
        remembered: base.as_ref().map_or(&[], |set| set.manifest().summary.decisions.as_slice()),
        linked: HashMap::new(),
        staging,
        manifest: Manifest {
            summary: Summary {
                program: concat!("knarr ", env!("CARGO_PKG_VERSION")).to_owned(),
                scheme: options.scheme,
                block_size: options.block_size,
                group_size: options.group_size,
                goal: options.goal.text.clone(),
                decisions: Vec::new(),
            },
            ranks: Vec::new(),
            stores: Vec::new(),
            classes: Vec::new(),
            frames: Vec::new(),
        },
        written: 0,
        repeated: 0,
        reused: 0,
        carried_whole: Vec::new(),
    };
    let mut scanned = Vec::new();
    for inputs in inputs.chunks(options.group_size) {
        scanned.extend(packing.group(inputs, find, progress)?);
    }
    // Until everything is on its way to the disk, the program might still have been writing.
    scanned.iter().try_for_each(Watched::check)?;
    packing.finish(begin)
}

fn check(engine: &Engine, inputs: &[Input], options: &PackOptions) -> Result<()> {
    if inputs.is_empty() {
        return Err(Error::usage("there are no files to pack").mend("name files, or a directory that holds some"));
    }
    if !(1..=LARGEST_GROUP).contains(&options.group_size) {
        return Err(Error::usage(format!("a group of {} ranks", options.group_size))
            .mend(format!("groups have 1 to {LARGEST_GROUP} ranks")));
    }
    if options.block_size == 0 {
        return Err(Error::usage("blocks of 0 bytes").mend("ask for 1 byte or more"));
    }
    if engine.max_mem < 2 * WORKER {
        return Err(Error::usage(format!("{} MiB are too little to pack with", engine.max_mem >> 20))
            .mend(format!("raise --max-mem to {}M", (2 * WORKER) >> 20)));
    }
    let mut seen = std::collections::HashSet::new();
    for input in inputs {
        names::check(&input.name)
            .map_err(|error| Error::usage(error.message()).at(input.path.display().to_string()))?;
        if !seen.insert(&input.name) {
            return Err(Error::usage(format!("two files are called '{}'", input.name.escape_ascii()))
                .mend("pack them from a directory that holds both, or give them different names"));
        }
    }
    Ok(())
}

/// A set that is being written.
struct Packing<'a> {
    engine: &'a Engine,
    options: &'a PackOptions,
    earlier: Option<(&'a Set, Earlier<'a>)>,
    /// What was decided for the earlier set.
    remembered: &'a [Decision],
    /// Stores of the earlier set that are part of this one, with their numbers here.
    linked: HashMap<usize, usize>,
    staging: Staging,
    manifest: Manifest,
    written: u64,
    repeated: u64,
    reused: u64,
    carried_whole: Vec<(Vec<u8>, String)>,
}

/// One frame to be made.
struct Job {
    class: usize,
    merged: Merged,
}

impl Packing<'_> {
    /// Packs the files of one group into one store.
    fn group(&mut self, inputs: &[Input], find: Finder<'_>, progress: &dyn Progress) -> Result<Vec<Watched>> {
        let (engine, options) = (self.engine, self.options);
        let (group, first_rank) =
            (self.manifest.ranks.last().map_or(0, |rank| rank.group + 1), self.manifest.ranks.len());
        let lengths = inputs.iter().map(|input| std::fs::metadata(&input.path).map_or(0, |metadata| metadata.len()));
        progress.begin("reading", lengths.sum());
        let files = engine.parallel(inputs.len(), |index| match inputs.get(index) {
            Some(input) => scan(engine, &input.path, find, progress),
            None => Err(Error::internal("no such input")),
        })?;
        self.add_ranks(inputs, &files, group);
        let repeats = self.repeats(&files, first_rank)?;
        let cut: Vec<_> = files.iter().map(|file| (&file.layout, file.pieces.as_slice())).collect();
        let is_kept = |rank, piece| repeats.is_kept(rank, piece);
        let classes = match options.scheme.is_aware() {
            true => options.similarity.classes(&cut, is_kept),
            false => whole_files(&cut, is_kept),
        };
        let merger = Merger { files: &files };
        let packer = Packer {
            engine: engine.fitting(WORKER),
            goal: options.goal.clone(),
            quality: Quality::LOSSLESS,
            chain: None,
        };
        let decider = Decider {
            packer: &packer,
            merger: &merger,
            scheme: options.scheme,
            block_size: options.block_size,
            group,
            remembered: self.remembered,
        };
        progress.begin("choosing", classes.len() as u64);
        let mut decisions = decider.decide(&classes, &|| progress.advance(1))?;
        self.write(&classes, &mut decisions, &merger, &repeats, (group, first_rank), progress)?;
        let (repeated, reused) = repeats.spared(&files);
        self.repeated += repeated;
        self.reused += reused;
        self.manifest.summary.decisions.append(&mut decisions);
        Ok(files.into_iter().map(Scanned::into_watched).collect())
    }

    fn add_ranks(&mut self, inputs: &[Input], files: &[Scanned], group: usize) {
        for (input, file) in inputs.iter().zip(files) {
            if let Some(why) = &file.carried_whole {
                self.carried_whole.push((input.name.clone(), why.clone()));
            }
            // Ranks of one program often have one layout, or one of few.
            let known = self.manifest.ranks.iter().rev().take(8).map(|rank| &rank.layout);
            let same = known.clone().find(|layout| layout.layout == file.layout).cloned();
            let layout = same
                .unwrap_or_else(|| Arc::new(RankLayout { layout: file.layout.clone(), pieces: file.pieces.clone() }));
            self.manifest.ranks.push(RankFile { name: input.name.clone(), group, hash: file.hash, layout });
        }
    }

    /// What need not be stored again. Frames of the earlier set become part of this one, through links to their files,
    /// so that the earlier set can be removed; where they cannot be linked or do not hold what they should, everything
    /// is stored anew.
    fn repeats(&mut self, files: &[Scanned], first_rank: usize) -> Result<Repeats> {
        if let Some((set, earlier)) = &self.earlier {
            let repeats = Repeats::find(files, Some(earlier));
            let frames = repeats.earlier_frames(set.manifest(), first_rank);
            let is_whole = reading(self.engine, frames.iter()).parallel(frames.len(), |index| {
                Ok(frames.get(index).is_some_and(|frame| holds_what_it_should(self.engine, set, frame)))
            })?;
            if is_whole.iter().all(|&whole| whole)
                && link(set, &frames, &self.staging, &mut self.linked, &mut self.manifest)
            {
                for mut frame in frames {
                    let class = set.manifest().classes.get(frame.class).map_or("", String::as_str).to_owned();
                    frame.class = class_number(&mut self.manifest.classes, &class);
                    frame.store = self.linked.get(&frame.store).copied().unwrap_or(0);
                    self.manifest.frames.push(frame);
                }
                return Ok(repeats);
            }
            self.earlier = None;
        }
        Ok(Repeats::find(files, None))
    }

    fn write(
        &mut self,
        classes: &[Class],
        decisions: &mut [Decision],
        merger: &Merger<'_>,
        repeats: &Repeats,
        (group, first_rank): (usize, usize),
        progress: &dyn Progress,
    ) -> Result<()> {
        let jobs: Vec<Job> = classes
            .iter()
            .zip(&*decisions)
            .enumerate()
            .flat_map(|(class, (units, decision))| {
                let frames = arrange(&units.units, decision.order, |rank, piece| merger.length(rank, piece));
                frames.into_iter().map(move |merged| Job { class, merged })
            })
            .collect();
        if jobs.is_empty() {
            return Ok(());
        }
        progress.begin("packing", jobs.iter().map(|job| merger.bytes(&job.merged)).sum());
        let mut store =
            StoreFile::create(&self.staging, group, self.manifest.ranks.get(first_rank..).unwrap_or_default())?;
        let store_number = self.manifest.stores.len();
        let (engine, verify, frames) = (self.engine, self.options.verify, &mut self.manifest.frames);
        let numbers: Vec<usize> =
            classes.iter().map(|class| class_number(&mut self.manifest.classes, &class.key)).collect();
        let workers = engine.fitting(2 * WORKER).jobs;
        let mut next = jobs.iter();
        in_order(
            Work { engine, jobs: workers, window: engine.max_mem / 4, total: jobs.len() as u64 },
            |number| job(&jobs, number).map_or(0, |job| merger.weight(&job.merged)),
            |buffers: &mut MergeBuffers, number| {
                let job = job(&jobs, number)?;
                let (Some(class), Some(decision)) = (classes.get(job.class), decisions.get(job.class)) else {
                    return Err(Error::internal("a frame of no class"));
                };
                merger
                    .encode(&engine.codecs, class, &job.merged, decision, verify, buffers)
                    .map_err(|error| error.at_once(&class.key))
            },
            |bytes| {
                let job = next.next().ok_or_else(|| Error::internal("more frames than were asked for"))?;
                let offset = store.append(&bytes)?;
                let stored = |&place: &(usize, usize)| repeats.stored(merger.files, first_rank, place);
                frames.push(FrameEntry {
                    store: store_number,
                    offset,
                    length: bytes.len() as u64,
                    class: numbers.get(job.class).copied().unwrap_or(0),
                    block: job.merged.block,
                    lanes: job.merged.lanes.iter().map(Vec::len).collect(),
                    pieces: job.merged.lanes.iter().flatten().filter_map(stored).collect(),
                });
                progress.advance(merger.bytes(&job.merged));
                Ok(())
            },
        )?;
        let store = store.finish()?;
        self.written += store.length;
        self.manifest.stores.push(store);
        for frame in self.manifest.frames.iter().filter(|frame| frame.store == store_number) {
            let place = numbers.iter().position(|&number| number == frame.class);
            if let Some(decision) = place.and_then(|place| decisions.get_mut(place)) {
                decision.packed_bytes += frame.length;
            }
        }
        Ok(())
    }

    /// Writes the manifest and gives the set its name.
    fn finish(mut self, begin: std::time::Instant) -> Result<Packed> {
        let bytes = self.manifest.write(&self.engine.codecs)?;
        self.staging.write(MANIFEST, &bytes)?;
        self.engine.check_cancelled()?;
        self.staging.publish()?;
        Ok(Packed {
            raw_bytes: self.manifest.raw_bytes(),
            manifest: self.manifest,
            packed_bytes: self.written + bytes.len() as u64,
            repeated_bytes: self.repeated,
            reused_bytes: self.reused,
            carried_whole: self.carried_whole,
            seconds: begin.elapsed().as_secs_f64(),
        })
    }
}

fn job(jobs: &[Job], number: u64) -> Result<&Job> {
    let job = usize::try_from(number).ok().and_then(|number| jobs.get(number));
    job.ok_or_else(|| Error::internal("no such frame"))
}

/// Number of a class in the manifest, where it is entered if it is new.
fn class_number(classes: &mut Vec<String>, key: &str) -> usize {
    classes.iter().position(|class| class == key).unwrap_or_else(|| {
        classes.push(key.to_owned());
        classes.len() - 1
    })
}

/// True if every piece of an earlier frame that is to be used has the bytes that its hash promises.
fn holds_what_it_should(engine: &Engine, set: &Set, frame: &FrameEntry) -> bool {
    let mut holds = true;
    let read = set.read_pieces(&engine.codecs, frame, &mut FrameBuffers::default(), |piece, bytes| {
        holds &= piece.places.is_empty() || piece.hash == Some(piece_hash(bytes));
        Ok(())
    });
    read.is_ok() && holds
}

/// Makes the stores of the earlier set that `frames` lie in part of the new one. False if that is not possible.
fn link(
    set: &Set,
    frames: &[FrameEntry],
    staging: &Staging,
    linked: &mut HashMap<usize, usize>,
    manifest: &mut Manifest,
) -> bool {
    for frame in frames {
        let Some(store) = set.manifest().stores.get(frame.store) else { return false };
        if linked.contains_key(&frame.store) {
            continue;
        }
        if std::fs::hard_link(set.store_path(store), staging.path(&store.name)).is_err() {
            return false;
        }
        linked.insert(frame.store, manifest.stores.len());
        manifest.stores.push(store.clone());
    }
    true
}

/// A file of frames that is being written.
struct StoreFile {
    path: PathBuf,
    file: BufWriter<File>,
    behind: WriteBehind,
    store: Store,
}

impl StoreFile {
    fn create(staging: &Staging, group: usize, ranks: &[RankFile]) -> Result<Self> {
        let mut hasher = blake3::Hasher::new();
        for rank in ranks {
            hasher.update(&rank.name).update(&[0]).update(&rank.hash);
        }
        let mut id = [0; 16];
        id.iter_mut().zip(hasher.finalize().as_bytes()).for_each(|(to, from)| *to = *from);
        let short: String = id.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        // Equal files give equal names, and an earlier set's may be part of this one.
        let names = std::iter::once(String::new()).chain((2..).map(|number| format!("-{number}")));
        let mut names = names.map(|suffix| format!("group-{group:05}-{short}{suffix}.knarr"));
        let name = names.find(|name| !staging.path(name).exists()).unwrap_or_default();
        let path = staging.path(&name);
        let create = || {
            let mut file = BufWriter::with_capacity(1 << 20, File::create_new(&path)?);
            file.write_all(&store_head(&id))?;
            Ok((file, WriteBehind::start(&path)?))
        };
        let (file, behind) = create().map_err(|error| Error::write(staging.target(), &error))?;
        Ok(Self { path: staging.target().to_owned(), file, behind, store: Store { name, length: STORE_HEAD, id } })
    }

    /// Adds a frame and returns its first byte.
    fn append(&mut self, frame: &[u8]) -> Result<u64> {
        let offset = self.store.length;
        self.file.write_all(frame).map_err(|error| Error::write(&self.path, &error))?;
        self.store.length += frame.len() as u64;
        self.behind.written(frame.len() as u64);
        Ok(offset)
    }

    fn finish(mut self) -> Result<Store> {
        let flushed = self.file.flush().and_then(|()| self.behind.finish());
        flushed.map_err(|error| Error::write(&self.path, &error))?;
        Ok(self.store)
    }
}
