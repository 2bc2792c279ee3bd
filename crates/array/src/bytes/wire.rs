//! Numbers as Knarr's own formats hold them: LEB128, and fixed-size ones little-endian. Bytes are hostile.

use crate::error::{Error, Result};

/// Appends a number: seven bits a byte, the low ones first.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(0x80 | number.to_le_bytes()[0]);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Appends the length of `bytes` and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends how many numbers there are and the difference of each to the one before, which is small or repeats where
/// they are regular.
pub fn put_column(out: &mut Vec<u8>, numbers: &[u64]) {
    put_number(out, numbers.len() as u64);
    let mut before = 0u64;
    for &number in numbers {
        let difference = number.wrapping_sub(before).cast_signed();
        put_number(out, (difference << 1 ^ difference >> 63).cast_unsigned());
        before = number;
    }
}

/// What is left of bytes that are read.
pub struct Reader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// All of `bytes`, which errors call `what`.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, rest: bytes }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next bytes.
    ///
    /// # Errors
    /// `Corrupt` if they end early.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.early())?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next bytes, of a fixed number.
    ///
    /// # Errors
    /// `Corrupt` if they end early.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        taken.first_chunk().copied().ok_or_else(|| self.early())
    }

    /// The next byte.
    ///
    /// # Errors
    /// `Corrupt` if they end early.
    pub fn byte(&mut self) -> Result<u8> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// What [`put_number`] wrote.
    ///
    /// # Errors
    /// `Corrupt` if they end early, or no writer would have written them.
    pub fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                return Err(self.impossible("number"));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.impossible("number"))
    }

    /// What [`put_bytes`] wrote.
    ///
    /// # Errors
    /// `Corrupt` if they end early, or no writer would have written them.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = usize::try_from(self.number()?).map_err(|_| self.impossible("length"))?;
        self.take(len)
    }

    /// What [`put_column`] wrote.
    ///
    /// # Errors
    /// `Corrupt` if they end early, or no writer would have written them.
    pub fn column(&mut self) -> Result<Vec<u64>> {
        // Every number takes a byte at least, so a count cannot claim more memory than there is input.
        let count = usize::try_from(self.number()?).ok().filter(|&count| count <= self.left());
        let count = count.ok_or_else(|| self.impossible("count"))?;
        let mut before = 0u64;
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            let coded = self.number()?;
            let difference = (coded >> 1) ^ (coded & 1).wrapping_neg();
            before = before.wrapping_add(difference);
            numbers.push(before);
        }
        Ok(numbers)
    }

    /// A field that no writer would have written.
    pub fn impossible(&self, field: &str) -> Error {
        Error::corrupt(format!("{} with an impossible {field}", self.what))
    }

    fn early(&self) -> Error {
        Error::corrupt(format!("{} ends early", self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_any_numbers_come_back() {
        for numbers in [vec![], vec![0], vec![5, 5, 5], vec![u64::MAX, 0, 1 << 63, 7, u64::MAX], (0..300).collect()] {
            let mut out = Vec::new();
            put_column(&mut out, &numbers);
            let mut reader = Reader::new("test", &out);
            assert_eq!(reader.column().unwrap(), numbers);
            assert_eq!(reader.left(), 0);
            for cut in 0..out.len() {
                assert!(Reader::new("test", &out[..cut]).column().is_err());
            }
        }
    }

    #[test]
    fn counts_and_lengths_that_cannot_be_are_refused() {
        let mut out = Vec::new();
        put_number(&mut out, u64::MAX);
        assert!(Reader::new("test", &out).column().is_err());
        assert!(Reader::new("test", &out).bytes().is_err());
        assert!(Reader::new("test", &[0xFF; 11]).number().is_err());
    }
}
