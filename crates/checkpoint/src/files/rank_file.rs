//! The file of one rank, as a manifest knows it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::files::attributes::Attributes;
use crate::files::layout::FileLayout;
use crate::files::pieces::{Piece, cut};
use crate::files::recipe::{Chunk, Recipe};
use knarr_array::error::{Error, Result};
use knarr_array::wire::{Reader, put_column};

/// The file of one rank.
#[derive(Debug, Clone, PartialEq)]
pub struct RankFile {
    /// Path below the directory it came from; bytes, as systems name files.
    pub name: Vec<u8>,
    /// Number of the rank, as the program that wrote the file counts: what people call it. Its place in the set where
    /// names tell no numbers.
    pub number: u64,
    /// Group of ranks that share a file of frames.
    pub group: usize,
    /// BLAKE3 of the file.
    pub hash: [u8; 32],
    /// What the file was like, if the set knows.
    pub attributes: Option<Attributes>,
    /// Where its variables lie. Ranks with equal layouts share one.
    pub layout: Arc<RankLayout>,
}

/// The layout of a file's unfiltered form, which is the file itself if no chunk of it was decoded, and the pieces it is
/// cut into.
#[derive(Debug, PartialEq)]
pub struct RankLayout {
    /// Where the variables lie in the unfiltered form.
    pub layout: FileLayout,
    /// How the file is made from it.
    pub(crate) recipe: Recipe,
    /// The pieces, in the order of their offsets.
    pub(crate) pieces: Vec<Piece>,
}

impl RankLayout {
    /// # Errors
    /// What [`cut`] reports; `Corrupt` if the recipe is not one of this layout.
    pub(crate) fn read(layout: FileLayout, recipe: Recipe, most: usize) -> Result<Self> {
        recipe.file_length(layout.length)?;
        let pieces = cut(&layout, most)?;
        // Who restores puts the values of a chunk together from whole pieces.
        let ends = |chunk: &Chunk| [chunk.offset, chunk.offset.saturating_add(chunk.length)];
        let is_cut = |&at: &u64| at == layout.length || pieces.binary_search_by_key(&at, |piece| piece.offset).is_ok();
        if !recipe.chunks().iter().flat_map(ends).all(|at| is_cut(&at)) {
            return Err(Error::corrupt("a chunk that is no whole pieces"));
        }
        Ok(Self { layout, recipe, pieces })
    }

    /// Bytes of the file.
    pub fn file_length(&self) -> u64 {
        self.recipe.file_length(self.layout.length).unwrap_or(self.layout.length)
    }

    /// Paths of the variables with chunks that the set holds as their values.
    pub(crate) fn unfiltered_variables(&self) -> Vec<String> {
        let number = |chunk: &Chunk| self.pieces.partition_point(|piece| piece.offset < chunk.offset);
        let pieces = self.recipe.chunks().iter().filter_map(|chunk| self.pieces.get(number(chunk)));
        let numbers: BTreeSet<usize> = pieces.filter_map(|piece| piece.variable).collect();
        numbers.into_iter().filter_map(|number| Some(self.layout.variables.get(number)?.path.clone())).collect()
    }

    /// Chunks that the set holds as their values, and bytes that they have in the file.
    pub fn unfiltered(&self) -> (usize, u64) {
        let chunks = self.recipe.chunks();
        (chunks.len(), chunks.iter().map(|chunk| chunk.stored_length).sum())
    }
}

/// Appends what the ranks' files were like.
pub(crate) fn put_attributes(out: &mut Vec<u8>, ranks: &[RankFile]) {
    let mut column = |of: &dyn Fn(&RankFile) -> u64| put_column(out, &ranks.iter().map(of).collect::<Vec<_>>());
    column(&|rank| rank.number);
    // 0 is for a file of which nothing is known.
    column(&|rank| rank.attributes.map_or(0, |known| u64::from(known.mode) + 1));
    column(&|rank| rank.attributes.map_or(0, |known| known.modified.0.cast_unsigned()));
    column(&|rank| rank.attributes.map_or(0, |known| u64::from(known.modified.1)));
}

/// Reads what [`put_attributes`] wrote, which is hostile.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn read_attributes(reader: &mut Reader<'_>, ranks: &mut [RankFile]) -> Result<()> {
    let [numbers, modes, seconds, nanoseconds] =
        [reader.column()?, reader.column()?, reader.column()?, reader.column()?];
    if [&numbers, &modes, &seconds, &nanoseconds].iter().any(|column| column.len() != ranks.len()) {
        return Err(reader.impossible("count of files"));
    }
    let all = numbers.into_iter().zip(modes).zip(seconds.into_iter().zip(nanoseconds));
    for (rank, ((number, mode), (seconds, nanoseconds))) in ranks.iter_mut().zip(all) {
        rank.number = number;
        rank.attributes = match (mode.checked_sub(1), nanoseconds) {
            (None, 0) if seconds == 0 => None,
            (Some(mode @ 0..=0o777), 0..1_000_000_000) => {
                let mode = u32::try_from(mode).map_err(|_| reader.impossible("mode"))?;
                let nanoseconds = u32::try_from(nanoseconds).map_err(|_| reader.impossible("time"))?;
                Some(Attributes { mode, modified: (seconds.cast_signed(), nanoseconds) })
            }
            _ => return Err(reader.impossible("mode or time of a file")),
        };
    }
    Ok(())
}
