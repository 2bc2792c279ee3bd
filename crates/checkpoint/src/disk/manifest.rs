//! The manifest of a set: which files it holds, and where their pieces lie. Its bytes are described in `docs/format.md`.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::classes::decision::Decision;
use crate::classes::scheme::Scheme;
use crate::disk::tables::{Column, put_layouts, put_recipes, read_layouts, read_recipes};
use crate::disk::tree::Tree;
use crate::files::names;
use crate::files::piece_hash::PieceHash;
use crate::files::rank_file::{RankFile, RankLayout, put_attributes, read_attributes};
use crate::files::recipe::Recipe;
use knarr_array::array::{ArraySpec, DType};
use knarr_array::error::{Error, Result};
use knarr_array::wire::{Reader, put_bytes, put_column, put_number};
use knarr_codec::chain::{Chain, Scratch};
use knarr_codec::codec::CodecList;
use knarr_codec::frame;

/// First bytes of a manifest; the last one is the version.
const MAGIC: [u8; 7] = *b"KNARRCK";
/// Latest version of the set format. Sets that need nothing of it are written in an earlier one.
pub const VERSION: u8 = 3;
/// The first version with files that are packed in their unfiltered form.
const UNFILTERED: u8 = 2;
/// The first version that says what files were like, and that has links and directories.
const TREE: u8 = 3;
/// Pieces of at least this many bytes have their hash in the manifest, for later sets to find them again.
pub(crate) const HASHED: u64 = 4096;
/// A manifest is not larger than this when it is decoded.
const LARGEST: usize = 4 << 30;
/// Nor does it grow by more than this factor.
const MOST_GROWTH: usize = 1 << 16;

/// What a set holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Manifest {
    /// What was decided, and by whom.
    pub summary: Summary,
    /// One file per rank, in the order of ranks.
    pub ranks: Vec<RankFile>,
    /// Links and directories.
    pub tree: Tree,
    /// Files of frames.
    pub stores: Vec<Store>,
    /// Names of the classes of similar variables.
    pub classes: Vec<String>,
    /// All frames.
    pub(crate) frames: Vec<FrameEntry>,
}

/// The part of a manifest that people read.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Program and version that wrote the set.
    pub program: String,
    /// Scheme that was asked for.
    pub scheme: Scheme,
    /// Block size of schemes with blocks.
    pub block_size: u64,
    /// Ranks of a group, at most.
    pub group_size: usize,
    /// Goal of the choice of chains.
    pub goal: String,
    /// What was decided for each class.
    pub decisions: Vec<Decision>,
    /// Why nothing said that the files were whole when they were packed, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unproven: Option<String>,
}

/// A file of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Name in the directory of the set.
    pub name: String,
    /// Bytes of the file.
    pub length: u64,
    /// What its header says, so that files of different sets are not taken for each other.
    pub id: [u8; 16],
    /// The set has a second copy of the file, which serves where the first one is damaged.
    pub has_copy: bool,
}

impl Store {
    /// Name of the second copy in the directory of the set.
    pub fn copy_name(&self) -> String {
        format!("{}-copy.knarr", self.name.strip_suffix(".knarr").unwrap_or(&self.name))
    }
}

/// Where a frame lies and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrameEntry {
    pub(crate) store: usize,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) class: usize,
    /// Bytes that lanes take turns in; 0 if there is one lane.
    pub(crate) block: u64,
    /// Number of pieces of each lane.
    pub(crate) lanes: Vec<usize>,
    pub(crate) pieces: Vec<StoredPiece>,
}

/// A piece in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredPiece {
    pub(crate) length: u64,
    /// There for pieces of [`HASHED`] bytes and more.
    pub(crate) hash: Option<PieceHash>,
    /// Rank and number of the piece in its file, of every piece with these bytes. None where a set uses other pieces
    /// of the frame only.
    pub(crate) places: Vec<(usize, usize)>,
}

impl FrameEntry {
    /// True if a file of the set has a piece in it.
    pub(crate) fn is_used(&self) -> bool {
        self.pieces.iter().any(|piece| !piece.places.is_empty())
    }

    /// Bytes of each lane, and of all together.
    pub(crate) fn lane_lengths(&self) -> Option<Vec<usize>> {
        let mut pieces = self.pieces.iter();
        let lengths: Option<Vec<usize>> = self
            .lanes
            .iter()
            .map(|&count| {
                pieces
                    .by_ref()
                    .take(count)
                    .try_fold(0usize, |sum, piece| sum.checked_add(usize::try_from(piece.length).ok()?))
            })
            .collect();
        lengths.filter(|_| pieces.next().is_none())
    }
}

