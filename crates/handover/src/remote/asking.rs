//! Values of ranks on other nodes: moves wait until there are many, and are made in pieces, of which several are under way at
//! a time. For each piece every file of values is asked once, however often the moves go from one to another.

use std::sync::mpsc::sync_channel;

use knarr_array::error::{Error, Result};

use crate::gather::runs::Move;
use crate::remote::remote_values::{LONGEST_VALUES, MOST_RUNS, Runs};

/// Bytes and moves that wait, at most.
const MOST_BYTES: u64 = 1 << 28;
const MOST_MOVES: usize = 1 << 16;
/// Pieces that are under way at a time, each on a connection of its own: while one crosses the network, others are prepared.
const STREAMS: usize = 4;

/// Moves that wait.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    moves: Vec<Move>,
    bytes: u64,
}

/// Moves that are made together, in their order: where they overlap, the last one counts.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    /// Each with the number of its part.
    pub(crate) moves: Vec<(usize, Move)>,
    pub(crate) parts: Vec<Part>,
    bytes: u64,
}

/// What is asked for at once: of one file of values, in the order of the moves.
#[derive(Debug)]
pub(crate) struct Part {
    /// As in a [`Move`].
    pub(crate) file: usize,
    /// What adjoins there is one.
    pub(crate) runs: Vec<Runs>,
    pub(crate) bytes: u64,
}

impl Piece {
    /// Adds a move if there is room for it.
    fn push(&mut self, one: Move) -> bool {
        let part = self.parts.iter().rposition(|part| part.file == one.file);
        let is_long = part.and_then(|part| self.parts.get(part)).is_some_and(|part| part.runs.len() >= MOST_RUNS);
        if is_long || !self.moves.is_empty() && self.bytes + one.bytes() > LONGEST_VALUES {
            return false;
        }
        let runs = match one.from_step == one.len as u64 {
            // They lie apart only where they are wanted.
            true => Runs { from: one.from, length: one.bytes(), count: 1, step: one.from_step },
            false => Runs { from: one.from, length: one.len as u64, count: one.runs, step: one.from_step },
        };
        self.bytes += one.bytes();
        self.moves.push((part.unwrap_or(self.parts.len()), one));
        match part.and_then(|part| self.parts.get_mut(part)) {
            None => self.parts.push(Part { file: one.file, runs: vec![runs], bytes: one.bytes() }),
            Some(part) => {
                part.bytes += one.bytes();
                match part.runs.last_mut().filter(|before| before.adjoins(&runs)) {
                    Some(before) => before.length += runs.length,
                    None => part.runs.push(runs),
                }
            }
        }
        true
    }
}

impl Asking {
    /// Adds a move. True if no more should wait.
    pub(crate) fn push(&mut self, one: Move) -> bool {
        let most = usize::try_from(LONGEST_VALUES).unwrap_or(usize::MAX);
        self.bytes += one.bytes();
        if one.len > most {
            for run in 0..one.runs {
                let (from, to) = one.run(run);
                for begin in (0..one.len).step_by(most) {
                    let len = (one.len - begin).min(most);
                    self.moves.push(Move { from: from + begin as u64, to: to + begin, len, runs: 1, ..one });
                }
            }
        } else {
            let together = (most / one.len.max(1)).max(1) as u64;
            let mut first = 0;
            while first < one.runs {
                let ((from, to), runs) = (one.run(first), together.min(one.runs - first));
                self.moves.push(Move { from, to, runs, ..one });
                first += runs;
            }
        }
        self.bytes >= MOST_BYTES || self.moves.len() >= MOST_MOVES
    }

    /// Takes all that wait, in their order.
    pub(crate) fn take(&mut self) -> Vec<Piece> {
        self.bytes = 0;
        let mut pieces: Vec<Piece> = Vec::new();
        for one in std::mem::take(&mut self.moves) {
            if !pieces.last_mut().is_some_and(|last| last.push(one)) {
                let mut piece = Piece::default();
                piece.push(one);
                pieces.push(piece);
            }
        }
        pieces
    }
}

