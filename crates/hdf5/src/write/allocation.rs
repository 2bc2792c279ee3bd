//! Notes in a finished file that its datasets take their space early.
//!
//! Parallel HDF5 takes the space of new chunks when a dataset grows, so that ranks agree where they are. It does so for
//! datasets whose fill value message says that space is allocated early, which is what it writes of all that it creates.
//! With any other message, ranks of HDF5 1.10 that append chunks wait for each other for ever if there are filters, and
//! lose values if there are none. The sink cannot create such datasets: HDF5 would fill them through filters that are not
//! really there. So the message is changed when the file is finished.
//!
//! Source: HDF5 File Format Specification 3.0, II.A (superblock), IV.A.1 (object headers), IV.A.2.f (fill value),
//! IV.A.2.q (continuation).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::sys::{Address, checksum};

const FILL_VALUE: u16 = 0x05;
const CONTINUATION: u16 = 0x10;
/// Flag of a message that lies elsewhere, where others share it.
const SHARED: u8 = 0x02;
const EARLY: u8 = 1;
/// More than attributes of 64 KiB each make of a header.
const LARGEST_BLOCK: u64 = 64 << 20;
const MOST_BLOCKS: usize = 1 << 16;

/// Notes it of the datasets at `addresses`, which are counted from `base`, where the superblock is. A message that datasets
/// share stays as it is.
///
/// # Errors
/// Those of reading and writing, and `InvalidData` for what is no object header.
pub(crate) fn note_early(file: &File, base: u64, addresses: &[Address]) -> io::Result<()> {
    if addresses.is_empty() {
        return Ok(());
    }
    let headers = Headers::of(file, base)?;
    addresses.iter().try_for_each(|address| headers.note(address.0))
}

/// How messages are written.
#[derive(Clone, Copy)]
enum Form {
    /// As HDF5 1.6 does: nothing is checked.
    Old,
    /// As HDF5 1.8 does: each block ends with a checksum, and messages may have the number of their creation.
    Checked { numbered: bool },
}

/// Bytes of an object header that lie together.
struct Block {
    form: Form,
    /// Where in the file.
    at: u64,
    bytes: Vec<u8>,
    /// Where among the bytes messages begin.
    messages: usize,
}

/// A message: what it is, and where its content is in the block.
struct Message {
    kind: u16,
    is_shared: bool,
    start: usize,
    end: usize,
}

impl Block {
    /// Where messages end.
    fn end(&self) -> usize {
        match self.form {
            Form::Old => self.bytes.len(),
            Form::Checked { .. } => self.bytes.len().saturating_sub(4),
        }
    }

    /// The message at a place; `None` if the rest is a gap.
    fn message(&self, at: usize) -> io::Result<Option<Message>> {
        let rest = self.bytes.get(at..self.end()).unwrap_or_default();
        let (head, kind, size, flags) = match (self.form, rest) {
            (Form::Old, [k0, k1, s0, s1, flags, _, _, _, ..]) => (8, [*k0, *k1], [*s0, *s1], *flags),
            (Form::Checked { numbered: false }, [kind, s0, s1, flags, ..]) => (4, [*kind, 0], [*s0, *s1], *flags),
            (Form::Checked { numbered: true }, [kind, s0, s1, flags, _, _, ..]) => (6, [*kind, 0], [*s0, *s1], *flags),
            _ => return Ok(None),
        };
        let start = at + head;
        let end = start + usize::from(u16::from_le_bytes(size));
        if end > self.end() {
            return Err(damaged("a message is longer than its object header"));
        }
        Ok(Some(Message { kind: u16::from_le_bytes(kind), is_shared: flags & SHARED != 0, start, end }))
    }

    /// Sets the time of allocation in the content of a fill value message. True if it was another.
    fn set_early(&mut self, message: &Message) -> bool {
        let Some([version, time, ..]) = self.bytes.get_mut(message.start..message.end) else { return false };
        let early = if *version < 3 { EARLY } else { *time & !3 | EARLY };
        std::mem::replace(time, early) != early
    }

