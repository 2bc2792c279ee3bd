//! How the bytes of a file's chunks are made again from their values.
//!
//! A file's *unfiltered form* has the values of some chunks in the place of what HDF5 filters made of them. Sets hold it,
//! where it is there, so that like variables meet whatever filters they went through; the recipe leads back to the file.
//! Pure: what is read and written is elsewhere ([`super::unfiltered`], [`crate::restoring::restore`]).

use std::sync::Arc;

use knarr_array::array::{ArraySpec, DType};
use knarr_array::error::{Error, Result};
use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_codec::chain::{Chain, ChainSpec, Scratch, StepSpec};
use knarr_codec::codec::{CodecList, Stage};

/// Chunks with more bytes of values stay as they are: they are decoded and encoded as a whole.
pub(crate) const LARGEST_CHUNK: u64 = 16 << 20;
/// Copies of a chunk while it is decoded or encoded: stored, values, two of the chain, result.
pub(crate) const COPIES: u64 = 5;
/// HDF5 filters whose results can be made again, with the codecs that write the very bytes that HDF5 does.
const REPEATABLE: [(FilterId, &str); 3] = [(1, "zlib"), (2, "shuffle"), (3, "fletcher32")];

/// A chunk whose values are in the unfiltered form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// First byte of its values in the unfiltered form.
    pub(crate) offset: u64,
    /// Bytes of its values, at most [`LARGEST_CHUNK`].
    pub(crate) length: u64,
    /// First byte in the file.
    pub(crate) stored_offset: u64,
    /// Bytes in the file.
    pub(crate) stored_length: u64,
    /// Filters that its values went through, in their order.
    pub(crate) filters: Arc<[Hdf5Filter]>,
}

/// The chunks that a file and its unfiltered form differ in, in the order of their offsets. A file without any is its
/// own unfiltered form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Recipe(Vec<Chunk>);

/// Where a byte of the unfiltered form comes from.
pub(crate) enum ByteOrigin<'a> {
    /// From the file, as all bytes up to the next chunk.
    File {
        /// Its offset in the file.
        offset: u64,
        /// Where the next chunk begins in the unfiltered form.
        until: u64,
    },
    /// From the values of a chunk, which has this number.
    Values(usize, &'a Chunk),
}

impl Recipe {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.0
    }

    /// Bytes of the longest chunk, stored or as values.
    pub(crate) fn largest(&self) -> u64 {
        self.0.iter().map(|chunk| chunk.length.max(chunk.stored_length)).max().unwrap_or(0)
    }

    /// Ends of the last chunk, in the unfiltered form and in the file.
    fn ends(&self) -> (u64, u64) {
        self.0.last().map_or((0, 0), Chunk::ends)
    }

    /// Adds the next chunk: `length` bytes of values at `offset` of the unfiltered form, which the file has in
    /// `stored_length` bytes.
    ///
    /// # Errors
    /// `Corrupt` if it is empty or too large, or begins before the end of the one before.
    pub(crate) fn push(
        &mut self,
        offset: u64,
        length: u64,
        stored_length: u64,
        filters: Arc<[Hdf5Filter]>,
    ) -> Result<()> {
        let (end, stored_end) = self.ends();
        let gap = offset.checked_sub(end);
        let stored_offset = gap.and_then(|gap| stored_end.checked_add(gap));
        let stored_offset = stored_offset.filter(|at| {
            (1..=LARGEST_CHUNK).contains(&length)
                // No filter makes anything much longer than it was.
                && (1..=2 * LARGEST_CHUNK).contains(&stored_length)
                && at.checked_add(stored_length).is_some()
                && offset.checked_add(length).is_some()
        });
        let Some(stored_offset) = stored_offset else {
            return Err(Error::corrupt(format!("a chunk of {length} bytes at byte {offset} of an unfiltered form")));
        };
        self.0.push(Chunk { offset, length, stored_offset, stored_length, filters });
        Ok(())
    }

    /// Length of the file whose unfiltered form has `length` bytes.
    ///
    /// # Errors
    /// `Corrupt` if chunks lie outside of it.
    pub(crate) fn file_length(&self, length: u64) -> Result<u64> {
        let (end, stored_end) = self.ends();
        let rest = length.checked_sub(end).and_then(|rest| stored_end.checked_add(rest));
        rest.ok_or_else(|| Error::corrupt("chunks beyond the end of an unfiltered form"))
    }

    /// Where the byte at `offset` of the unfiltered form comes from.
    pub(crate) fn place(&self, offset: u64) -> ByteOrigin<'_> {
        let next = self.0.partition_point(|chunk| chunk.offset <= offset);
        let before = next.checked_sub(1).and_then(|number| Some((number, self.0.get(number)?)));
        let (end, stored_end) = match before {
            Some((number, chunk)) if offset - chunk.offset < chunk.length => return ByteOrigin::Values(number, chunk),
            Some((_, chunk)) => chunk.ends(),
            None => (0, 0),
        };
        let until = self.0.get(next).map_or(u64::MAX, |chunk| chunk.offset);
        ByteOrigin::File { offset: (offset - end).saturating_add(stored_end), until }
    }
}