/// Calls `fetch` for the parts of each piece, several pieces at a time, and `place` with what it gave, in order.
///
/// # Errors
/// The first error of either; `Unsupported` if no thread can be started.
pub(crate) fn in_order(
    pieces: &[Piece],
    fetch: impl Fn(&Part) -> Result<Vec<u8>> + Sync,
    mut place: impl FnMut(&Piece, Vec<Vec<u8>>) -> Result<()>,
) -> Result<()> {
    let fetch = |piece: &Piece| piece.parts.iter().map(&fetch).collect::<Result<Vec<_>>>();
    if let [piece] = pieces {
        return place(piece, fetch(piece)?);
    }
    let streams = STREAMS.min(pieces.len());
    std::thread::scope(|scope| {
        let mut lanes = Vec::with_capacity(streams);
        for first in 0..streams {
            let (send, receive) = sync_channel(0);
            let fetch = &fetch;
            let work = move || {
                for piece in pieces.iter().skip(first).step_by(streams) {
                    if send.send(fetch(piece)).is_err() {
                        return;
                    }
                }
            };
            let started = std::thread::Builder::new().name("knarr".to_owned()).spawn_scoped(scope, work);
            started.map_err(|error| Error::unsupported(format!("no thread can be started: {error}")))?;
            lanes.push(receive);
        }
        for (number, piece) in pieces.iter().enumerate() {
            let fetched = lanes.get(number % streams).and_then(|lane| lane.recv().ok());
            place(piece, fetched.ok_or_else(|| Error::internal("a thread has ended"))??)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn one(from: u64, to: usize, len: usize, runs: u64, step: usize) -> Move {
        Move { file: 0, from, to, len, runs, from_step: step as u64 * 2, to_step: step }
    }

    #[test]
    fn pieces_are_short_and_have_all_in_order() {
        let most = usize::try_from(LONGEST_VALUES).unwrap();
        let mut asking = Asking::default();
        let all = [one(0, 0, 8, 1, 8), one(8, 100, 8, 1, 8), one(90, 8, 3 * most, 1, 0), one(7, 3, 100, 30_000, 300)];
        let mut full = false;
        for one in all {
            full |= asking.push(one);
        }
        assert!(!full);
        let pieces = asking.take();
        assert!(pieces.iter().all(|piece| piece.bytes <= LONGEST_VALUES && piece.parts[0].runs.len() <= MOST_RUNS));
        for piece in &pieces {
            let [part] = &piece.parts[..] else { panic!("of one file") };
            assert_eq!(part.runs.iter().map(|runs| runs.length * runs.count).sum::<u64>(), part.bytes);
            assert_eq!(piece.moves.iter().map(|(_, one)| one.bytes()).sum::<u64>(), part.bytes);
        }
        // What adjoins in the file is asked for as one.
        assert_eq!((pieces[0].parts[0].runs[0].length, pieces[0].moves.len()), (16, 2));
        assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<u64>(), all.iter().map(Move::bytes).sum::<u64>());
        assert!(asking.take().is_empty());
        let (from, to) = all[3].run(29_999);
        let (_, last) = pieces.last().unwrap().moves.last().unwrap();
        assert_eq!(last.run(last.runs - 1), (from, to));
    }

    #[test]
    fn each_file_of_a_piece_is_asked_once() {
        let mut asking = Asking::default();
        let all = usize::try_from(LONGEST_VALUES).unwrap() / 4;
        for number in 0..all {
            // Of three files in turn, none beside the one before.
            let from = 8 * number as u64;
            asking.push(Move { file: number % 3, from, ..one(0, 4 * number, 4, 1, 4) });
        }
        let pieces = asking.take();
        assert_eq!(pieces.len(), all.div_ceil(3 * MOST_RUNS));
        let (mut to, mut bytes) = (0, 0);
        for piece in &pieces {
            assert_eq!(piece.parts.iter().map(|part| part.file).collect::<HashSet<_>>().len(), piece.parts.len());
            bytes += piece.parts.iter().map(|part| part.bytes).sum::<u64>();
            for (part, one) in &piece.moves {
                // They keep their order.
                assert_eq!((one.to, piece.parts[*part].file), (to, one.file));
                to += 4;
            }
        }
        assert_eq!((to, bytes), (4 * all, LONGEST_VALUES));
    }

    #[test]
    fn what_is_fetched_is_placed_in_order_and_the_first_error_ends_it() {
        let mut asking = Asking::default();
        // Of 40 pieces.
        let half = usize::try_from(LONGEST_VALUES / 2 + 1).unwrap();
        for number in 0..40 {
            asking.push(Move { file: usize::try_from(number % 2).unwrap(), ..one(number, 0, half, 1, half) });
        }
        let pieces = asking.take();
        assert_eq!(pieces.len(), 40);
        let fetch = |part: &Part| {
            std::thread::sleep(std::time::Duration::from_micros(100 * (part.runs[0].from % 7)));
            Ok(vec![u8::try_from(part.runs[0].from).unwrap()])
        };
        let mut placed = Vec::new();
        in_order(&pieces, fetch, |_, bytes| {
            placed.extend(bytes.concat());
            Ok(())
        })
        .unwrap();
        assert_eq!(placed, (0..40).collect::<Vec<u8>>());
        let refused = |part: &Part| match part.runs[0].from {
            17 => Err(Error::corrupt("seventeen")),
            _ => Ok(Vec::new()),
        };
        let mut count = 0;
        let error = in_order(&pieces, refused, |_, _| {
            count += 1;
            Ok(())
        });
        assert_eq!((error.unwrap_err().message(), count), ("seventeen", 17));
    }
}
