//! Content that was stored already: pieces with equal bytes, in other ranks, other variables and an earlier set.

use std::collections::HashMap;

use crate::disk::manifest::{FrameEntry, HASHED, Manifest, StoredPiece};
use crate::files::piece_hash::PieceHash;
use crate::files::scan::Scanned;

/// Shorter pieces are not looked for: naming the place of a copy takes as much as a compressor needs to say it.
const WORTH_NAMING: u64 = 256;
/// A store of an earlier set is kept for the new set only if at least this part of it is used, so that removing the
/// earlier set frees space. Where only so many sets stay, it is kept for all of them, and each would store its part of it
/// anew: then so many times the part has to be more than all.
const WORTH_KEEPING: f64 = 0.125;

/// Rank in the group, and number of the piece in its file.
type PieceId = (usize, usize);
/// Number of a frame in the earlier set, and for each of its pieces the places.
type EarlierFrame = (usize, Vec<Vec<PieceId>>);

/// Where the content of a group's pieces is stored.
pub(crate) struct Repeats {
    /// Per rank and piece: true for those that this group stores itself.
    kept: Vec<Vec<bool>>,
    /// Per stored piece: others in the group with the same bytes.
    copies: HashMap<PieceId, Vec<PieceId>>,
    /// Frames of the earlier set that are used.
    earlier: Vec<EarlierFrame>,
    /// Bytes of pieces that it holds, and that are stored again for less to be kept.
    apart: u64,
}

/// Content of an earlier set, by hash.
pub(crate) struct Earlier<'a> {
    manifest: &'a Manifest,
    found: HashMap<(PieceHash, u64), (usize, usize)>,
    /// Sets that will stay, if not all do.
    keep: Option<usize>,
}

impl<'a> Earlier<'a> {
    /// Content of the stores that are `linked`: those that the new set can have.
    pub(crate) fn new(manifest: &'a Manifest, linked: &[bool], keep: Option<usize>) -> Self {
        let mut found = HashMap::new();
        let is_linked = |frame: &FrameEntry| linked.get(frame.store).copied().unwrap_or(false);
        for (number, frame) in manifest.frames.iter().enumerate().filter(|(_, frame)| is_linked(frame)) {
            for (place, piece) in frame.pieces.iter().enumerate() {
                if let Some(hash) = piece.hash {
                    found.entry((hash, piece.length)).or_insert((number, place));
                }
            }
        }
        Self { manifest, found, keep }
    }

    /// Bytes of each of its stores that would be used, by the number of the store: of frames of which a piece is used, and
    /// of their parts that the used pieces make up.
    fn used(&self, frames: &[EarlierFrame]) -> HashMap<usize, (f64, f64)> {
        let mut used = HashMap::new();
        for (number, places) in frames {
            let Some(frame) = self.manifest.frames.get(*number) else { continue };
            let of = frame.pieces.iter().zip(places).filter(|(_, places)| !places.is_empty());
            let of: u64 = of.map(|(piece, _)| piece.length).sum();
            let all: u64 = frame.pieces.iter().map(|piece| piece.length).sum();
            let (frames, pieces) = used.entry(frame.store).or_insert((0.0, 0.0));
            #[expect(clippy::cast_precision_loss, reason = "lengths in memory")]
            let (length, share) = (frame.length as f64, of as f64 / all.max(1) as f64);
            *frames += length;
            *pieces += length * share;
        }
        used
    }
}

impl Repeats {
    /// Looks for the content of `files`, in the earlier set first.
    pub(crate) fn find(files: &[Scanned], earlier: Option<&Earlier<'_>>) -> Self {
        let mut repeats = Self::look(files, earlier);
        if let Some(earlier) = earlier {
            let used = earlier.used(&repeats.earlier);
            let is_worth = |store: usize| {
                let length = earlier.manifest.stores.get(store).map_or(u64::MAX, |store| store.length);
                let (frames, pieces) = used.get(&store).copied().unwrap_or_default();
                #[expect(clippy::cast_precision_loss, reason = "a share, not a size")]
                let share = |used: f64| used / length.max(1) as f64;
                #[expect(clippy::cast_precision_loss, reason = "a count of sets")]
                let gains = earlier.keep.is_none_or(|keep| share(pieces) * keep as f64 >= 1.0);
                share(frames) >= WORTH_KEEPING && gains
            };
            let store_of = |number: usize| earlier.manifest.frames.get(number).map(|frame| frame.store);
            if repeats.earlier.iter().any(|(number, _)| !store_of(*number).is_some_and(is_worth)) {
                let all = repeats.reused(files);
                let worth = Earlier {
                    manifest: earlier.manifest,
                    keep: earlier.keep,
                    found: earlier
                        .found
                        .iter()
                        .filter(|(_, (number, _))| store_of(*number).is_some_and(is_worth))
                        .map(|(key, place)| (*key, *place))
                        .collect(),
                };
                repeats = Self::look(files, Some(&worth));
                repeats.apart = if earlier.keep.is_some() { all.saturating_sub(repeats.reused(files)) } else { 0 };
            }
        }
        repeats
    }

