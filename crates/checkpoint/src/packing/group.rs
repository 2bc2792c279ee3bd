//! Packing one group: the files of its ranks into one store. Needs nobody else.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::classes::decide::Decider;
use crate::classes::decision::Decision;
use crate::classes::frame_sizes::WORKER;
use crate::classes::merge::{MergeBuffers, Merger};
use crate::classes::scheme::{Merged, arrange};
use crate::classes::similarity::{Class, whole_files};
use crate::disk::manifest::{FrameEntry, Manifest, Store};
use crate::disk::set::{FrameBuffers, STORE_HEAD, Set, Which, store_head};
use crate::files::piece_hash::piece_hash;
use crate::files::rank_file::RankFile;
use crate::files::recipe::COPIES;
use crate::files::scan::{Finder, Scanned, Values, Watched, scan};
use crate::files::unfiltered::is_worth;
use crate::packing::grouping::Group;
use crate::packing::new_set::NewSet;
use crate::packing::part::{Counts, PackedGroup};
use crate::packing::repeats::{Earlier, Repeats};
use crate::restoring::restore::reading;
use knarr_array::error::{Error, Result};
use knarr_array::quality::Quality;
use knarr_flow::cache::ChunkCache;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::ordered::{Piece, Schedule, in_order};
use knarr_flow::output::WriteBehind;
use knarr_flow::pack::Packer;

/// A program waits for a checkpoint, and its steps are packed one after the other.
const CHECKPOINT_PATIENCE: f64 = 1.0;
/// What part of the memory chunks may take that were decoded and of which more will be needed.
const CACHED: u64 = 8;

/// Packs groups of one set.
pub(crate) struct GroupPacker<'a> {
    pub(crate) set: &'a NewSet,
    /// The earlier set, and its content that is part of this one already.
    pub(crate) earlier: Option<(&'a Set, Earlier<'a>)>,
    pub(crate) find: Finder<'a>,
    pub(crate) progress: &'a dyn Progress,
}

/// One frame to be made.
struct FrameJob {
    class: usize,
    merged: Merged,
}

