//! One set packed by many processes: begun together, packed apart, finished together.
//!
//! The middle phase needs no messages, so a thread that may not call MPI can do it while the program computes. With any
//! number of processes the set has the same bytes.
//!
//! A set may also be made on disks that only the processes of one node see: then each node has a *part* of it, the manifest and
//! the files of frames that its own processes have written.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use serde::{Deserialize, Serialize};

use crate::classes::frame_sizes::WORKER;
use crate::disk::manifest::{Manifest, Store, Summary};
use crate::disk::parts::{PARTS, Parts, Waited};
use crate::disk::set::{MANIFEST, MANIFEST_COPY, SET, Set};
use crate::disk::sets::{after, directory_of, make_newest, remove, set_date};
use crate::disk::tree::Tree;
use crate::files::scan::{Finder, Watched};
use crate::packing::group::GroupPacker;
use crate::packing::grouping::{Group, check_sizes};
use crate::packing::new_set::NewSet;
use crate::packing::options::PackOptions;
use crate::packing::packed::Packed;
use crate::packing::part::{Counts, Part, merge, parts_of};
use crate::packing::repeats::Earlier;
use knarr_array::comm::{self, Comm, ROOT, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::wire::{Reader, put_bytes};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::{AtomicDirectory, Store as _};

/// Bytes that are copied at a time.
const COPIED_AT_ONCE: usize = 1 << 20;

/// Where processes write a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In one directory that all of them see.
    Shared,
    /// In a directory of each node.
    EachNode,
}

impl Place {
    /// The rank that makes the directory which rank `comm.rank()` writes in, and publishes it.
    fn maker(self, comm: &dyn Comm) -> usize {
        match self {
            Self::Shared => ROOT,
            Self::EachNode => comm.node(),
        }
    }
}

/// What the parts of all processes make.
struct Merged {
    manifest: Manifest,
    counts: Counts,
    /// If each node has a part of the set.
    parts: Option<Parts>,
    /// The date of all of them, whatever the clocks of the nodes say.
    date: Option<SystemTime>,
}

/// A set that processes pack together. Dropped before [`Together::finish`] was called, it leaves nothing behind; all
/// processes have to drop it then.
pub struct Together {
    place: Place,
    set: NewSet,
    /// Links and directories that the set has; of the process that publishes it.
    tree: Tree,
    /// The rank that makes the directory and publishes it.
    maker: usize,
    /// Of that rank.
    staging: Option<AtomicDirectory>,
    /// Permission bits that the directory gets at most.
    mode: u32,
    /// If there are sets on nodes.
    before: Before,
    begin: Instant,
}

/// What was before a set that a program makes, some of whose sets are on nodes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    /// When the newest set was completed.
    pub(crate) newest: Option<SystemTime>,
    /// For how long the directory of sets has got none.
    pub(crate) waited: Waited,
}

/// What the process that makes the directory tells the others.
#[derive(Serialize, Deserialize)]
struct SetStart {
    /// Its name beside the target.
    directory: String,
    linked: Vec<bool>,
    /// Permission bits that new directories have here.
    mode: u32,
    /// Everything that the set depends on, as text.
    options: String,
}

impl Together {
    /// Makes the directory that the set is written in. Collective; `target` and `options` have to be the same on all
    /// processes, and the directory of `target` the same file system.
    ///
    /// # Errors
    /// On all processes that of one of them: `Usage` for impossible options or ones that differ, `Exists` if the target is
    /// there and may not be replaced, `Write`; what [`Set::open`] reports of the earlier set; as for [`comm::gather`].
    pub fn begin(engine: &Engine, comm: &dyn Comm, target: &Path, options: &PackOptions) -> Result<Self> {
        Self::begin_in(Place::Shared, engine, comm, target, options)
    }

    /// The same for a set that is newer than all that were `before`, also elsewhere.
    ///
    /// # Errors
    /// As for [`Together::begin`].
    pub(crate) fn begin_after(
        engine: &Engine,
        comm: &dyn Comm,
        target: &Path,
        options: &PackOptions,
        before: Before,
    ) -> Result<Self> {
        Ok(Self { before, ..Self::begin(engine, comm, target, options)? })
    }

