//! Bits in DEFLATE's order: least significant first (RFC 1951, 3.1.1).
#![expect(clippy::cast_possible_truncation, reason = "a remainder of 8")]

/// Appends bits to a byte vector that it grows ahead of them.
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Whole bytes written so far.
    at: usize,
    pending: u64,
    /// Bits in `pending`, fewer than 8 between calls.
    filled: u32,
}

impl BitWriter {
    /// Goes on after `bytes`.
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let at = bytes.len();
        Self { bytes, at, pending: 0, filled: 0 }
    }

    /// Makes room for `bits` more, so that [`Self::put`] never grows.
    pub(super) fn reserve(&mut self, bits: usize) {
        let needed = self.at + bits.div_ceil(8) + 16;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
    }

    /// Appends the lowest `count` bits of `bits`, the others being 0; at most 56, within what was reserved.
    #[inline]
    pub(super) fn put(&mut self, bits: u64, count: u32) {
        self.pending |= bits << self.filled;
        self.filled += count;
        if let Some(word) = self.bytes.get_mut(self.at..self.at + 8) {
            word.copy_from_slice(&self.pending.to_le_bytes());
        }
        self.at += (self.filled >> 3) as usize;
        self.pending >>= self.filled & !7;
        self.filled &= 7;
    }

    /// Appends a stored block (RFC 1951, 3.2.4) that is not the last; at most 65,535 bytes.
    pub(super) fn stored(&mut self, block: &[u8]) {
        self.reserve(8 * block.len() + 64);
        self.put(0, 3);
        self.put(0, (8 - self.filled) & 7);
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        self.put(u64::from(length) | u64::from(!length) << 16, 32);
        self.bytes.truncate(self.at);
        self.bytes.extend_from_slice(block);
        self.at = self.bytes.len();
    }

    /// Ends on a byte, by an empty stored block where it is needed.
    pub(super) fn align(&mut self) {
        if self.filled > 0 {
            self.stored(&[]);
        }
    }

    /// Appends what `write` writes into a space of `most` bytes; it returns the bits it wrote. Call [`Self::align`]
    /// before.
    pub(super) fn append<E>(
        &mut self,
        most: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        self.bytes.resize(self.at + most, 0);
        let written = write(self.bytes.get_mut(self.at..).unwrap_or_default())?;
        self.at += written / 8;
        self.filled = (written % 8) as u32;
        let last = self.bytes.get(self.at).copied().unwrap_or(0);
        self.pending = u64::from(last) & ((1 << self.filled) - 1);
        Ok(())
    }

    /// Appends the last block, an empty one of the fixed codes (RFC 1951, 3.2.6).
    pub(super) fn last_block(&mut self) {
        self.reserve(10);
        self.put(0b011, 10);
    }

    /// The bytes, the last one padded with zeros.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.reserve(8);
        let padding = (8 - self.filled) & 7;
        self.put(0, padding);
        self.bytes.truncate(self.at);
        self.bytes
    }
}
