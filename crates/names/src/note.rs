//! A note that a name is pending: a symbolic link. It is made in one step together with what it says, and only if there is none.

use std::ffi::CStr;

use crate::key::Key;

/// Bytes that are written one after the other, with a zero behind them. It asks for no memory. What is too long is cut.
#[derive(Clone)]
pub(crate) struct Line {
    bytes: [u8; Self::MOST],
    length: usize,
}

impl Line {
    const MOST: usize = 128;

    pub(crate) fn new() -> Self {
        Self { bytes: [0; Self::MOST], length: 0 }
    }

    pub(crate) fn and(mut self, more: &[u8]) -> Self {
        // The last byte stays zero.
        let room = self.bytes.get_mut(self.length..Self::MOST - 1).unwrap_or_default();
        let count = room.len().min(more.len());
        for (to, from) in room.iter_mut().zip(more) {
            *to = *from;
        }
        self.length += count;
        self
    }

    /// A number, in sixteen digits.
    pub(crate) fn and_number(self, number: u64) -> Self {
        let digit =
            |at: usize| b"0123456789abcdef".get((number >> (60 - 4 * at) & 15) as usize).copied().unwrap_or(b'0');
        self.and(&std::array::from_fn::<u8, 16, _>(digit))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

/// What the note about a name is called. Directories have the same number on all nodes, but not their devices.
pub(crate) fn name_of(number: u64, hash: u64) -> Line {
    Line::new().and_number(number).and(b"-").and_number(hash)
}

/// The same of a name.
pub(crate) fn name_for(key: &Key<'_>) -> Line {
    name_of(key.directory.number, key.hash)
}

/// What a note says.
#[derive(Clone)]
pub struct Note {
    /// The file could not be made.
    pub(crate) is_failed: bool,
    /// Another file has the name.
    pub(crate) replaces: bool,
    /// On the page of its node.
    pub(crate) generation: u64,
    /// The launcher that makes the file.
    pub(crate) launcher: Line,
}

impl Note {
    pub(crate) fn line(&self) -> Line {
        let state = if self.is_failed { b"f" } else { b"w" };
        let before = if self.replaces { b"o" } else { b"n" };
        Line::new().and(state).and(before).and_number(self.generation).and(b"-").and(self.launcher.bytes())
    }

    /// `None` if no launcher has written it.
    pub(crate) fn read(line: &[u8]) -> Option<Self> {
        let (state, rest) = line.split_first()?;
        let (before, rest) = rest.split_first()?;
        let (number, rest) = rest.split_at_checked(16)?;
        let generation = u64::from_str_radix(std::str::from_utf8(number).ok()?, 16).ok()?;
        let launcher = rest.strip_prefix(b"-").filter(|name| !name.is_empty() && !name.contains(&b'/'))?;
        if !matches!(state, b'f' | b'w') || !matches!(before, b'o' | b'n') {
            return None;
        }
        let launcher = Line::new().and(launcher);
        Some(Self { is_failed: *state == b'f', replaces: *before == b'o', generation, launcher })
    }

    /// True if both are about the same version of a file.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        self.generation == other.generation && self.launcher.bytes() == other.launcher.bytes()
    }
}

/// The launcher that has written the note which says this; `None` if it is none.
pub fn launcher_of(line: &[u8]) -> Option<String> {
    String::from_utf8(Note::read(line)?.launcher.bytes().to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_nothing_else_is_one() {
        for (is_failed, replaces, generation) in [(false, false, 0), (true, false, 77), (false, true, u64::MAX)] {
            let launcher = Line::new().and(b"12-ab");
            let line = Note { is_failed, replaces, generation, launcher }.line();
            let note = Note::read(line.bytes()).unwrap();
            assert_eq!((note.is_failed, note.replaces, note.generation), (is_failed, replaces, generation));
            assert_eq!((note.launcher.bytes(), note.line().text()), (&b"12-ab"[..], line.text()));
        }
        assert_eq!(Note::read(b"wo00000000000000ff-x").unwrap().generation, 255);
        for other in
            ["", "w", "wo-", "wo00000000000000ff", "wo00000000000000ff-", "xo00000000000000ff-a", "/etc/passwd"]
        {
            assert!(Note::read(other.as_bytes()).is_none(), "{other}");
        }
        assert!(Note::read(b"wo00000000000000ff-../a").is_none());
        assert_eq!(Line::new().and(&[b'x'; 500]).bytes().len(), 127);
        assert_eq!(name_of(255, 1).bytes(), b"00000000000000ff-0000000000000001");
    }
}