    /// The same on disks of nodes: `target` and the earlier set are paths on the node of the process, and each node gets its part.
    /// The set is newer than all that were `before`.
    ///
    /// # Errors
    /// As for [`Together::begin`]; `Usage` for second copies, which the other nodes are for.
    pub(crate) fn begin_on_nodes(
        engine: &Engine,
        comm: &dyn Comm,
        target: &Path,
        options: &PackOptions,
        before: Before,
    ) -> Result<Self> {
        Ok(Self { before, ..Self::begin_in(Place::EachNode, engine, comm, target, options)? })
    }

    fn begin_in(place: Place, engine: &Engine, comm: &dyn Comm, target: &Path, options: &PackOptions) -> Result<Self> {
        let begin = Instant::now();
        let opened = check_options(engine, options).and_then(|()| match place {
            Place::EachNode if options.copies > 1 => {
                Err(Error::usage("second copies of a set that nodes have parts of"))
            }
            _ => open_base(engine, options),
        });
        let base = agree(comm, opened)?;
        let maker = place.maker(comm);
        let staged =
            if comm.rank() == maker { stage(place, target, options, base.as_ref()).map(Some) } else { Ok(None) };
        let (staging, begun) = agree(comm, staged)?.unzip();
        let begun: Vec<Option<SetStart>> = match place {
            Place::Shared => vec![comm::share(comm, &begun)?],
            Place::EachNode => {
                let all = comm::all_gather(comm, &comm::written(&begun)?)?;
                all.iter().map(|bytes| comm::read(bytes)).collect::<Result<_>>()?
            }
        };
        let nobody = || Error::internal("no rank made the directory");
        let first = begun.first().and_then(Option::as_ref).ok_or_else(nobody)?;
        let same = match first.options == text(place, target, options) {
            true => Ok(()),
            false => {
                Err(Error::usage("target or options are not those of rank 0").hint("give all ranks the same ones"))
            }
        };
        agree(comm, same)?;
        let begun = begun.into_iter().nth(maker).flatten().ok_or_else(nobody)?;
        let set = NewSet {
            engine: engine.clone(),
            options: options.clone(),
            target: target.to_owned(),
            directory: target.with_file_name(begun.directory),
            base,
            linked: begun.linked,
        };
        Ok(Self {
            place,
            set,
            tree: Tree::default(),
            maker,
            staging,
            mode: begun.mode,
            before: Before::default(),
            begin,
        })
    }

    /// Gives the set links and directories. What rank 0 says counts.
    pub fn set_tree(&mut self, tree: Tree) {
        self.tree = tree;
    }

    /// Packs groups, one after the other, each with all threads of the engine. Not collective: any thread of the process
    /// may call it, once, and it sends no messages. What it returns, error or not, belongs into [`Together::finish`].
    ///
    /// # Errors
    /// What reading and writing report, with the file; `Differs` if a file changes meanwhile; `Usage` for groups that are
    /// empty or too large; `Interrupted`.
    pub fn pack_groups(&self, groups: &[Group], find: Finder<'_>, progress: &dyn Progress) -> Result<Part> {
        let keep = self.set.options.keep;
        let earlier = self.set.base.as_ref().map(|set| (set, Earlier::new(set.manifest(), &self.set.linked, keep)));
        let packer = GroupPacker { set: &self.set, earlier, find, progress };
        let (mut packed, mut watched) = (Vec::new(), Vec::new());
        for group in groups {
            let (group, files) = packer.pack(group)?;
            packed.push(group);
            watched.extend(files);
        }
        Part::new(&packed, watched)
    }

    /// Writes the manifest and gives the set its name. Collective; `part` is what [`Together::pack_groups`] returned on
    /// this process. Rank 0 gets what was packed, the others `None`.
    ///
    /// # Errors
    /// On all processes that of one of them, and then nothing is left behind and an existing set is untouched: that in
    /// `part`; `Differs` if a file changed since it was packed; `Usage` if groups or ranks are missing; `Write`; as for
    /// [`comm::gather`].
    pub fn finish(mut self, comm: &dyn Comm, part: Result<Part>) -> Result<Option<Packed>> {
        // Until everything is on its way to the disk, the program might still have been writing.
        let part = part.and_then(|part| part.watched.iter().try_for_each(Watched::check).map(|()| part));
        let part = agree(comm, part)?;
        let parts = comm::gather(comm, ROOT, &part.bytes)?;
        let merged = match self.place {
            Place::Shared => agree(comm, parts.map(|parts| self.merge(&parts)).transpose())?,
            Place::EachNode => Some(self.merge_on_nodes(comm, parts)?),
        };
        let published =
            self.staging.take().zip(merged).map(|(staging, merged)| self.publish(staging, merged)).transpose();
        let packed = match self.place {
            Place::Shared => agree(comm, published)?,
            Place::EachNode => self.agree_on_nodes(comm, published)?,
        };
        Ok(packed.filter(|_| comm.rank() == ROOT))
    }