impl Manifest {
    /// Bytes of all ranks' files.
    pub fn raw_bytes(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.layout.file_length()).sum()
    }

    /// Bytes of the pieces of all ranks: of their files' unfiltered forms.
    pub(crate) fn unfiltered_bytes(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.layout.layout.length).sum()
    }

    /// The version that is needed to say all of it.
    fn version(&self) -> u8 {
        let is_plain = |(place, rank): (usize, &RankFile)| rank.attributes.is_none() && rank.number == place as u64;
        let has_more = !self.tree.is_empty() || self.stores.iter().any(|store| store.has_copy);
        if has_more || !self.ranks.iter().enumerate().all(is_plain) {
            TREE
        } else if self.ranks.iter().any(|rank| !rank.layout.recipe.is_empty()) {
            UNFILTERED
        } else {
            1
        }
    }

    /// The bytes of the file `manifest.knarr`.
    ///
    /// # Errors
    /// `Internal` if the summary cannot be written; what the codec reports.
    pub fn write(&self, codecs: &CodecList) -> Result<Vec<u8>> {
        let body = self.body()?;
        let (version, body) = body.split_first().ok_or_else(|| Error::internal("a manifest without a version"))?;
        let spec = ArraySpec::new(DType::U8, [body.len()]);
        let chain = Chain::prepare(codecs, &"brotli:5".parse()?, &spec)?;
        let (mut payload, mut framed) = (Vec::new(), Vec::new());
        chain.encode(body, &mut Scratch::default(), &mut payload)?;
        frame::write(&chain, &payload, &mut framed)?;
        Ok([&MAGIC[..], &[*version], &framed].concat())
    }

    /// The version, and what the frame of the file holds.
    ///
    /// # Errors
    /// `Internal` if the summary cannot be written.
    pub fn body(&self) -> Result<Vec<u8>> {
        let mut out = vec![self.version()];
        let summary = serde_json::to_vec(&self.summary).map_err(|error| Error::internal(error.to_string()))?;
        put_bytes(&mut out, &summary);
        let mut layouts: Vec<&Arc<RankLayout>> = Vec::new();
        let mut numbers = Vec::with_capacity(self.ranks.len());
        let mut known = std::collections::HashMap::new();
        for rank in &self.ranks {
            let number = *known.entry(Arc::as_ptr(&rank.layout)).or_insert_with(|| {
                layouts.push(&rank.layout);
                layouts.len() - 1
            });
            numbers.push(number as u64);
        }
        put_layouts(&mut out, &layouts)?;
        if self.version() >= UNFILTERED {
            put_recipes(&mut out, &layouts)?;
        }
        put_column(&mut out, &numbers);
        put_column(&mut out, &self.ranks.iter().map(|rank| rank.group as u64).collect::<Vec<_>>());
        for rank in &self.ranks {
            put_bytes(&mut out, &rank.name);
            out.extend_from_slice(&rank.hash);
        }
        if self.version() >= TREE {
            put_attributes(&mut out, &self.ranks);
            self.tree.write(&mut out);
        }
        put_number(&mut out, self.stores.len() as u64);
        for store in &self.stores {
            put_bytes(&mut out, store.name.as_bytes());
            put_number(&mut out, store.length);
            out.extend_from_slice(&store.id);
        }
        put_number(&mut out, self.classes.len() as u64);
        self.classes.iter().for_each(|class| put_bytes(&mut out, class.as_bytes()));
        self.put_frames(&mut out);
        if self.stores.iter().any(|store| store.has_copy) {
            put_column(&mut out, &self.stores.iter().map(|store| u64::from(store.has_copy)).collect::<Vec<_>>());
        }
        Ok(out)
    }

    fn put_frames(&self, out: &mut Vec<u8>) {
        let mut column = |of: &dyn Fn(&FrameEntry) -> u64| {
            put_column(out, &self.frames.iter().map(of).collect::<Vec<_>>());
        };
        column(&|frame| frame.store as u64);
        column(&|frame| frame.offset);
        column(&|frame| frame.length);
        column(&|frame| frame.class as u64);
        column(&|frame| frame.block);
        column(&|frame| frame.lanes.len() as u64);
        let lanes: Vec<u64> = self.frames.iter().flat_map(|frame| &frame.lanes).map(|&count| count as u64).collect();
        put_column(out, &lanes);
        let pieces = || self.frames.iter().flat_map(|frame| &frame.pieces);
        put_column(out, &pieces().map(|piece| piece.places.len() as u64).collect::<Vec<_>>());
        let places = || pieces().flat_map(|piece| &piece.places);
        put_column(out, &places().map(|&(rank, _)| rank as u64).collect::<Vec<_>>());
        put_column(out, &places().map(|&(_, piece)| piece as u64).collect::<Vec<_>>());
        let unused = pieces().filter(|piece| piece.places.is_empty());
        put_column(out, &unused.map(|piece| piece.length).collect::<Vec<_>>());
        pieces().filter_map(|piece| piece.hash).for_each(|hash| out.extend_from_slice(&hash));
    }

    /// Reads the file `manifest.knarr`, which is hostile.
    ///
    /// # Errors
    /// `Unsupported` if a later version wrote it, `Corrupt` for everything that does not describe whole files.
    pub(crate) fn read(codecs: &CodecList, bytes: &[u8]) -> Result<Self> {
        let Some((head, framed)) = bytes.split_at_checked(MAGIC.len() + 1) else {
            return Err(Error::corrupt("the manifest ends early"));
        };
        let version = match head.split_last() {
            Some((&version @ 1..=VERSION, magic)) if magic == MAGIC => version,
            Some((&version, magic)) if magic == MAGIC => {
                return Err(Error::unsupported(format!(
                    "set format version {version}, this Knarr reads 1 to {VERSION}"
                ))
                .hint("use the version of Knarr that wrote the set, or a newer one"));
            }
            _ => return Err(Error::corrupt("not the manifest of a checkpoint set")),
        };
        let framed = frame::read(framed)?;
        let length = framed.array.byte_len();
        if length > LARGEST || length / MOST_GROWTH > framed.payload.len() {
            return Err(Error::corrupt(format!("the manifest claims to be {length} bytes long")));
        }
        let mut body = Vec::new();
        framed.decode(codecs, &mut Scratch::default(), &mut body)?;
        Self::read_version(version, &body)
    }

    /// Reads what [`Manifest::body`] made, which is hostile.
    ///
    /// # Errors
    /// `Corrupt` for everything that does not describe whole files.
    pub fn read_body(body: &[u8]) -> Result<Self> {
        match body.split_first() {
            Some((&version @ 1..=VERSION, body)) => Self::read_version(version, body),
            _ => Err(Error::corrupt("manifest of an impossible version")),
        }
    }

    fn read_version(version: u8, body: &[u8]) -> Result<Self> {
        let mut reader = Reader::new("manifest", body);
        let manifest = Self::parse(version, &mut reader)?;
        if reader.left() > 0 {
            return Err(Error::corrupt("bytes follow the manifest"));
        }
        manifest.check()?;
        // There is one way to write a manifest.
        if manifest.version() != version {
            return Err(Error::corrupt("a manifest of a later version than it needs"));
        }
        Ok(manifest)
    }

    fn parse(version: u8, reader: &mut Reader<'_>) -> Result<Self> {
        let summary: Summary = serde_json::from_slice(reader.bytes()?).map_err(|_| reader.impossible("summary"))?;
        let layouts = read_layouts(reader)?;
        let recipes = match version {
            UNFILTERED.. => read_recipes(reader, layouts.len())?,
            _ => vec![Recipe::default(); layouts.len()],
        };
        let layouts: Vec<Arc<RankLayout>> = layouts
            .into_iter()
            .zip(recipes)
            .map(|(layout, recipe)| RankLayout::read(layout, recipe, reader.left()).map(Arc::new))
            .collect::<Result<_>>()?;
        let (numbers, groups) = (reader.column()?, reader.column()?);
        let mut ranks = Vec::new();
        for (number, group) in numbers.iter().zip(&groups) {
            let layout = usize::try_from(*number).ok().and_then(|number| layouts.get(number));
            let layout = Arc::clone(layout.ok_or_else(|| reader.impossible("layout number"))?);
            let group = usize::try_from(*group).map_err(|_| reader.impossible("group"))?;
            let (name, hash, number) = (reader.bytes()?.to_vec(), reader.array()?, ranks.len() as u64);
            ranks.push(RankFile { name, number, hash, group, layout, attributes: None });
        }
        let mut tree = Tree::default();
        if version >= TREE {
            read_attributes(reader, &mut ranks)?;
            tree = Tree::read(reader)?;
        }
        let mut stores = Vec::new();
        for _ in 0..reader.number()? {
            let name = str::from_utf8(reader.bytes()?).map_err(|_| reader.impossible("name"))?.to_owned();
            stores.push(Store { name, length: reader.number()?, id: reader.array()?, has_copy: false });
        }
        let mut classes = Vec::new();
        for _ in 0..reader.number()? {
            classes.push(str::from_utf8(reader.bytes()?).map_err(|_| reader.impossible("class"))?.to_owned());
        }
        let frames = read_frames(reader, &ranks)?;
        if version >= TREE && reader.left() > 0 {
            let copies = reader.column()?;
            // A set without copies has nothing here.
            if copies.len() != stores.len() || !copies.contains(&1) || copies.iter().any(|copies| *copies > 1) {
                return Err(reader.impossible("number of copies"));
            }
            stores.iter_mut().zip(copies).for_each(|(store, copies)| store.has_copy = copies == 1);
        }
        Ok(Self { summary, ranks, tree, stores, classes, frames })
    }

    /// Checks everything that restoring relies on: safe names, and every piece of every file exactly once.
    fn check(&self) -> Result<()> {
        let mut numbers = std::collections::HashSet::new();
        for rank in &self.ranks {
            names::check(&rank.name)?;
            if !numbers.insert(rank.number) {
                return Err(Error::corrupt(format!("there are two files of rank {}", rank.number)));
            }
        }
        self.tree.check(self.ranks.iter().map(|rank| rank.name.as_slice()))?;
        for store in &self.stores {
            names::check(store.name.as_bytes())?;
            if store.name.contains('/') {
                return Err(Error::corrupt(format!("the store '{}' lies outside the set", store.name)));
            }
            let copy = store.copy_name();
            if store.has_copy && self.stores.iter().any(|other| other.name == copy) {
                return Err(Error::corrupt(format!("the store '{copy}' is the copy of another one")));
            }
        }
        let mut found: Vec<Vec<bool>> = self.ranks.iter().map(|rank| vec![false; rank.layout.pieces.len()]).collect();
        for frame in &self.frames {
            let store = self.stores.get(frame.store).ok_or_else(|| Error::corrupt("a frame in no store"))?;
            if frame.offset.checked_add(frame.length).is_none_or(|end| end > store.length) {
                return Err(Error::corrupt(format!("a frame leaves the store '{}'", store.name)));
            }
            if frame.class >= self.classes.len() || frame.lane_lengths().is_none() {
                return Err(Error::corrupt("a frame of no class, or of other pieces than its lanes"));
            }
            for (rank, number) in frame.pieces.iter().flat_map(|piece| &piece.places) {
                match found.get_mut(*rank).and_then(|pieces| pieces.get_mut(*number)) {
                    Some(here) if !*here => *here = true,
                    _ => return Err(Error::corrupt("a piece of a file is stored twice")),
                }
            }
        }
        match found.iter().position(|pieces| pieces.contains(&false)) {
            Some(rank) => Err(Error::corrupt(format!("a piece of rank {rank} is stored nowhere"))),
            None => Ok(()),
        }
    }
}

