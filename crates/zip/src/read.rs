//! A ZIP file as a store that is read.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use knarr_array::error::{Error, Result};
use knarr_flow::read_store::{Entry, Part, ReadStore, entries_of};
use knarr_flow::strided::ReadAt;
use rawzip::{
    CompressionMethod, ErrorKind, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ReaderAt, ZipArchive, ZipArchiveEntryWayfinder,
    ZipLocator, crc32,
};

/// Bytes at the end among which the end of the directory is looked for: its record, and the longest comment behind it.
const END: u64 = 22 + 0xFFFF;

/// Bytes of the header in front of a member; then its name follows.
const LOCAL_HEADER: u64 = 30;

/// True for the first bytes of a ZIP file, also of one without members.
pub fn is_zip(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

/// The members of a ZIP file. Of several with one name the last one counts.
#[derive(Debug)]
pub struct ZipObjects<R> {
    path: PathBuf,
    archive: ZipArchive<Bounded<R>>,
    /// By key.
    members: BTreeMap<String, Member>,
    /// Names and headers of what else is in the directory: folders, and members that later ones replace.
    others: Vec<(Vec<u8>, u64)>,
    /// Whether all members have the names that the directory says, once that was looked at.
    named: OnceLock<Result<()>>,
}

#[derive(Debug)]
struct Member {
    place: ZipArchiveEntryWayfinder,
    /// Offset of the header in front of it.
    header: u64,
    length: u64,
    checksum: u32,
    /// Why its bytes cannot be read where they lie.
    hidden: Option<String>,
}

/// A file of known length.
#[derive(Debug)]
struct Bounded<R> {
    file: R,
    length: u64,
}

impl<R: ReadAt> ReaderAt for Bounded<R> {
    fn read_at(&self, out: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = left.min(out.len());
        self.file.read_exact_at(&mut out[..length], offset)?;
        Ok(length)
    }
}

impl<R: ReadAt> ZipObjects<R> {
    /// The members of `file`, which has so many bytes and is called `path`.
    ///
    /// # Errors
    /// `Corrupt` if it is no ZIP file or its directory makes no sense, `Read`.
    pub fn open(file: R, length: u64, path: &Path) -> Result<Self> {
        let place = |error: rawzip::Error| failed(path, error).hint_damage("ZIP file").at(path.display().to_string());
        let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
        let locator = ZipLocator::new().max_search_space(END);
        let archive = locator
            .locate_in_reader(Bounded { file, length }, &mut buffer, length)
            .map_err(|(_, error)| place(error))?;
        let (mut members, mut others) = (BTreeMap::new(), Vec::new());
        let (mut entries, mut count) = (archive.entries(&mut buffer), 0);
        while let Some(entry) = entries.next_entry().map_err(place)? {
            count += 1;
            let raw = entry.file_path();
            // Names in other encodings than UTF-8 are none of Zarr.
            let Some(key) = str::from_utf8(raw.as_bytes()).ok().filter(|_| !entry.is_dir()) else {
                others.push((raw.as_bytes().to_vec(), entry.local_header_offset()));
                continue;
            };
            let method = entry.compression_method();
            let hidden = if entry.flags().is_encrypted() {
                Some("is encrypted".to_owned())
            } else {
                (method != CompressionMethod::STORE).then(|| format!("is compressed by method {method}"))
            };
            let length = entry.uncompressed_size_hint();
            let (place, header) = (entry.wayfinder(), entry.local_header_offset());
            let member = Member { place, header, length, checksum: entry.crc32(), hidden };
            if let Some(Member { header, .. }) = members.insert(key.to_owned(), member) {
                others.push((key.as_bytes().to_vec(), header));
            }
        }
        if count != archive.entries_hint() {
            let what = format!("the directory of the ZIP file has {count} of {} members", archive.entries_hint());
            return Err(Error::corrupt(what).hint_damage("ZIP file").at(path.display().to_string()));
        }
        Ok(Self { path: path.to_owned(), archive, members, others, named: OnceLock::new() })
    }

    /// Where the bytes of a member begin. Its name stands there, too: the directory has no checksum.
    fn begin(&self, key: &str, member: &Member) -> Result<u64> {
        if let Some(hidden) = &member.hidden {
            return Err(Error::unsupported(format!("the member of the ZIP file {hidden}"))
                .hint("unpack the ZIP file into a directory and give that one"));
        }
        let found = self.archive.get_entry(member.place).map_err(|error| failed(&self.path, error))?;
        let (begin, end) = found.compressed_data_range();
        self.check_name(key.as_bytes(), member.header)?;
        if end - begin != member.length || end > self.archive.get_ref().length {
            return Err(misplaced());
        }
        Ok(begin)
    }

    fn check_name(&self, name: &[u8], header: u64) -> Result<()> {
        let mut found = vec![0; name.len()];
        let read = self.archive.get_ref().file.read_exact_at(&mut found, header.saturating_add(LOCAL_HEADER));
        read.map_err(|error| Error::read(&self.path, &error))?;
        if found == name { Ok(()) } else { Err(misplaced()) }
    }

    /// A chunk that is not there has fill values, so damage to the name of one would change values without a word. The names
    /// of all members are compared before anything is said to be missing.
    fn missing(&self) -> Result<()> {
        let check = || {
            let members = self.members.iter().map(|(key, member)| (key.as_bytes(), member.header));
            let mut all = members.chain(self.others.iter().map(|(name, header)| (name.as_slice(), *header)));
            all.try_for_each(|(name, header)| self.check_name(name, header))
                .map_err(|error| error.hint_damage("ZIP file").at(self.path.display().to_string()))
        };
        self.named.get_or_init(check).clone()
    }

    fn read(&self, key: &str, member: &Member, part: Part, out: &mut Vec<u8>) -> Result<()> {
        let begin = self.begin(key, member)?;
        out.clear();
        let Some((offset, length)) = part.within(member.length) else { return Ok(()) };
        out.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        let file = &self.archive.get_ref().file;
        file.read_exact_at(out, begin + offset).map_err(|error| Error::read(Path::new(key), &error))?;
        if length == member.length && crc32(out) != member.checksum {
            return Err(Error::corrupt("the checksum of the member of the ZIP file does not match"));
        }
        Ok(())
    }
}

fn misplaced() -> Error {
    Error::corrupt("the member of the ZIP file is not where its directory says")
}

fn failed(path: &Path, error: rawzip::Error) -> Error {
    match error.into_kind() {
        ErrorKind::IO(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Error::read(path, &error),
        ErrorKind::MissingEndOfCentralDirectory => Error::corrupt("the ZIP file ends before its directory"),
        other => Error::corrupt(format!("the directory of the ZIP file: {other}")),
    }
}

impl<R: ReadAt + Send + Debug> ReadStore for ZipObjects<R> {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn get(&self, key: &str, part: Part, out: &mut Vec<u8>) -> Result<Option<u64>> {
        let Some(member) = self.members.get(key) else { return self.missing().map(|()| None) };
        self.read(key, member, part, out).map_err(|error| error.at_once(key))?;
        Ok(Some(member.length))
    }

    fn has(&self, key: &str) -> Result<bool> {
        if self.members.contains_key(key) { Ok(true) } else { self.missing().map(|()| false) }
    }

    fn list(&self, folder: &str) -> Result<Option<Vec<Entry>>> {
        let from = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let below = self.members.range(from.clone()..).take_while(|(key, _)| key.starts_with(&from));
        Ok(Some(entries_of(below.map(|(key, member)| (key.as_str(), member.length)), folder)))
    }
}