    fn look(files: &[Scanned], earlier: Option<&Earlier<'_>>) -> Self {
        let mut known: HashMap<(PieceHash, u64), (usize, usize)> = HashMap::new();
        let mut kept = Vec::with_capacity(files.len());
        let mut copies: HashMap<PieceId, Vec<PieceId>> = HashMap::new();
        let mut from_earlier: HashMap<usize, Vec<Vec<PieceId>>> = HashMap::new();
        for (rank, file) in files.iter().enumerate() {
            let mut mine = vec![true; file.pieces.len()];
            let pieces = file.pieces.iter().zip(&file.hashes).zip(&mut mine).enumerate();
            for (number, ((piece, hash), is_kept)) in pieces.filter(|(_, ((piece, _), _))| piece.length >= WORTH_NAMING)
            {
                let content = (*hash, piece.length);
                if let Some((earlier, &(frame, place))) = earlier.and_then(|e| Some((e, e.found.get(&content)?))) {
                    let count = earlier.manifest.frames.get(frame).map_or(0, |frame| frame.pieces.len());
                    let places = from_earlier.entry(frame).or_insert_with(|| vec![Vec::new(); count]);
                    if let Some(places) = places.get_mut(place) {
                        places.push((rank, number));
                        *is_kept = false;
                    }
                } else if let Some(&first) = known.get(&content) {
                    copies.entry(first).or_default().push((rank, number));
                    *is_kept = false;
                } else {
                    known.insert(content, (rank, number));
                }
            }
            kept.push(mine);
        }
        let mut earlier: Vec<_> = from_earlier.into_iter().collect();
        earlier.sort_unstable_by_key(|(number, _)| *number);
        Self { kept, copies, earlier, apart: 0 }
    }

    /// Whether the group stores this piece itself.
    pub(crate) fn is_kept(&self, rank: usize, number: usize) -> bool {
        self.kept.get(rank).and_then(|pieces| pieces.get(number)).copied().unwrap_or(false)
    }

    /// A stored piece with all its places.
    pub(crate) fn stored(&self, files: &[Scanned], place: PieceId) -> Option<StoredPiece> {
        let file = files.get(place.0)?;
        let length = file.pieces.get(place.1)?.length;
        let hash = (length >= HASHED).then(|| file.hashes.get(place.1).copied()).flatten();
        let copies = self.copies.get(&place).map(Vec::as_slice).unwrap_or_default();
        Some(StoredPiece { length, hash, places: [&[place], copies].concat() })
    }

    /// Entries for the frames of the earlier set that are used, with the numbers of its stores.
    pub(crate) fn earlier_frames(&self, earlier: &Manifest) -> Vec<FrameEntry> {
        let entry = |(number, places): &EarlierFrame| {
            let mut frame = earlier.frames.get(*number)?.clone();
            for (piece, places) in frame.pieces.iter_mut().zip(places) {
                piece.places.clone_from(places);
            }
            Some(frame)
        };
        self.earlier.iter().filter_map(entry).collect()
    }

    /// Bytes of pieces that repeat others of the group.
    pub(crate) fn repeated(&self, files: &[Scanned]) -> u64 {
        self.copies.values().flatten().map(|place| length(files, *place)).sum()
    }

    /// Bytes of pieces that are in the earlier set.
    pub(crate) fn reused(&self, files: &[Scanned]) -> u64 {
        let places = self.earlier.iter().flat_map(|(_, places)| places.iter().flatten());
        places.map(|place| length(files, *place)).sum()
    }

    /// Bytes of pieces that the earlier set holds, and that are stored again for less to be kept.
    pub(crate) fn apart(&self) -> u64 {
        self.apart
    }
}

fn length(files: &[Scanned], (rank, number): PieceId) -> u64 {
    files.get(rank).and_then(|file| file.pieces.get(number)).map_or(0, |piece| piece.length)
}
