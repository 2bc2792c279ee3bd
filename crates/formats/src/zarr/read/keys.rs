//! A store as the `zarrs` crate reads it.

use knarr_array::Error;
use knarr_flow::read_store::{Part, ReadStore};
use std::sync::Arc;
use zarrs::storage::byte_range::{ByteRange, ByteRangeIterator};
use zarrs::storage::{Bytes, MaybeBytes, MaybeBytesIterator, ReadableStorageTraits, StorageError, StoreKey};

/// The objects of a store.
#[derive(Debug)]
pub(in crate::zarr) struct Keys(pub(in crate::zarr) Arc<dyn ReadStore>);

fn failed(error: &Error) -> StorageError {
    StorageError::Other(error.to_string())
}

fn part(range: ByteRange) -> Option<Part> {
    match range {
        ByteRange::FromStart(0, None) => Some(Part::Whole { most: u64::MAX }),
        ByteRange::FromStart(_, None) => None,
        ByteRange::FromStart(offset, Some(length)) => Some(Part::At { offset, length }),
        ByteRange::Suffix(length) => Some(Part::Last { length }),
    }
}

impl Keys {
    fn range(&self, key: &str, range: ByteRange) -> Result<MaybeBytes, StorageError> {
        let mut bytes = Vec::new();
        let part = match part(range) {
            Some(part) => part,
            None => match self.length(key)? {
                Some(held) => Part::At { offset: range.start(held), length: range.length(held) },
                None => return Ok(None),
            },
        };
        let Some(held) = self.0.get(key, part, &mut bytes).map_err(|error| failed(&error))? else { return Ok(None) };
        match part.within(held) {
            Some(_) => Ok(Some(Bytes::from(bytes))),
            None => Err(StorageError::Other(format!("{part:?} is not in the {held} bytes of '{key}'"))),
        }
    }

    fn length(&self, key: &str) -> Result<Option<u64>, StorageError> {
        self.0.get(key, Part::At { offset: 0, length: 0 }, &mut Vec::new()).map_err(|error| failed(&error))
    }
}

impl ReadableStorageTraits for Keys {
    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        byte_ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let ranges: Vec<ByteRange> = byte_ranges.collect();
        let mut found = Vec::with_capacity(ranges.len());
        for range in ranges {
            let Some(bytes) = self.range(key.as_str(), range)? else { return Ok(None) };
            found.push(Ok(bytes));
        }
        Ok(Some(Box::new(found.into_iter())))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        self.length(key.as_str())
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}