impl GroupPacker<'_> {
    /// Packs one group.
    ///
    /// # Errors
    /// What reading and writing report, with the file; `Differs` if a file changes meanwhile; `Usage` for a group without
    /// ranks or with more than one may have.
    pub(crate) fn pack(&self, group: &Group) -> Result<(PackedGroup, Vec<Watched>)> {
        let (engine, options, progress) = (&self.set.engine, &self.set.options, self.progress);
        let members = &group.members;
        if !(1..=options.group_size).contains(&members.len()) {
            return Err(Error::usage(format!("group {} has {} ranks", group.number, members.len()))
                .hint(format!("the groups of this set have 1 to {} ranks", options.group_size)));
        }
        let paths: Vec<&Path> = members.iter().map(|member| member.input.path.as_path()).collect();
        // The schemes that know nothing of variables merge files as they are.
        let unfiltering = options.scheme.is_aware() && is_worth(engine, &options.goal);
        let files = scan(engine, &paths, self.find, unfiltering, progress)?;
        let mut packed = described(group, &files, options.attributes);
        let repeats = self.repeats(&files, &mut packed.manifest)?;
        let cut: Vec<_> = files.iter().map(|file| (&file.layout, file.pieces.as_slice())).collect();
        let is_kept = |rank, piece| repeats.is_kept(rank, piece);
        let classes = match options.scheme.is_aware() {
            true => options.similarity.classes(&cut, is_kept),
            false => whole_files(&cut, is_kept),
        };
        // Workers decode chunks to fetch pieces of them.
        let chunk = COPIES * files.iter().map(|file| file.recipe.largest()).max().unwrap_or(0);
        let cache = ChunkCache::new(usize::try_from(engine.max_mem / CACHED).unwrap_or(usize::MAX));
        let merger = Merger { files: &files, values: Values { codecs: &engine.codecs, cache } };
        // While chains are compared as much is there as while a frame is encoded.
        let engine = engine.fitting(2 * WORKER + chunk);
        let packer = Packer {
            engine: Engine { patience: CHECKPOINT_PATIENCE, ..engine.clone() },
            goal: options.goal.clone(),
            quality: Quality::LOSSLESS,
            chain: None,
        };
        let remembered = self.set.base.as_ref().map(|set| &set.manifest().summary);
        // What was decided for another goal or scheme says nothing of this one.
        let remembered = remembered.filter(|summary| {
            (summary.scheme, summary.block_size, &summary.goal)
                == (options.scheme, options.block_size, &options.goal.text)
        });
        let decider = Decider {
            packer: &packer,
            merger: &merger,
            scheme: options.scheme,
            block_size: options.block_size,
            group: group.number,
            remembered: remembered.map_or(&[], |summary| summary.decisions.as_slice()),
        };
        progress.begin("choosing", classes.len() as u64);
        let mut decisions = decider.decide(&classes, &|| progress.advance(1))?;
        packed.checksum = self.write(&engine, &mut packed.manifest, &classes, &mut decisions, &merger, &repeats)?;
        packed.counts.written = packed.own_store().map_or(0, |(store, _)| store.length);
        packed.counts.repeated = repeats.repeated(&files);
        packed.counts.reused = repeats.reused(&files);
        packed.counts.apart = repeats.apart();
        packed.manifest.summary.decisions = decisions;
        Ok((packed, files.into_iter().map(Scanned::into_watched).collect()))
    }

    /// What need not be stored again. Frames of the earlier set become part of this one, whose directory has links to
    /// their files; if one does not hold what it should, the group stores everything anew.
    fn repeats(&self, files: &[Scanned], manifest: &mut Manifest) -> Result<Repeats> {
        let Some((set, earlier)) = &self.earlier else { return Ok(Repeats::find(files, None)) };
        let engine = &self.set.engine;
        let repeats = Repeats::find(files, Some(earlier));
        let frames = repeats.earlier_frames(set.manifest());
        let is_whole = reading(engine, frames.iter()).parallel(frames.len(), |index| {
            Ok(frames.get(index).is_some_and(|frame| holds_what_it_should(engine, set, frame)))
        })?;
        if !is_whole.iter().all(|&whole| whole) {
            return Ok(Repeats::find(files, None));
        }
        for mut frame in frames {
            let (of, unknown) = (set.manifest(), || Error::internal("a frame of no class or store"));
            frame.class = entered(&mut manifest.classes, of.classes.get(frame.class).ok_or_else(unknown)?);
            // Whether there will be a second copy is decided for all groups.
            let store = Store { has_copy: false, ..of.stores.get(frame.store).ok_or_else(unknown)?.clone() };
            frame.store = entered(&mut manifest.stores, &store);
            manifest.frames.push(frame);
        }
        Ok(repeats)
    }

    /// Writes what is left into a store, enters it in the manifest as the last one and returns its CRC-32C; `None` if nothing is
    /// left.
    fn write(
        &self,
        engine: &Engine,
        manifest: &mut Manifest,
        classes: &[Class],
        decisions: &mut [Decision],
        merger: &Merger<'_>,
        repeats: &Repeats,
    ) -> Result<Option<u32>> {
        let mut jobs: Vec<FrameJob> = classes
            .iter()
            .zip(&*decisions)
            .enumerate()
            .flat_map(|(class, (units, decision))| {
                let frames = arrange(&units.units, decision.order, |rank, piece| merger.length(rank, piece));
                frames.into_iter().map(move |merged| FrameJob { class, merged })
            })
            .collect();
        if jobs.is_empty() {
            return Ok(None);
        }
        self.slowest_first(&mut jobs, decisions, |job| merger.bytes(&job.merged));
        self.progress.begin("packing", jobs.iter().map(|job| merger.bytes(&job.merged)).sum());
        let mut store = StoreFile::create(self.set, &manifest.ranks)?;
        let store_number = manifest.stores.len();
        let (verify, frames) = (self.set.options.verify, &mut manifest.frames);
        let numbers: Vec<usize> = classes.iter().map(|class| entered(&mut manifest.classes, &class.key)).collect();
        let mut next = jobs.iter();
        in_order(
            Schedule {
                engine,
                jobs: engine.jobs,
                extra_lanes: &[],
                window: engine.max_mem / 4,
                total: jobs.len() as u64,
            },
            |number| Piece::of(job(&jobs, number).map_or(0, |job| merger.weight(&job.merged))),
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
                let stored = |&place: &(usize, usize)| repeats.stored(merger.files, place);
                frames.push(FrameEntry {
                    store: store_number,
                    offset,
                    length: bytes.len() as u64,
                    class: numbers.get(job.class).copied().unwrap_or(0),
                    block: job.merged.block,
                    lanes: job.merged.lanes.iter().map(Vec::len).collect(),
                    pieces: job.merged.lanes.iter().flatten().filter_map(stored).collect(),
                });
                self.progress.advance(merger.bytes(&job.merged));
                Ok(())
            },
        )?;
        let (store, checksum) = store.finish()?;
        manifest.stores.push(store);
        for frame in manifest.frames.iter().filter(|frame| frame.store == store_number) {
            let place = numbers.iter().position(|&number| number == frame.class);
            if let Some(decision) = place.and_then(|place| decisions.get_mut(place)) {
                decision.packed_bytes += frame.length;
            }
        }
        Ok(Some(checksum))
    }

    /// Sorts frames so that workers do not wait for a slow one at the end. Those of a class stay together.
    fn slowest_first(&self, jobs: &mut [FrameJob], decisions: &[Decision], bytes: impl Fn(&FrameJob) -> u64) {
        let Engine { codecs, profile, .. } = &self.set.engine;
        let mut slowest = vec![0.0f64; decisions.len()];
        for job in &*jobs {
            let chain = decisions.get(job.class).and_then(|decision| decision.chains.first());
            if let (Some(chain), Some(slowest)) = (chain, slowest.get_mut(job.class)) {
                #[expect(clippy::cast_precision_loss, reason = "a length in memory")]
                let seconds = bytes(job) as f64 / profile.merits(codecs, chain, 1.0).encode;
                *slowest = slowest.max(seconds);
            }
        }
        let of = |job: &FrameJob| slowest.get(job.class).copied().unwrap_or_default();
        jobs.sort_by(|a, b| of(b).total_cmp(&of(a)).then(a.class.cmp(&b.class)));
    }
}

