//! Frames from the pieces of ranks' files: fetched, merged and encoded.

use crate::classes::decision::Decision;
use crate::classes::frame_sizes::TARGET_FRAME;
use crate::classes::interleave;
use crate::classes::scheme::{Merged, merged_array};
use crate::classes::similarity::Class;
use crate::files::pieces::Piece;
use crate::files::scan::{PieceBuffers, Scanned, Values};
use knarr_array::array::ArraySpec;
use knarr_array::error::{Error, Result};
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;
use knarr_flow::pipeline::{Buffers, ChunkEncoder, Container};

/// Copies of a frame while it is encoded: fetched, merged, encoded and decoded again.
const COPIES: u64 = 4;

/// Fetches and merges pieces of a group.
pub(crate) struct Merger<'a> {
    pub(crate) files: &'a [Scanned],
    pub(crate) values: Values<'a>,
}

/// Buffers of one worker.
#[derive(Default)]
pub(crate) struct MergeBuffers {
    piece: PieceBuffers,
    fetched: Vec<u8>,
    merged: Vec<u8>,
    buffers: Buffers,
}

impl Merger<'_> {
    /// Length of a piece.
    pub(crate) fn length(&self, rank: usize, piece: usize) -> u64 {
        self.files.get(rank).and_then(|file| file.pieces.get(piece)).map_or(0, |piece| piece.length)
    }

    /// Bytes of a frame before it is encoded.
    pub(crate) fn bytes(&self, frame: &Merged) -> u64 {
        frame.lanes.iter().flatten().map(|&(rank, piece)| self.length(rank, piece)).sum()
    }

    /// Bytes that a frame takes while it is under way. Codecs need copies of it, which count where they are large.
    pub(crate) fn weight(&self, frame: &Merged) -> u64 {
        let bytes = self.bytes(frame);
        if bytes > TARGET_FRAME { COPIES * bytes } else { bytes }
    }

    /// Type and shape of a frame.
    pub(crate) fn spec(&self, class: &Class, frame: &Merged) -> ArraySpec {
        let lanes: Vec<Vec<(u64, Vec<usize>)>> = frame.lanes.iter().map(|lane| self.runs(lane)).collect();
        merged_array(class.dtype, class.endian, frame.block, &lanes)
    }

    /// Lengths and shapes of the runs of a lane: pieces of one variable that follow each other in its file are one.
    fn runs(&self, lane: &[(usize, usize)]) -> Vec<(u64, Vec<usize>)> {
        let mut runs: Vec<(u64, Vec<usize>)> = Vec::new();
        let mut before: Option<(usize, &Piece)> = None;
        for &(rank, number) in lane {
            let Some((file, piece)) = self.files.get(rank).and_then(|file| Some((file, file.pieces.get(number)?)))
            else {
                continue;
            };
            let follows = before.is_some_and(|(other, before)| {
                let trailing = |piece: &Piece| piece.shape.get(1..).map(<[usize]>::to_vec);
                other == rank
                    && piece.variable.is_some()
                    && before.variable == piece.variable
                    && before.offset + before.length == piece.offset
                    && trailing(before).is_some_and(|shape| Some(shape) == trailing(piece))
            });
            match runs.last_mut().filter(|_| follows) {
                Some((length, shape)) => {
                    *length += piece.length;
                    if let (Some(rows), Some(more)) = (shape.first_mut(), piece.shape.first()) {
                        *rows += more;
                    }
                }
                None => runs.push((piece.length, piece.shape.clone())),
            }
            // A variable that is whole has all of its axes again.
            let variable = piece.variable.and_then(|variable| file.layout.variables.get(variable));
            if let (Some((length, shape)), Some([extent])) = (runs.last_mut(), variable.map(|v| v.extents.as_slice()))
                && *length == extent.length
                && extent.filters.is_empty()
            {
                *shape = extent.shape.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
            }
            before = Some((rank, piece));
        }
        runs
    }

    /// The array that a frame holds.
    ///
    /// # Errors
    /// What reading reports, with the file; `Differs` if it changed.
    pub(crate) fn merged(&self, class: &Class, frame: &Merged) -> Result<(ArraySpec, Vec<u8>)> {
        let mut buffers = MergeBuffers::default();
        self.fetch(frame, &mut buffers)?;
        Ok((self.spec(class, frame), buffers.merged))
    }

    /// Pieces that follow each other are read where they are to lie: memory holds them once.
    fn fetch(&self, frame: &Merged, buffers: &mut MergeBuffers) -> Result<()> {
        let MergeBuffers { piece, fetched, merged, .. } = buffers;
        let target = if frame.block == 0 { &mut *merged } else { &mut *fetched };
        target.clear();
        let mut lengths = Vec::with_capacity(frame.lanes.len());
        for lane in &frame.lanes {
            let before = target.len();
            for &(rank, number) in lane {
                let file = self.files.get(rank).ok_or_else(|| Error::internal(format!("no rank {rank}")))?;
                file.append(&self.values, (rank, number), piece, target)?;
            }
            lengths.push(target.len() - before);
        }
        if frame.block > 0 {
            interleave::merge(fetched, &lengths, frame.block, merged);
        }
        Ok(())
    }

    /// Encodes a frame with the first of the decision's chains that takes it.
    ///
    /// # Errors
    /// As for [`Merger::merged`]; what the last chain reports.
    pub(crate) fn encode(
        &self,
        codecs: &CodecList,
        class: &Class,
        frame: &Merged,
        decision: &Decision,
        verify: bool,
        buffers: &mut MergeBuffers,
    ) -> Result<Vec<u8>> {
        self.fetch(frame, buffers)?;
        let spec = self.spec(class, frame);
        let mut out = Vec::new();
        encode(codecs, &decision.chains, &spec, verify, buffers, &mut out)?;
        out.shrink_to_fit();
        if self.bytes(frame) > TARGET_FRAME {
            // Not every worker may keep as much.
            *buffers = MergeBuffers::default();
        }
        Ok(out)
    }
}

fn encode(
    codecs: &CodecList,
    chains: &[ChainSpec],
    spec: &ArraySpec,
    verify: bool,
    buffers: &mut MergeBuffers,
    out: &mut Vec<u8>,
) -> Result<()> {
    let stored = ChainSpec::raw();
    let mut failed = Error::internal("no chain was tried");
    // Not every chain takes every shape and size.
    for chain in chains.iter().chain([&stored]) {
        let encoder = ChunkEncoder::new(codecs, chain, None, spec.clone(), None, verify, Container::Filter);
        match encoder.and_then(|encoder| encoder.encode(&buffers.merged, &mut buffers.buffers, out)) {
            Ok(_) => return Ok(()),
            Err(error) => failed = error.at_once(&format!("chain '{chain}'")),
        }
    }
    Err(failed)
}
