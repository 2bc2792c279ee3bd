//! One object of an array: its chunks, encoded anew where the part touches them.

use knarr_array::error::{Error, Result};
use knarr_array::model::Variable;
use knarr_array::quality::Observed;
use knarr_array::region::{Placed, Region, chunk_count, chunk_position, chunk_region, copy_region, fill, pad_chunk};
use knarr_flow::pipeline::{Buffers, ChunkEncoder};
use knarr_flow::store::{Source, Values};
use knarr_formats::zarr::{Recode, ZarrSource};

/// An array and the values for a part of it.
pub(super) struct Array<'a> {
    pub(super) source: &'a ZarrSource,
    /// Number of the array among the variables of `source`.
    pub(super) index: usize,
    /// As it is: its shape is that from before.
    pub(super) variable: &'a Variable,
    pub(super) recode: Recode,
    /// Shape that the array will have.
    pub(super) shape: &'a [u64],
    pub(super) region: &'a Region,
    pub(super) values: &'a dyn Values,
    /// Number of the array for `values`.
    pub(super) number: usize,
    pub(super) encoder: ChunkEncoder,
    /// The same chain without rounding, where `encoder` rounds.
    pub(super) exact: Option<ChunkEncoder>,
}

/// An object that is to be made.
pub(super) struct Object {
    /// Its elements, clipped to the array.
    region: Region,
    /// Those of them that are in the part.
    wanted: Region,
    position: Vec<u64>,
}

impl Object {
    /// True if the part has all elements of the object: nothing of what is there is needed.
    pub(super) fn is_whole(&self) -> bool {
        self.wanted == self.region
    }

    /// Its elements in the part.
    pub(super) fn wanted(&self) -> &Region {
        &self.wanted
    }

    /// How many those are.
    pub(super) fn elements(&self) -> u64 {
        self.wanted.volume().unwrap_or(u64::MAX)
    }
}

impl Array<'_> {
    /// The object at a position in the grid of objects.
    pub(super) fn object(&self, position: &[u64]) -> Result<Object> {
        let region = chunk_region(self.shape, &self.recode.object_shape(), position);
        let wanted = region.intersection(self.region).ok_or_else(|| Error::internal("an object beside the part"))?;
        Ok(Object { region, wanted, position: position.to_vec() })
    }

    pub(super) fn key(&self, object: &Object) -> Result<String> {
        self.source.object_key(self.index, &object.position)
    }

    /// The values of a region of the array, which lies in the part.
    pub(super) fn read(&self, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let within = Region::new(region.start_in(self.region), region.count.clone());
        self.values.read(self.number, &within, &self.variable.padding_bytes(), out)
    }

    /// The bytes of the object, and what was observed of rounding. `given` are the values for its part, if they were read
    /// before; of an object that is not whole what is there is read now.
    pub(super) fn encoded(&self, object: &Object, given: Option<&[u8]>) -> Result<(Vec<u8>, Observed)> {
        let per_object = &self.recode.per_object;
        let (mut buffers, mut observed) = (Buffers::default(), Observed::default());
        let mut chunks = Vec::new();
        let unit = vec![1; per_object.len()];
        for slot in 0..chunk_count(per_object, &unit) {
            let within = chunk_position(per_object, &unit, slot);
            let position: Vec<u64> =
                object.position.iter().zip(per_object).zip(&within).map(|((at, n), within)| at * n + within).collect();
            chunks.push(self.chunk(object, &position, given, &mut buffers, &mut observed)?);
        }
        Ok((self.recode.object(chunks), observed))
    }

    /// One chunk of the object; `None` if there is and was nothing.
    fn chunk(
        &self,
        object: &Object,
        position: &[u64],
        given: Option<&[u8]>,
        buffers: &mut Buffers,
        observed: &mut Observed,
    ) -> Result<Option<Vec<u8>>> {
        let (chunk, padding) = (&self.recode.chunk, self.variable.padding_bytes());
        let region = chunk_region(self.shape, chunk, position);
        let before = region.intersection(&Region::whole(&self.variable.shape));
        let Some(part) = region.intersection(&object.wanted) else {
            let mut stored = Vec::new();
            let is_stored = before.is_some() && self.source.stored_chunk(self.index, position, &mut stored)?;
            return Ok(is_stored.then_some(stored));
        };
        let mut values = self.new_values(object, &part, given)?;
        if part != region {
            values = self.merged(&region, before.as_ref(), (&part, &values), &padding)?;
        }
        if region.count != *chunk {
            let clipped = std::mem::take(&mut values);
            pad_chunk(&clipped, &region.count, chunk, &padding, &mut values);
        }
        let mut encoded = Vec::new();
        let outcome = self.encoder.encode(&values, buffers, &mut encoded)?;
        *observed = observed.merge(outcome.observed.unwrap_or_default());
        let Some(exact) = self.exact.as_ref().filter(|_| part != region) else { return Ok(Some(encoded)) };
        // What was there was rounded when it was written. It keeps its bits.
        let mut kept = values.clone();
        let place = Placed { shape: chunk, start: &part.start_in(&region) };
        let rounded = self.encoder.read_back(&values, &outcome, buffers);
        copy_region(rounded, place, &mut kept, place, &part.count, padding.len());
        if rounded != kept {
            exact.encode(&kept, buffers, &mut encoded)?;
        }
        Ok(Some(encoded))
    }

    fn new_values(&self, object: &Object, part: &Region, given: Option<&[u8]>) -> Result<Vec<u8>> {
        let mut values = Vec::new();
        let Some(given) = given else {
            self.read(part, &mut values)?;
            return Ok(values);
        };
        let size = self.variable.dtype.size();
        values.resize(bytes_of(part, size)?, 0);
        let from = Placed { shape: &object.wanted.count, start: &part.start_in(&object.wanted) };
        let to = Placed { shape: &part.count, start: &vec![0; part.count.len()] };
        copy_region(given, from, &mut values, to, &part.count, size);
        Ok(values)
    }

    /// The elements of a region: what was there `before` and the new values of a part, padding elsewhere.
    fn merged(
        &self,
        region: &Region,
        before: Option<&Region>,
        (part, values): (&Region, &[u8]),
        padding: &[u8],
    ) -> Result<Vec<u8>> {
        let mut merged = vec![0; bytes_of(region, padding.len())?];
        fill(&mut merged, padding);
        let mut put = |of: &Region, bytes: &[u8]| {
            let from = Placed { shape: &of.count, start: &vec![0; of.count.len()] };
            let to = Placed { shape: &region.count, start: &of.start_in(region) };
            copy_region(bytes, from, &mut merged, to, &of.count, padding.len());
        };
        if let Some(before) = before {
            let mut old = Vec::new();
            self.source.read_region(self.index, before, &mut old)?;
            put(before, &old);
        }
        put(part, values);
        Ok(merged)
    }
}

fn bytes_of(region: &Region, size: usize) -> Result<usize> {
    let elements = region.volume().and_then(|elements| usize::try_from(elements).ok());
    elements
        .and_then(|elements| elements.checked_mul(size))
        .ok_or_else(|| Error::unsupported("a chunk is too large for memory"))
}