fn read_frames(reader: &mut Reader<'_>, ranks: &[RankFile]) -> Result<Vec<FrameEntry>> {
    let mut columns = [const { None }; 11];
    for column in &mut columns {
        *column = Some(Column::read(reader)?);
    }
    let [
        Some(stores),
        Some(mut offset),
        Some(mut length),
        Some(mut class),
        Some(mut block),
        Some(mut lane_counts),
        Some(mut lanes),
        Some(mut place_counts),
        Some(mut rank),
        Some(mut number),
        Some(mut unused),
    ] = columns
    else {
        return Err(Error::internal("columns of a manifest"));
    };
    let mut frames = Vec::new();
    for store in stores.0 {
        let lanes: Vec<usize> = lanes
            .several(&mut lane_counts)?
            .into_iter()
            .map(|count| usize::try_from(count).map_err(|_| reader.impossible("lane")))
            .collect::<Result<_>>()?;
        let mut frame = FrameEntry {
            store: usize::try_from(store).map_err(|_| reader.impossible("store"))?,
            offset: offset.next()?,
            length: length.next()?,
            class: class.index()?,
            block: block.next()?,
            lanes,
            pieces: Vec::new(),
        };
        let count = frame.lanes.iter().try_fold(0usize, |sum, &count| sum.checked_add(count));
        for _ in 0..count.ok_or_else(|| reader.impossible("lane"))? {
            let mut places = Vec::new();
            for _ in 0..place_counts.next()? {
                places.push((rank.index()?, number.index()?));
            }
            let lengths = places.iter().map(|&(rank, number)| Some(ranks.get(rank)?.layout.pieces.get(number)?.length));
            let lengths: Option<Vec<u64>> = lengths.collect();
            let length = match lengths.ok_or_else(|| reader.impossible("place"))?.as_slice() {
                [] => unused.next()?,
                [first, others @ ..] if others.iter().all(|other| other == first) => *first,
                _ => return Err(reader.impossible("place")),
            };
            frame.pieces.push(StoredPiece { length, hash: None, places });
        }
        frames.push(frame);
    }
    for piece in frames.iter_mut().flat_map(|frame| &mut frame.pieces).filter(|piece| piece.length >= HASHED) {
        piece.hash = Some(reader.array()?);
    }
    Ok(frames)
}
