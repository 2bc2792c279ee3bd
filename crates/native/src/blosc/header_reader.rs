//! Reads the big-endian numbers of a header.

use knarr_array::{Error, Result};

/// Reads the big-endian numbers of a header.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(ends_early)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn skip(&mut self, count: usize) -> Result<()> {
        self.0 = self.0.get(count..).ok_or_else(ends_early)?;
        Ok(())
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<usize> {
        self.take().map(|bytes| usize::from(u16::from_be_bytes(bytes)))
    }

    pub(super) fn i32(&mut self) -> Result<usize> {
        self.take().and_then(|bytes| usize::try_from(i32::from_be_bytes(bytes)).map_err(|_| negative()))
    }

    /// A signed 32-bit number behind its tag.
    pub(super) fn tagged_i32(&mut self) -> Result<usize> {
        self.skip(1)?;
        self.i32()
    }

    /// A signed 64-bit number behind its tag.
    pub(super) fn tagged_i64(&mut self) -> Result<usize> {
        self.skip(1)?;
        self.take().and_then(|bytes| usize::try_from(i64::from_be_bytes(bytes)).map_err(|_| negative()))
    }
}

pub(super) fn ends_early() -> Error {
    Error::corrupt("blosc2: the frame ends early")
}

fn negative() -> Error {
    Error::corrupt("blosc2: a size is negative")
}
