//! The rows of a table as texts, one line at a time.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use csv::StringRecord;
use knarr_array::error::{Error, ErrorKind, Result};

use super::dialect::{Separator, content};

/// Bytes without an end of line beyond which a file is no table.
const LONGEST_LINE: u64 = 64 << 20;

/// Reads row after row; memory is bounded by the longest line.
pub(super) struct Records {
    lines: BufReader<Lines>,
    separator: Separator,
    text: String,
    /// Of the line in `text`, from 1.
    number: u64,
}

/// A row and the number of its line, from 1.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) fields: StringRecord,
    pub(super) line: u64,
}

impl Records {
    pub(super) fn open(path: &Path, separator: Separator) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::read(path, &error))?;
        Ok(Self { lines: BufReader::new(Lines { file, since: 0 }), separator, text: String::new(), number: 0 })
    }

    /// Replaces `record` by the next row; false at the end.
    pub(super) fn next(&mut self, record: &mut Record) -> Result<bool> {
        loop {
            self.text.clear();
            self.number += 1;
            let place = |error: Error| error.at(format!("line {}", self.number));
            if self.lines.read_line(&mut self.text).map_err(|error| place(of_io(&error)))? == 0 {
                return Ok(false);
            }
            let Some(line) = content(&self.text) else { continue };
            record.line = self.number;
            record.fields.clear();
            match self.separator {
                Separator::Spaces => line.split_whitespace().for_each(|field| record.fields.push_field(field)),
                Separator::Byte(byte) if line.contains('"') => {
                    unquote(line, byte, &mut record.fields).map_err(place)?;
                }
                Separator::Byte(byte) => {
                    line.split(char::from(byte)).for_each(|field| record.fields.push_field(field.trim()));
                }
            }
            return Ok(true);
        }
    }
}

fn unquote(line: &str, separator: u8, fields: &mut StringRecord) -> Result<()> {
    let mut builder = csv::ReaderBuilder::new();
    builder.delimiter(separator).has_headers(false).trim(csv::Trim::All);
    let mut reader = builder.from_reader(line.as_bytes());
    reader.read_record(fields).map(|_| ()).map_err(|error| Error::corrupt(error.to_string()))
}

fn of_io(error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::InvalidData => ErrorKind::Corrupt,
        _ => ErrorKind::Read,
    };
    Error::new(kind, error.to_string())
}

/// A file that is given up as soon as a line is too long to be held.
struct Lines {
    file: File,
    /// Bytes since the last end of line.
    since: u64,
}

impl Read for Lines {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(out)?;
        let read = out.get(..count).unwrap_or_default();
        self.since = match read.iter().rev().position(|byte| *byte == b'\n') {
            Some(after) => after as u64,
            None => self.since + count as u64,
        };
        if self.since > LONGEST_LINE {
            let why = format!("a line of more than {} MiB: this is no table", LONGEST_LINE >> 20);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, why));
        }
        Ok(count)
    }
}
