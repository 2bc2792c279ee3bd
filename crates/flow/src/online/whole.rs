//! Blocks of whole chunks, encoded in threads and handed over in order: the same bytes for any number of threads.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::{Dataset, Job, Online, Step, lock};
use crate::online::Block;
use crate::ordered::{Schedule, Turns, beside_caller};
use crate::pipeline::{ChunkEncoder, Container};
use knarr_array::array::ArraySpec;
use knarr_array::error::{Error, Result};
use knarr_array::filter::Hdf5Filter;
use knarr_array::guard::guarded;
use knarr_codec::chain::{Chain, Scratch};
use knarr_codec::client_data::Chunks;
use knarr_codec::codec::KNARR_FILTER;
use knarr_codec::frame;

/// Chunks that may be under way at once, fewer where they are large. What is learnt of a chunk counts for the choice of
/// the chunk that comes so many later, so the number must not depend on threads.
const MOST_UNDER_WAY: u64 = 16;
const FEWEST_UNDER_WAY: u64 = 2;
const BYTES_UNDER_WAY: u64 = 64 << 20;
/// Larger chunks are left to HDF5.
const LARGEST_CHUNK: usize = 64 << 20;
/// Pipelines whose encoders are kept.
const MOST_PIPELINES: usize = 8;

/// An encoded chunk for `H5Dwrite_chunk`.
pub struct WholeChunk {
    /// Its first element in the dataset.
    pub offset: Vec<u64>,
    /// Filters that it skips.
    pub filter_mask: u32,
    /// What is stored.
    pub bytes: Vec<u8>,
}

/// An encoder of a standard pipeline.
pub(super) struct Pipeline {
    filters: Vec<Hdf5Filter>,
    spec: ArraySpec,
    encoder: Arc<ChunkEncoder>,
}

/// What encodes the chunks of a block.
enum Way {
    /// Knarr's filter, with the steps and sizes of chunks that were handed over and that nothing was learnt of yet.
    Choosing(Arc<Dataset>, Mutex<VecDeque<(Step, usize)>>),
    /// A standard pipeline.
    Fixed(Arc<ChunkEncoder>),
}

impl Online {
    /// Encodes the chunks of `block`, whose values are `values`, and gives them to `put` in row-major order on the
    /// calling thread. `started` is called when other threads were started.
    ///
    /// # Errors
    /// `Usage` if the block is none; `Unsupported` for filters that cannot be written here, or chunks over 64 MiB; the
    /// first error of encoding or of `put`. Some chunks may have been put then.
    pub fn encode_block(
        &self,
        block: &Block,
        values: &[u8],
        started: impl FnOnce(),
        mut put: impl FnMut(&WholeChunk) -> Result<()>,
    ) -> Result<()> {
        block.check(values.len())?;
        let spec = block.spec()?;
        if spec.byte_len() > LARGEST_CHUNK {
            return Err(Error::unsupported(format!("chunks of {} bytes", spec.byte_len())));
        }
        let way = self.way(block, &spec)?;
        let chunks = block.chunks();
        let window = (BYTES_UNDER_WAY / spec.byte_len().max(1) as u64).clamp(FEWEST_UNDER_WAY, MOST_UNDER_WAY);
        let helpers = u64::try_from(block.threads).unwrap_or(1).min(chunks).min(window).saturating_sub(1);
        // Buffers of chunks that were handed over, for the next ones: what is put together, and what is encoded.
        let rooms = Mutex::new(Vec::<(Vec<u8>, Vec<u8>)>::new());
        let encode = |index, turns: &Turns| {
            let (mut room, mut bytes) = lock(&rooms).pop().unwrap_or_default();
            let (offset, raw) = block.chunk(index, values, &mut room);
            let (encoder, step) = match &way {
                Way::Fixed(encoder) => (Arc::clone(encoder), None),
                Way::Choosing(dataset, sizes) => {
                    let step = turns.take(index, || {
                        // Exactly the chunks up to this one: more may be done already, on some machines.
                        if index >= window
                            && let Some((step, encoded)) = lock(sizes).pop_front()
                        {
                            dataset.learn(&step, raw.len(), encoded);
                        }
                        let (wishes, spec) = (&dataset.wishes, &dataset.spec(raw.len()));
                        Job { engine: &self.engine, wishes, spec, raw }.step(dataset)
                    })?;
                    (Arc::clone(&step.encoder), Some(step))
                }
            };
            let filter_mask = self.run(&encoder, raw, &mut bytes)?.filter_mask;
            Ok((WholeChunk { offset, filter_mask, bytes }, step, room))
        };
        let hand_over = |(chunk, step, room): (WholeChunk, Option<Step>, Vec<u8>)| {
            put(&chunk)?;
            if let (Way::Choosing(_, sizes), Some(step)) = (&way, step) {
                lock(sizes).push_back((step, chunk.bytes.len()));
            }
            lock(&rooms).push((room, chunk.bytes));
            Ok(())
        };
        let jobs = usize::try_from(helpers).unwrap_or(0);
        let schedule = Schedule { engine: &self.engine, jobs, beside: &[], window, total: chunks };
        // A panic of another thread is no more printed than one of the caller's.
        beside_caller(schedule, started, |index, turns: &Turns| guarded(|| encode(index, turns)), hand_over)?;
        if let Way::Choosing(dataset, sizes) = &way {
            for (step, encoded) in lock(sizes).drain(..) {
                dataset.learn(&step, spec.byte_len(), encoded);
            }
        }
        Ok(())
    }