    /// Gives the step up if a node could not publish its part. If a rank is gone instead, nobody knows, and the parts stay.
    fn agree_on_nodes(&self, comm: &dyn Comm, published: Result<Option<Packed>>) -> Result<Option<Packed>> {
        let own = published.as_ref().err();
        let all = comm::all_gather(comm, &comm::written(&own)?)?;
        let all = all.iter().map(|bytes| comm::read::<Option<Error>>(bytes)).collect::<Result<Vec<_>>>()?;
        match all.into_iter().enumerate().find_map(|(rank, error)| Some((rank, error?))) {
            None => published,
            Some((rank, error)) => {
                if published.is_ok_and(|packed| packed.is_some()) {
                    let _ = remove(&self.set.target);
                }
                Err(error.at(format!("rank {rank} of {}", comm.size())))
            }
        }
    }

    fn merge(&self, parts: &[Vec<u8>]) -> Result<Merged> {
        let options = &self.set.options;
        let summary = Summary {
            program: concat!("knarr ", env!("CARGO_PKG_VERSION")).to_owned(),
            scheme: options.scheme,
            block_size: options.block_size,
            group_size: options.group_size,
            goal: options.goal.text.clone(),
            decisions: Vec::new(),
            unproven: options.unproven.clone(),
        };
        let (mut manifest, mut counts) = merge(parts, summary)?;
        manifest.tree = self.tree.clone();
        manifest
            .tree
            .check(manifest.ranks.iter().map(|rank| rank.name.as_slice()))
            .map_err(|error| Error::usage(error.message()).hint("pack from a directory that holds each name once"))?;
        counts.lacked |= manifest.tree.lacked();
        let date = self.before.newest.map(|newest| after(Some(newest)));
        Ok(Merged { manifest, counts, parts: None, date })
    }

    /// What rank 0 has merged, on all ranks. Collective.
    fn merge_on_nodes(&self, comm: &dyn Comm, parts: Option<Vec<Vec<u8>>>) -> Result<Merged> {
        let nodes = comm::nodes(comm)?;
        let merge = |bytes: Vec<Vec<u8>>| {
            let merged = self.merge(&bytes)?;
            let earlier = self.set.base.as_ref().map(|base| Parts::read(base.path())).transpose()?.unwrap_or_default();
            let parts = Parts { waited: self.before.waited, ..parts_of(&bytes, &nodes, &earlier)? };
            let told = (parts, merged.counts.lacked, after(self.before.newest));
            let mut message = Vec::new();
            put_bytes(&mut message, &merged.manifest.body()?);
            put_bytes(&mut message, &comm::written(&told)?);
            Ok((merged, message))
        };
        let (merged, message) = agree(comm, parts.map(merge).transpose())?.unzip();
        let message = comm::broadcast(comm, ROOT, message.unwrap_or_default())?;
        let read = || {
            let mut reader = Reader::new("message", &message);
            let body = reader.bytes()?;
            let (parts, lacked, date) = comm::read::<(Parts, u32, SystemTime)>(reader.bytes()?)?;
            let (manifest, counts) = match merged {
                Some(merged) => (merged.manifest, merged.counts),
                None => (Manifest::read_body(body)?, Counts { lacked, ..Counts::default() }),
            };
            Ok(Merged { manifest, counts, parts: Some(parts), date: Some(date) })
        };
        agree(comm, read())
    }

