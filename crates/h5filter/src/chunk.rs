//! One chunk: a frame made from values, or values from a frame.

use knarr_array::array::ArraySpec;
use knarr_array::{Error, ErrorKind, Result};
use knarr_codec::client_data::{Chunks, ClientData};
use knarr_codec::frame;
use knarr_flow::engine::Engine;
use knarr_flow::online::Online;
use knarr_native::FrameCodecs;
use std::ops::Deref;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A chunk of HDF5 is below this unless its client data say more.
const LARGEST_CHUNK: usize = u32::MAX as usize;

/// Chains with the plugins that are installed are not chosen: readers would need those as well.
static CODECS: FrameCodecs = FrameCodecs::new();

/// What encodes, for all datasets.
///
/// # Errors
/// `Internal` if two codecs share a name.
pub(crate) fn online() -> Result<&'static Online> {
    static ONLINE: OnceLock<Result<Online>> = OnceLock::new();
    // A thread of its own for each chunk is the caller's business: one core, whatever the machine has.
    let online = ONLINE.get_or_init(|| Ok(Online::new(Engine { jobs: 1, ..Engine::new(CODECS.own()?) })));
    online.as_ref().map_err(Clone::clone)
}

/// What became of a chunk, in a buffer that is kept for the next one when this is dropped: fresh memory for each chunk
/// would take as long as a quick chain.
pub(crate) struct Output(Vec<u8>);

/// Outputs that are kept, so many of up to so many bytes.
static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
const MOST_KEPT: usize = 4;
const LARGEST_KEPT: usize = 32 << 20;

impl Output {
    fn new() -> Self {
        Self(KEPT.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default())
    }
}

impl Deref for Output {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0.capacity() <= LARGEST_KEPT && kept.len() < MOST_KEPT {
            kept.push(std::mem::take(&mut self.0));
        }
    }
}

/// The frame of one chunk.
///
/// # Errors
/// As for [`Online::encode`].
pub(crate) fn encode(words: &[u32], raw: &[u8]) -> Result<Output> {
    let mut out = Output::new();
    online()?.encode(words, raw, &mut out.0)?;
    Ok(out)
}

/// The values of a frame. Client data of a later version say nothing to this one; a frame says everything itself.
///
/// # Errors
/// `Corrupt` if the frame or the client data are damaged or do not fit each other.
pub(crate) fn decode(words: &[u32], encoded: &[u8]) -> Result<Output> {
    let chunks = match ClientData::parse(words) {
        Ok(data) => data.chunks,
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        Err(error) => return Err(error),
    };
    let frame = frame::read(encoded)?;
    if let Some(Chunks::Array(spec)) = &chunks {
        fits(&frame.array, spec)?;
    } else if frame.array.byte_len() > LARGEST_CHUNK {
        return Err(Error::corrupt(format!("a frame of {} bytes is no chunk", frame.array.byte_len())));
    }
    let mut out = Output::new();
    let array = &frame.array;
    CODECS
        .decode(&frame, &mut out.0)
        .map_err(|error| error.at(format!("chunk of {} {:?}", array.dtype, array.shape)))?;
    Ok(out)
}

/// A frame of another shape or type than the file says must not reach the program.
fn fits(held: &ArraySpec, wanted: &ArraySpec) -> Result<()> {
    if held.dtype.size() == wanted.dtype.size() && held.shape == wanted.shape && held.endian == wanted.endian {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "the frame holds {} {:?}, the chunk is {} {:?}",
        held.dtype, held.shape, wanted.dtype, wanted.shape
    )))
}
