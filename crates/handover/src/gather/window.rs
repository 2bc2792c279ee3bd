//! Reading many small pieces of a file of values. Pieces that follow each other, or nearly, come in one call of the system.

use std::io;

use crate::gather::rank_values::Values;

/// Pieces of so many bytes are worth a read of their own; those with gaps of so many bytes are read together.
const LONG: usize = 4096;
const GAP: u64 = 4096;
/// Bytes that are read ahead: each time it goes on twice as many, up to the second number.
const AHEAD: (usize, usize) = (4096, 1 << 18);

/// The part of a file that was read last.
#[derive(Debug, Default)]
pub(crate) struct Window {
    start: u64,
    bytes: Vec<u8>,
    ahead: usize,
}

impl Window {
    /// Fills `out` with the bytes of the file from `at` on.
    ///
    /// # Errors
    /// As for [`Values::read_exact_at`].
    pub(crate) fn read(&mut self, values: &Values, at: u64, out: &mut [u8]) -> io::Result<()> {
        if out.len() >= LONG {
            return values.read_exact_at(out, at);
        }
        if !self.holds(at, out.len()) {
            let goes_on = (self.start..=self.start.saturating_add(self.bytes.len() as u64 + GAP)).contains(&at);
            self.ahead = if goes_on { (2 * self.ahead).clamp(AHEAD.0, AHEAD.1) } else { 0 };
            let left = usize::try_from(values.length.saturating_sub(at)).unwrap_or(usize::MAX);
            let wanted = self.ahead.min(left).max(out.len());
            if !self.fill(values, at, wanted)? {
                // A program that closes its file gives back memory behind its values.
                self.fill(values, at, out.len())?.then_some(()).ok_or(io::ErrorKind::UnexpectedEof)?;
            }
        }
        let from = usize::try_from(at - self.start).unwrap_or(usize::MAX);
        if let Some(held) = self.bytes.get(from..from.saturating_add(out.len())) {
            out.copy_from_slice(held);
        }
        Ok(())
    }

    /// Reads so many bytes from `at` on. False if the file has fewer.
    fn fill(&mut self, values: &Values, at: u64, count: usize) -> io::Result<bool> {
        self.bytes.resize(count, 0);
        self.start = at;
        let read = values.read_exact_at(&mut self.bytes, at);
        if read.is_err() {
            self.bytes.clear();
        }
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            read => read.map(|()| true),
        }
    }

    fn holds(&self, at: u64, len: usize) -> bool {
        let end = at.saturating_add(len as u64);
        at >= self.start && end <= self.start.saturating_add(self.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_at_any_place_are_those_of_the_file() {
        let bytes: Vec<u8> = (0..300_000u32).flat_map(|n| n.to_le_bytes()).collect();
        let path = std::env::temp_dir().join(format!("knarr-window-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let file = Values::open(&path).unwrap();
        let mut window = Window::default();
        let steps = [(0, 16), (16, 16), (40, 0), (40, 5000), (9000, 3), (9001, 100), (8000, 9), (1_199_999, 1), (0, 4)];
        let all = (0..20_000).map(|n| (n * 60, 24)).chain(steps).chain((0..300).rev().map(|n| (n * 3000, 7)));
        for (at, len) in all {
            let mut out = vec![9; len];
            window.read(&file, at as u64, &mut out).unwrap();
            assert_eq!(out, bytes[at..at + len], "{at} {len}");
        }
        assert!(window.read(&file, bytes.len() as u64 - 3, &mut [0; 4]).is_err());
        // The writer closes it, and what was ahead of its values goes.
        std::fs::File::options().write(true).open(&path).unwrap().set_len(4000).unwrap();
        let mut window = Window::default();
        for at in (0..4000).step_by(8) {
            let mut out = [9; 8];
            window.read(&file, at as u64, &mut out).unwrap();
            assert_eq!(out, bytes[at..at + 8], "{at}");
        }
        assert!(window.read(&file, 4000, &mut [0; 8]).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