/// The group before anything is packed.
fn described(group: &Group, files: &[Scanned], with_attributes: bool) -> PackedGroup {
    let mut counts = Counts::default();
    let mut manifest = Manifest::default();
    for (member, file) in group.members.iter().zip(files) {
        counts.lacked |= !file.attributes.mode & 0o777;
        if let Some(why) = &file.carried_whole {
            counts.carried_whole.push((member.input.name.clone(), why.clone()));
        }
        // Equal layouts of ranks are found when the parts are put together.
        manifest.ranks.push(RankFile {
            name: member.input.name.clone(),
            number: if with_attributes { member.input.number } else { member.rank as u64 },
            group: group.number,
            hash: file.hash,
            attributes: with_attributes.then_some(file.attributes),
            layout: Arc::clone(&file.known),
        });
    }
    PackedGroup { manifest, ranks: group.members.iter().map(|member| member.rank).collect(), counts, checksum: None }
}

fn job(jobs: &[FrameJob], number: u64) -> Result<&FrameJob> {
    let job = usize::try_from(number).ok().and_then(|number| jobs.get(number));
    job.ok_or_else(|| Error::internal("no such frame"))
}

/// Place of an entry in a list, where it is added if it is new.
fn entered<T: PartialEq + Clone>(list: &mut Vec<T>, entry: &T) -> usize {
    list.iter().position(|other| other == entry).unwrap_or_else(|| {
        list.push(entry.clone());
        list.len() - 1
    })
}

/// True if every piece of an earlier frame that is to be used has the bytes that its hash promises.
fn holds_what_it_should(engine: &Engine, set: &Set, frame: &FrameEntry) -> bool {
    let mut holds = true;
    let read = set.read_pieces(&engine.codecs, frame, Which::First, &mut FrameBuffers::default(), |piece, bytes| {
        holds &= piece.places.is_empty() || piece.hash == Some(piece_hash(bytes));
        Ok(())
    });
    read.is_ok() && holds
}

/// A file of frames that is being written.
struct StoreFile {
    path: PathBuf,
    file: BufWriter<File>,
    behind: WriteBehind,
    store: Store,
    /// CRC-32C of what was written.
    checksum: u32,
}

impl StoreFile {
    fn create(set: &NewSet, ranks: &[RankFile]) -> Result<Self> {
        let group = ranks.first().map_or(0, |rank| rank.group);
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
        let name = names.find(|name| !set.is_linked(name)).unwrap_or_default();
        let path = set.directory.join(&name);
        let create = || {
            let mut file = BufWriter::with_capacity(1 << 20, File::create_new(&path)?);
            file.write_all(&store_head(&id))?;
            Ok((file, WriteBehind::start(&path)?))
        };
        let (file, behind) = create().map_err(|error| Error::write(&set.target, &error))?;
        Ok(Self {
            path: set.target.clone(),
            file,
            behind,
            store: Store { name, length: STORE_HEAD, id, has_copy: false },
            checksum: crc32c::crc32c(&store_head(&id)),
        })
    }

    /// Adds a frame and returns its first byte.
    fn append(&mut self, frame: &[u8]) -> Result<u64> {
        let offset = self.store.length;
        self.file.write_all(frame).map_err(|error| Error::write(&self.path, &error))?;
        self.store.length += frame.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, frame);
        self.behind.written(frame.len() as u64);
        Ok(offset)
    }

    /// Makes the file durable: who publishes the set may be on another node, and could not. Returns its CRC-32C, too.
    fn finish(mut self) -> Result<(Store, u32)> {
        let flushed = self.file.flush().and_then(|()| self.behind.finish());
        flushed.and_then(|()| self.file.get_ref().sync_all()).map_err(|error| Error::write(&self.path, &error))?;
        Ok((self.store, self.checksum))
    }
}