    fn publish(&self, mut staging: AtomicDirectory, merged: Merged) -> Result<Packed> {
        let Merged { mut manifest, counts, parts, date } = merged;
        self.unlink_unused(&manifest)?;
        let copied = if self.set.options.copies > 1 { self.copy_shared(&mut manifest)? } else { 0 };
        self.check_stores(&manifest, |name| parts.as_ref().is_none_or(|parts| parts.has(self.maker, name)))?;
        let bytes = manifest.write(&self.set.engine.codecs)?;
        if let Some(parts) = &parts {
            staging.write(PARTS, &comm::written(parts)?)?;
        }
        staging.write(MANIFEST_COPY, &bytes)?;
        staging.write(MANIFEST, &bytes)?;
        match date {
            Some(date) => set_date(&self.set.directory, date)?,
            None => make_newest(&self.set.directory.join(MANIFEST), directory_of(&self.set.target)),
        }
        self.open_to(counts.lacked)?;
        self.set.engine.check_cancelled()?;
        Box::new(staging).publish()?;
        Ok(Packed {
            raw_bytes: manifest.raw_bytes(),
            manifest,
            packed_bytes: counts.written + copied + 2 * bytes.len() as u64,
            repeated_bytes: counts.repeated,
            reused_bytes: counts.reused,
            apart_bytes: counts.apart,
            copied_bytes: copied,
            carried_whole: counts.carried_whole,
            seconds: self.begin.elapsed().as_secs_f64(),
        })
    }

    /// Refuses to publish a set whose files somebody took away while they were written.
    fn check_stores(&self, manifest: &Manifest, is_own: impl Fn(&str) -> bool) -> Result<()> {
        let is_there = |name: &str, store: &Store| {
            std::fs::metadata(self.set.directory.join(name)).is_ok_and(|found| found.len() == store.length)
        };
        let is_whole =
            |store: &&Store| is_there(&store.name, store) && (!store.has_copy || is_there(&store.copy_name(), store));
        let mut own = manifest.stores.iter().filter(|store| is_own(&store.name));
        own.find(|store| !is_whole(store)).map_or(Ok(()), |store| {
            Err(Error::new(
                ErrorKind::Write,
                format!("'{}' was removed or changed while the set was written", store.name),
            )
            .hint("pack again, and keep what cleans up away from names that begin with a dot")
            .at(self.set.target.display().to_string()))
        })
    }

    /// Lets those into the set who may read all of its files.
    fn open_to(&self, lacked: u32) -> Result<()> {
        // Who may not read may not enter either.
        let lacked = lacked & 0o044;
        let mode = self.mode & (0o700 | !(lacked | lacked >> 2) & 0o077);
        std::fs::set_permissions(&self.set.directory, Permissions::from_mode(mode))
            .map_err(|error| Error::write(&self.set.target, &error))
    }

    /// Removes links to stores of the earlier set that no group uses.
    fn unlink_unused(&self, manifest: &Manifest) -> Result<()> {
        let is_used = |name: &str| manifest.stores.iter().any(|store| store.name == name);
        for name in self.set.linked_names().filter(|name| !is_used(name)) {
            std::fs::remove_file(self.set.directory.join(name))
                .map_err(|error| Error::write(&self.set.target, &error))?;
        }
        Ok(())
    }

    /// Gives each store that is shared with the earlier set a second copy: that of the earlier set if it has a good one.
    /// Returns the bytes that were written.
    fn copy_shared(&self, manifest: &mut Manifest) -> Result<u64> {
        let Some(base) = &self.set.base else { return Ok(0) };
        let shared: Vec<String> = self.set.linked_names().map(ToOwned::to_owned).collect();
        let mut copied = 0;
        for store in manifest.stores.iter_mut().filter(|store| shared.contains(&store.name)) {
            let (from, to) = (self.set.directory.join(&store.name), self.set.directory.join(store.copy_name()));
            let theirs = base.path().join(store.copy_name());
            let has_one = base.manifest().stores.iter().any(|other| other.name == store.name && other.has_copy);
            let is_linked = has_one && std::fs::hard_link(&theirs, &to).is_ok();
            let is_good = is_linked && is_same(&from, &to).unwrap_or(false);
            if is_linked && !is_good {
                std::fs::remove_file(&to).map_err(|error| Error::write(&self.set.target, &error))?;
            }
            if !is_good {
                copied += copy_apart(&from, &to, &self.set.target)?;
            }
            store.has_copy = true;
        }
        Ok(copied)
    }
}