impl Chunk {
    fn ends(&self) -> (u64, u64) {
        (self.offset.saturating_add(self.length), self.stored_offset.saturating_add(self.stored_length))
    }

    /// The values of the chunk, from its bytes in the file.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` if a filter is not known here.
    pub(crate) fn decode(
        &self,
        codecs: &CodecList,
        stored: &[u8],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        chain(codecs, &self.filters, self.length).ok_or_else(unknown)?.decode(stored, scratch, out)
    }

    /// The bytes of the chunk in the file, from its values.
    ///
    /// # Errors
    /// `Unsupported` if a filter is not known here, or its result is not as long as that in the file.
    pub(crate) fn encode(
        &self,
        codecs: &CodecList,
        values: &[u8],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        chain(codecs, &self.filters, self.length).ok_or_else(unknown)?.encode(values, scratch, out)?;
        if out.len() as u64 != self.stored_length {
            return Err(Error::unsupported(format!(
                "a chunk takes {} bytes again, it took {}: zlib writes other bytes than where it was packed",
                out.len(),
                self.stored_length
            ))
            .hint("restore with the build of Knarr that packed the set"));
        }
        Ok(())
    }
}

fn unknown() -> Error {
    Error::unsupported("the HDF5 filters of a chunk are not known here")
        .hint("use a build of Knarr with the codecs that docs/chains.md lists")
}

/// The chain that does what `filters` do, byte for byte, to `length` bytes of values; `None` if there is none.
pub(crate) fn chain(codecs: &CodecList, filters: &[Hdf5Filter], length: u64) -> Option<Chain> {
    let spec = ArraySpec::new(DType::U8, [usize::try_from(length).ok()?]);
    let stage = Stage { spec: spec.clone(), is_array: true };
    let mut steps = ChainSpec::raw();
    for filter in filters {
        let (_, name) = REPEATABLE.iter().find(|(id, _)| *id == filter.id)?;
        // Nobody filters twice alike, and who forges a set shall not have it done a million times.
        if steps.0.iter().any(|step| step.name == *name) {
            return None;
        }
        let options = codecs.named(name).ok()?.from_hdf5(filter, &stage)?;
        steps.0.push(StepSpec { options, ..StepSpec::new(name) });
    }
    Chain::prepare(codecs, &steps, &spec).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(chunks: &[(u64, u64, u64)]) -> Result<Recipe> {
        let mut recipe = Recipe::default();
        for &(offset, length, stored_length) in chunks {
            recipe.push(offset, length, stored_length, Arc::default())?;
        }
        Ok(recipe)
    }

    #[test]
    fn every_byte_has_its_place() {
        // 10 bytes, 100 in 30, none between, 50 in 54, 7 bytes.
        let recipe = recipe(&[(10, 100, 30), (110, 50, 54)]).unwrap();
        assert_eq!(recipe.file_length(167).unwrap(), 101);
        assert!(recipe.file_length(159).is_err());
        let mut covered = Vec::new();
        for at in 0..167 {
            match recipe.place(at) {
                ByteOrigin::File { offset, until } => {
                    covered.push(offset);
                    assert_eq!(until, if at < 10 { 10 } else { u64::MAX });
                }
                ByteOrigin::Values(number, chunk) => {
                    assert_eq!(number, usize::from(at >= 110));
                    assert!((chunk.offset..chunk.offset + chunk.length).contains(&at));
                }
            }
        }
        assert_eq!(covered, (0..10).chain(94..101).collect::<Vec<_>>());
        assert_eq!(recipe.chunks()[1].stored_offset, 40);
        assert_eq!(recipe.largest(), 100);
        assert!(matches!(Recipe::default().place(5), ByteOrigin::File { offset: 5, until: u64::MAX }));
    }

    #[test]
    fn chunks_that_cannot_be_are_refused() {
        let (most, end) = (LARGEST_CHUNK, u64::MAX);
        for bad in [(0, 0, 1), (0, 1, 0), (0, most + 1, 1), (0, 1, 2 * most + 1), (end, 1, 1), (end - 5, 2, 8)] {
            assert!(recipe(&[bad]).is_err(), "{bad:?}");
        }
        assert!(recipe(&[(10, 100, 30), (109, 1, 1)]).is_err());
    }

    #[test]
    fn only_filters_that_do_the_same_each_time_are_known() {
        let codecs = CodecList::pure();
        let filter = |id, cd_values: &[u32]| Hdf5Filter { id, optional: false, cd_values: cd_values.to_vec() };
        let known = |filters: &[Hdf5Filter]| chain(&codecs, filters, 64).is_some();
        assert!(known(&[filter(2, &[8]), filter(3, &[])]) && known(&[filter(3, &[]), filter(2, &[8])]));
        assert!(!known(&[filter(2, &[])]) && !known(&[filter(2, &[8]), filter(2, &[8])]) && !known(&[filter(4, &[])]));
        assert!(!known(&[filter(1, &[4])]), "zlib is not a codec of this crate");
    }
}
