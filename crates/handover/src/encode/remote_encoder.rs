//! Has chunks encoded on another node that has all of their values.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use knarr_array::error::{Error, Result};
use knarr_array::region::Region;
use knarr_flow::remote_encoder::{ChunkToEncode, PendingChunk, Proven, RemoteEncoder};
use knarr_flow::reserved::ReservedOffset;
use knarr_link::LONGEST_QUESTION;

use crate::encode::chunk_question::{ChunkQuestion, LARGEST, PROGRAM, bits};
use crate::encode::encoding::split;
use crate::gather::assembled_puts::AssembledPuts;
use crate::gather::copying::{Copying, Lattice};
use crate::gather::moves::Answer;
use crate::remote::remote_values::Question;

impl AssembledPuts {
    /// How a region is copied, which is `size` bytes an element.
    fn moves_of(&self, variable: usize, region: &Region, size: usize) -> Result<Answer> {
        match self.pattern().puts_of(variable)? {
            Some(puts) => Copying::new(self.ranks(), variable, puts).plan(whole(region), size),
            None => Ok(Answer { moves: Vec::new(), fills: true }),
        }
    }

    /// A chunk as it is asked for: how it is encoded, and where its values are.
    ///
    /// # Errors
    /// `Corrupt` for puts that make no sense.
    pub(crate) fn question(&self, chunk: &ChunkToEncode<'_>) -> Result<ChunkQuestion> {
        let ChunkToEncode { variable, region, padding, recipe } = *chunk;
        let Answer { mut moves, fills } = self.moves_of(variable, region, padding.len())?;
        let mut ranks: Vec<usize> = moves.iter().map(|one| one.file / 2).collect();
        ranks.sort_unstable();
        ranks.dedup();
        for one in &mut moves {
            let number = ranks.binary_search(&(one.file / 2)).map_err(|_| Error::internal("values of no rank"))?;
            one.file = 2 * number + one.file % 2;
        }
        let (program, bound, recipe) = (PROGRAM.to_owned(), bits(recipe.bound), recipe.clone());
        let (count, padding) = (region.count.clone(), padding.to_vec());
        Ok(ChunkQuestion { program, recipe, bound, count, padding, fills, ranks, moves })
    }
}

/// True if a chunk is where it belongs.
fn is_in_place(kept: &PendingChunk, ReservedOffset { path, offset }: &ReservedOffset) -> bool {
    let mut found = vec![0; usize::try_from(kept.length).unwrap_or_default()];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut found, *offset));
    read.is_ok() && crc32c::crc32c(&found) == kept.checksum
}

fn whole(region: &Region) -> Lattice<'_> {
    Lattice { start: &region.start, count: &region.count, stride: &[] }
}

impl RemoteEncoder for AssembledPuts {
    fn nodes(&self) -> usize {
        self.nodes().len()
    }

    fn node_of(&self, variable: usize, region: &Region) -> Option<usize> {
        let pattern = self.pattern();
        let puts = pattern.puts_of(variable).ok()??;
        let ranks = Copying::new(self.ranks(), variable, puts).ranks(whole(region));
        self.nodes().common(ranks.into_iter())
    }

    fn encode(
        &self,
        number: usize,
        chunk: &ChunkToEncode<'_>,
        may_keep: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Proven>> {
        let node = self.nodes().node(number).filter(|node| node.encodes() && chunk.recipe.spec.byte_len() <= LARGEST);
        let Some(node) = node else { return Ok(None) };
        let (wanted, may_keep) = (Box::new(self.question(chunk)?), may_keep && node.keeps());
        let question = Question::Chunk { file: node.file.clone(), chunk: wanted, may_keep }.to_bytes()?;
        if question.len() > LONGEST_QUESTION {
            return Ok(None);
        }
        let told = node.link.ask(&question).and_then(|answer| split(&answer, out));
        let told = told.and_then(|proven| match proven.kept {
            Some(_) if !may_keep || !out.is_empty() => Err(Error::corrupt("an answer that makes no sense")),
            _ => Ok(proven),
        });
        // If the node is gone, reading its values tells.
        Ok(told.map_err(|_| node.decline()).ok())
    }

    fn write(&self, number: usize, chunks: &[(PendingChunk, ReservedOffset)]) -> bool {
        let Some(node) = self.nodes().node(number) else { return false };
        // Files of one output come one behind the other. All of them are asked for, so that nothing stays there.
        let is_written = chunks.chunk_by(|(_, one), (_, next)| one.path == next.path).fold(true, |all, of_one| {
            let path = of_one.first().map(|(_, at)| at.path.as_os_str().as_bytes().to_vec()).unwrap_or_default();
            let chunks = of_one.iter().map(|(kept, at)| (*kept, at.offset)).collect();
            let question = Question::Write { file: node.file.clone(), path, chunks };
            question.to_bytes().and_then(|question| node.link.ask(&question)).is_ok() && all
        });
        // What one node has written another one sees, or it has written to another file of that name.
        let is_there = is_written && chunks.first().is_none_or(|(kept, at)| is_in_place(kept, at));
        node.has_written(is_there);
        is_there
    }

    fn sync(&self, number: usize) -> Result<()> {
        let node = self.nodes().node(number).ok_or_else(|| Error::internal("no such node"))?;
        let synced = node.link.ask(&Question::Sync { file: node.file.clone() }.to_bytes()?);
        synced.map(drop).map_err(|error| error.at(format!("node '{}'", node.link.node())))
    }
}
