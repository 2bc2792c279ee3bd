//! Golden files: frames written by earlier builds, and what they decode to.
//!
//! A folder holds `STEM.TYPE.frame` for every chain, and beside it `STEM.TYPE.decoded` where the chain changes values;
//! what lossless chains decode to lies in a file that they share. Missing files are written where
//! `KNARR_WRITE_GOLDEN` is 1; files that exist are never rewritten: a format that changes gets a new wire id.

use std::fs;
use std::path::{Path, PathBuf};

use crate::data::{Pattern, sample};
use knarr_array::array::DType;
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_codec::codec::CodecList;
use knarr_codec::frame;

/// The array of a golden frame.
pub type Array = (DType, &'static [usize], Pattern);

/// A chain and the file that holds what it once wrote of an array.
#[derive(Debug)]
pub struct Golden<'a> {
    /// Folder of the file.
    pub folder: &'a Path,
    /// Beginning of its name.
    pub stem: &'a str,
    /// The chain.
    pub chain: &'a str,
    /// What was encoded.
    pub array: Array,
}

impl Golden<'_> {
    /// The file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.{}.frame", self.stem, self.array.0))
    }

    /// Frame and decoded bytes, as they are written now.
    pub fn written(&self, codecs: &CodecList) -> [Vec<u8>; 2] {
        let (dtype, shape, pattern) = self.array;
        let array = sample(dtype, shape, pattern, 11);
        let spec: ChainSpec = self.chain.parse().expect("the chain is written as chains are");
        let chain = Chain::prepare(codecs, &spec, &array.spec).expect("the chain takes the array");
        let (mut scratch, mut payload, mut framed, mut decoded) =
            (Scratch::default(), Vec::new(), Vec::new(), Vec::new());
        chain.encode(&array.bytes, &mut scratch, &mut payload).expect("encoding works");
        frame::write(&chain, &payload, &mut framed).expect("frames take the payload");
        chain.decode(&payload, &mut scratch, &mut decoded).expect("decoding works");
        [framed, decoded]
    }

    /// Fails if the file is missing; writes it where that is asked for.
    pub fn require(&self, codecs: &CodecList) {
        let path = self.path();
        let write = std::env::var_os("KNARR_WRITE_GOLDEN").is_some_and(|value| value == "1");
        if write && !path.exists() {
            let [framed, decoded] = self.written(codecs);
            assert!(framed.len() < 4096, "{} is too large", path.display());
            fs::create_dir_all(self.folder).expect("the folder can be made");
            fs::write(&path, framed).expect("the folder can be written");
            let (dtype, shape, pattern) = self.array;
            let is_lossless = decoded == sample(dtype, shape, pattern, 11).bytes;
            let beside = if is_lossless { shared(self.folder, dtype) } else { path.with_extension("decoded") };
            if !is_lossless || !beside.exists() {
                fs::write(&beside, &decoded).expect("the folder can be written");
            }
            assert!(fs::read(&beside).expect("it was written") == decoded, "{} is another array", beside.display());
        }
        assert!(path.exists(), "{} is missing: KNARR_WRITE_GOLDEN=1 writes it", path.display());
    }

    /// Fails if the chain writes other bytes than it once did.
    pub fn require_same_bytes(&self, codecs: &CodecList) {
        let [framed, _] = self.written(codecs);
        let golden = fs::read(self.path()).expect("the golden file is there");
        assert!(framed == golden, "{} is written otherwise", self.path().display());
    }
}

/// Decodes every frame of a folder, and returns how many there are.
pub fn decode_all(codecs: &CodecList, folder: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the folder of golden files is there") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_none_or(|extension| extension != "frame") {
            continue;
        }
        let bytes = fs::read(&path).expect("a golden file can be read");
        let read = frame::read(&bytes).expect("the frame is sound");
        let mut out = Vec::new();
        read.decode(codecs, &mut Scratch::default(), &mut out).expect("the frame decodes");
        let own = path.with_extension("decoded");
        let decoded = if own.exists() { own } else { shared(folder, read.array.dtype) };
        assert!(out == fs::read(decoded).expect("what it decodes to is there"), "{}", path.display());
        count += 1;
    }
    count
}

/// What lossless chains decode to.
fn shared(folder: &Path, dtype: DType) -> PathBuf {
    folder.join(format!("lossless.{dtype}.decoded"))
}