/// True if two files have the same bytes and are not one file.
fn is_same(one: &Path, other: &Path) -> std::io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (a, b) = (one.metadata()?, other.metadata()?);
    if (a.dev(), a.ino()) == (b.dev(), b.ino()) || a.len() != b.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; COPIED_AT_ONCE], vec![0; COPIED_AT_ONCE]);
    let mut rest = a.len();
    while rest > 0 {
        let count = usize::try_from(rest).unwrap_or(usize::MAX).min(COPIED_AT_ONCE);
        let (left, right) = (left.get_mut(..count), right.get_mut(..count));
        let (Some(left), Some(right)) = (left, right) else { return Ok(false) };
        one.read_exact(left)?;
        other.read_exact(right)?;
        if left != right {
            return Ok(false);
        }
        rest -= count as u64;
    }
    Ok(true)
}

/// Copies the bytes of a file, and returns how many: file systems that are asked for a copy let both share one place.
fn copy_apart(from: &Path, to: &Path, target: &Path) -> Result<u64> {
    let write_error = |error: std::io::Error| Error::write(target, &error);
    let mut source = File::open(from).map_err(|error| Error::read(from, &error))?;
    let mut copy = File::create_new(to).map_err(write_error)?;
    let mut buffer = vec![0; COPIED_AT_ONCE];
    let mut copied = 0;
    loop {
        let count = source.read(&mut buffer).map_err(|error| Error::read(from, &error))?;
        if count == 0 {
            return copy.sync_all().map_err(write_error).map(|()| copied);
        }
        copy.write_all(buffer.get(..count).unwrap_or_default()).map_err(write_error)?;
        copied += count as u64;
    }
}

/// Checks what nothing could be packed with.
///
/// # Errors
/// `Usage`.
pub(crate) fn check_options(engine: &Engine, options: &PackOptions) -> Result<()> {
    check_sizes(options.group_size, options.block_size)?;
    if !(1..=2).contains(&options.copies) {
        return Err(Error::usage(format!("{} copies of what sets share", options.copies)).hint("ask for 1 or 2"));
    }
    if engine.max_mem < 2 * WORKER {
        return Err(Error::usage(format!("{} MiB are too little to pack with", engine.max_mem >> 20))
            .hint(format!("raise --max-mem (max_mem) to {}M", (2 * WORKER) >> 20)));
    }
    Ok(())
}

fn open_base(engine: &Engine, options: &PackOptions) -> Result<Option<Set>> {
    options.base.as_ref().map(|path| Set::open(path, &engine.codecs)).transpose()
}

/// Makes the directory, with links to the stores of the earlier set where the file system has them: so this set stays
/// whole when that one is removed. All are linked before anything is packed, so that what a group uses depends on no
/// other group.
fn stage(
    place: Place,
    target: &Path,
    options: &PackOptions,
    base: Option<&Set>,
) -> Result<(AtomicDirectory, SetStart)> {
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent).map_err(|error| Error::write(parent, &error))?;
    }
    // What a node has of a step that is no checkpoint may go: whoever begins the step has looked.
    let staging = AtomicDirectory::create(target, SET, options.force || place == Place::EachNode)?;
    // Until it is known who may read the files, nobody else may read the set.
    let private = || {
        let mode = std::fs::metadata(staging.dir())?.permissions().mode() & 0o777;
        std::fs::set_permissions(staging.dir(), Permissions::from_mode(0o700)).map(|()| mode)
    };
    let mode = private().map_err(|error| Error::write(target, &error))?;
    let link = |(set, name): (&Set, &str)| std::fs::hard_link(set.path().join(name), staging.dir().join(name)).is_ok();
    let stores = base.iter().flat_map(|set| set.manifest().stores.iter().map(|store| (*set, store.name.as_str())));
    let linked = stores.map(link).collect();
    let directory = staging.dir().file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    Ok((staging, SetStart { directory, linked, mode, options: text(place, target, options) }))
}

/// What has to be the same on all processes.
fn text(place: Place, target: &Path, options: &PackOptions) -> String {
    match place {
        Place::Shared => format!("{}: {options:?}", target.display()),
        // Each node has paths of its own, and of the earlier set the name has to do.
        Place::EachNode => {
            let name = |path: &Path| path.file_name().map(PathBuf::from);
            let base = options.base.as_deref().and_then(name);
            format!("{:?}: {:?}", name(target), PackOptions { base, ..options.clone() })
        }
    }
}