    fn write(&mut self, file: &File) -> io::Result<()> {
        if let Form::Checked { .. } = self.form {
            let end = self.end();
            let (content, sum) = self.bytes.split_at_mut(end);
            sum.copy_from_slice(&checksum(content).to_le_bytes());
        }
        file.write_all_at(&self.bytes, self.at)
    }
}

/// The object headers of a file.
struct Headers<'a> {
    file: &'a File,
    base: u64,
    /// Bytes of an address, and of a length.
    sizes: (usize, usize),
}

impl<'a> Headers<'a> {
    fn of(file: &'a File, base: u64) -> io::Result<Self> {
        let mut start = [0; 15];
        file.read_exact_at(&mut start, base)?;
        let sizes = if start[8] < 2 { (start[13], start[14]) } else { (start[9], start[10]) };
        Ok(Self { file, base, sizes: (sizes.0.into(), sizes.1.into()) })
    }

    fn note(&self, address: u64) -> io::Result<()> {
        let mut blocks = vec![self.first(address)?];
        for _ in 0..MOST_BLOCKS {
            let Some(mut block) = blocks.pop() else { break };
            let mut at = block.messages;
            while let Some(message) = block.message(at)? {
                at = message.end;
                match message.kind {
                    FILL_VALUE if message.is_shared || !block.set_early(&message) => return Ok(()),
                    FILL_VALUE => return block.write(self.file),
                    CONTINUATION => blocks.push(self.next(&block, &message)?),
                    _ => {}
                }
            }
        }
        Err(damaged("the object header of a dataset has no fill value message"))
    }

    /// The block that an object header begins with.
    fn first(&self, address: u64) -> io::Result<Block> {
        let at = self.base + address;
        let mut head = [0; 12];
        self.file.read_exact_at(&mut head, at)?;
        match head {
            [1, _, _, _, _, _, _, _, size @ ..] => {
                self.block(Form::Old, at, 16, 16 + u64::from(u32::from_le_bytes(size)))
            }
            [b'O', b'H', b'D', b'R', 2, flags, ..] => {
                let width = 1 << (flags & 3);
                let before = 6 + if flags & 0x20 == 0 { 0 } else { 16 } + if flags & 0x10 == 0 { 0 } else { 4 };
                let mut size = vec![0; width];
                self.file.read_exact_at(&mut size, at + before as u64)?;
                let messages = before + width;
                let form = Form::Checked { numbered: flags & 4 != 0 };
                self.block(form, at, messages, number(&size).saturating_add(messages as u64 + 4))
            }
            _ => Err(damaged("there is no object header where a dataset is")),
        }
    }

    /// The block that a message of continuation leads to.
    fn next(&self, block: &Block, message: &Message) -> io::Result<Block> {
        let content = block.bytes.get(message.start..message.end).unwrap_or_default();
        let (address, rest) = content.split_at_checked(self.sizes.0).unwrap_or_default();
        let length = rest.get(..self.sizes.1).ok_or_else(|| damaged("a continuation is too short"))?;
        let messages = match block.form {
            Form::Old => 0,
            Form::Checked { .. } => 4,
        };
        self.block(block.form, self.base.saturating_add(number(address)), messages, number(length))
    }

    fn block(&self, form: Form, at: u64, messages: usize, length: u64) -> io::Result<Block> {
        let length = usize::try_from(length.min(LARGEST_BLOCK + 1)).unwrap_or(usize::MAX);
        if length as u64 > LARGEST_BLOCK {
            return Err(damaged("an object header is too long"));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at)?;
        let block = Block { form, at, bytes, messages };
        if let Form::Checked { .. } = form {
            let (content, sum) = block.bytes.split_at(block.end());
            if number(sum) != u64::from(checksum(content)) {
                return Err(damaged("the checksum of an object header is another"));
            }
        }
        Ok(block)
    }
}

/// A number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