    /// Whether `bytes` are a chunk that the filters of `block` decode. Pipelines without a compressor decode anything of
    /// the right length.
    ///
    /// # Errors
    /// `Unsupported` for filters that cannot be decoded here; as for [`ArraySpec::checked_len`].
    pub fn is_encoded(&self, block: &Block, bytes: &[u8]) -> Result<bool> {
        if block.filters.last().is_some_and(|filter| filter.id == KNARR_FILTER) {
            return Ok(frame::read(bytes).is_ok());
        }
        let chain = Chain::from_hdf5(&self.engine.codecs, &block.filters, &block.spec()?)
            .ok_or_else(|| Error::unsupported("a filter that cannot be decoded here"))?;
        Ok(chain.decode(bytes, &mut Scratch::default(), &mut Vec::new()).is_ok())
    }

    fn way(&self, block: &Block, spec: &ArraySpec) -> Result<Way> {
        if let [Hdf5Filter { id: KNARR_FILTER, cd_values, .. }] = block.filters.as_slice() {
            let dataset = self.dataset(cd_values)?;
            let fits = match &dataset.chunks {
                Chunks::Array(held) => held.shape == spec.shape && held.dtype.size() == spec.dtype.size(),
                Chunks::Bytes => false,
            };
            let way = Way::Choosing(dataset, Mutex::default());
            return if fits {
                Ok(way)
            } else {
                Err(Error::corrupt("client data of other chunks than the dataset has"))
            };
        }
        let mut pipelines = lock(&self.pipelines);
        let is_known = |known: &Pipeline| known.filters == block.filters && known.spec == *spec;
        let known = pipelines.iter().find(|known| is_known(known)).map(|known| Arc::clone(&known.encoder));
        if let Some(encoder) = known {
            return Ok(Way::Fixed(encoder));
        }
        let encoder = Arc::new(self.pipeline(&block.filters, spec)?);
        if pipelines.len() == MOST_PIPELINES {
            pipelines.remove(0);
        }
        let filters = block.filters.clone();
        pipelines.push(Pipeline { filters, spec: spec.clone(), encoder: Arc::clone(&encoder) });
        Ok(Way::Fixed(encoder))
    }

    /// An encoder that writes what `filters` decode, if it would give them the same client data.
    fn pipeline(&self, filters: &[Hdf5Filter], spec: &ArraySpec) -> Result<ChunkEncoder> {
        let codecs = &self.engine.codecs;
        let content = |filters: &[Hdf5Filter]| {
            filters.iter().map(|filter| (filter.id, filter.cd_values.clone())).collect::<Vec<_>>()
        };
        let chain = Chain::from_hdf5(codecs, filters, spec)
            .filter(|chain| chain.hdf5_pipeline().is_some_and(|written| content(&written) == content(filters)));
        let chain = chain.ok_or_else(|| {
            Error::unsupported(format!("filters {:?} with their client data", filters.iter().map(|filter| filter.id)))
        })?;
        let container = Container::Pipeline(filters.len());
        ChunkEncoder::new(codecs, chain.spec(), None, spec.clone(), None, false, container)
    }
}
