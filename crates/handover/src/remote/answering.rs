//! The side that is asked: an aggregator reads logs and values in its spool.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_array::quality::Observed;

use crate::gather::rank_values::{Found, Rank};
use crate::gather::runs::Move;
use crate::gather::source::Source;
use crate::log::spill::name_of_more;
use crate::remote::packed::{pack, pack_within};
use crate::remote::remote_values::{LONGEST_PIECE, LONGEST_VALUES, Lengths, Question, Runs};
use crate::remote::transfer_bound::Crossed;

/// The answer of an aggregator that has the values and the log of the rank at these paths, to questions about bytes. If
/// these are values of a variable with a bound, what crosses of them is told, too.
///
/// # Errors
/// `NotFound`, `Read`; `Usage` for what cannot be asked.
pub fn answer(question: &Question, values: &Path, log: &Path) -> Result<(Vec<u8>, Option<Crossed>)> {
    let open = |path: &Path| File::open(path).map_err(|error| Error::read(path, &error));
    let length = |path: &Path| path.metadata().map(|found| found.len());
    match *question {
        Question::Log { from, .. } => {
            let file = open(log)?;
            let all = file.metadata().map_err(|error| Error::read(log, &error))?.len();
            let mut bytes = vec![0; usize::try_from(all.saturating_sub(from).min(LONGEST_PIECE)).unwrap_or(0)];
            file.read_exact_at(&mut bytes, from).map_err(|error| Error::read(log, &error))?;
            // Values are there before their records.
            let first = length(values).map_err(|error| Error::read(values, &error))?;
            let lengths = Lengths { log: all, values: first, more: length(&name_of_more(values)).ok() };
            bytes.splice(0..0, lengths.to_bytes());
            Ok((bytes, None))
        }
        Question::Values { more, ref runs, packed, ref within, .. } => {
            let bytes = runs.iter().try_fold(0u64, |sum, runs| sum.checked_add(runs.bytes()?));
            let bytes = bytes.filter(|&bytes| bytes <= LONGEST_VALUES).and_then(|bytes| usize::try_from(bytes).ok());
            let mut found = vec![0; bytes.ok_or_else(|| Error::usage("bytes that nobody can have at once"))?];
            let rank = [Rank::open(Found::Here(values.to_owned()), u64::MAX, [0, 0])?];
            let (mut source, mut to) = (Source::new(&rank, None), 0);
            for &Runs { from, length, count, step } in runs {
                let len = usize::try_from(length).unwrap_or(usize::MAX);
                let file = usize::from(more);
                let one = Move { file, from, to, len, runs: count, from_step: step, to_step: len };
                source.read(one, &mut found)?;
                to += usize::try_from(one.bytes()).unwrap_or(usize::MAX);
            }
            let raw = found.len() as u64;
            let (sent, worst) = match within {
                Some((within, true)) => pack_within(found, packed, within),
                _ => (pack(found, packed), Observed::default()),
            };
            let crossed = within.as_ref().map(|_| Crossed { raw, sent: sent.len() as u64, worst });
            Ok((sent, crossed))
        }
        Question::Chunk { .. }
        | Question::Image { .. }
        | Question::Write { .. }
        | Question::Sync { .. }
        | Question::Number { .. }
        | Question::Outcome { .. }
        | Question::Ended { .. }
        | Question::Bounds { .. } => Err(Error::usage("no question about bytes of a rank")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::assembled_puts::AssembledPuts;
    use crate::gather::moves::Beneath;
    use crate::gather::rank_values::RankValues;
    use crate::log::put::Put;
    use crate::log::puts::{PutLog, Room};
    use crate::remote::remote_values::RemoteRank;
    use crate::remote::wire_codec::WireCodecTuner;
    use knarr_array::array::DType;
    use knarr_array::region::{Region, Regions};
    use knarr_link::{Answers, Link};
    use knarr_testing::MemoryLink;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// An aggregator with one directory.
    struct Aggregator(PathBuf);

    impl Answers for Aggregator {
        fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
            let question = Question::from_bytes(question)?;
            let rank = match &question {
                Question::Log { rank, .. } | Question::Values { rank, .. } => *rank,
                _ => 0,
            };
            let found = answer(&question, &self.0.join(format!("values.{rank}")), &self.0.join(format!("log.{rank}")));
            found.map(|(bytes, _)| bytes)
        }
    }

    /// Three ranks put over each other, in memory and behind it.
    fn put_all(folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        for rank in 0..3u64 {
            let more = folder.join(format!("disk.{rank}"));
            let room = Room::of_process(folder, 4096 + 700, more);
            let mut log = PutLog::create(room, &format!("values.{rank}"), &format!("log.{rank}")).unwrap();
            for order in 0..6u64 {
                let region = Region::new([(order * 5 + rank * 3) % 8, (order * 7 + rank) % 9], [4, 6]);
                let stride = if order % 2 == 0 { Vec::new() } else { vec![2, 1] };
                let offset = log.reserve(4 * 6 * 4).unwrap();
                let value = u32::try_from(1 + rank * 10 + order).unwrap().to_le_bytes();
                log.write(offset, DType::U32, &value.repeat(24)).unwrap();
                let boxes = Regions::from(&region);
                log.push(&[Put { variable: 0, dtype: DType::U32, boxes, stride, parts: Vec::new(), order, offset }])
                    .unwrap();
            }
        }
    }

    #[test]
    fn what_is_far_reads_as_what_is_here() {
        let folder = std::env::temp_dir().join(format!("knarr-far-{}", std::process::id()));
        put_all(&folder);
        let gone = Arc::new(AtomicBool::new(false));
        let link: Arc<dyn Link> =
            Arc::new(MemoryLink::new("b", Arc::new(Aggregator(folder.clone())), Arc::clone(&gone)));
        let here = |rank: usize| RankValues::Here {
            values: folder.join(format!("values.{rank}")),
            log: folder.join(format!("log.{rank}")),
        };
        let there = |rank: usize| {
            RankValues::There(RemoteRank {
                link: Arc::clone(&link),
                file: "f".to_owned(),
                rank,
                tuner: Some(WireCodecTuner::of("b")),
                bounded: None,
            })
        };
        for last in [0, 3, u64::MAX] {
            let near = AssembledPuts::of(last, (0..3).map(here)).unwrap();
            // The second rank is on another node: whose put counts does not depend on that.
            let remote = AssembledPuts::of(last, [here(0), there(1), there(2)]).unwrap();
            for start in [[0, 0], [2, 3], [7, 1]] {
                for count in [[1, 1], [3, 9], [9, 4]] {
                    let region = Region::new(start, count);
                    let (mut expected, mut found) = (Vec::new(), vec![1; 3]);
                    near.read(0, &region, &[9; 4], &mut expected).unwrap();
                    remote.read(0, &region, &[9; 4], &mut found).unwrap();
                    assert_eq!(found, expected, "{region:?} until {last}");
                    found.fill(0);
                    let count = Region::new(start, count.map(|n| n.div_ceil(2)));
                    let bytes = usize::try_from(count.volume().unwrap()).unwrap() * 4;
                    let (mut a, mut b) = (vec![0; bytes], vec![1; bytes]);
                    near.read_strided(0, &count, &[2, 2], Beneath::Fill(&[9; 4]), &mut a).unwrap();
                    remote.read_strided(0, &count, &[2, 2], Beneath::Fill(&[9; 4]), &mut b).unwrap();
                    assert_eq!(a, b, "{count:?} until {last}");
                }
            }
            let mut out = Vec::new();
            gone.store(true, Ordering::Relaxed);
            let error = remote.read(0, &Region::new([0, 0], [16, 16]), &[0; 4], &mut out).unwrap_err();
            assert!(error.to_string().contains("node 'b' is gone"), "{error}");
            gone.store(false, Ordering::Relaxed);
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn hostile_questions_and_answers_are_errors() {
        let folder = std::env::temp_dir().join(format!("knarr-far-hostile-{}", std::process::id()));
        put_all(&folder);
        let (values, log) = (folder.join("values.0"), folder.join("log.0"));
        let file = "f".to_owned();
        let values_of = |from, length, count, step| {
            let (file, runs) = (file.clone(), vec![Runs { from, length, count, step }]);
            Question::Values { file, rank: 0, more: false, runs, packed: Some(DType::U32), within: None }
        };
        for question in [
            values_of(0, u64::MAX, 1, 0),
            values_of(u64::MAX, 10, 1, 0),
            values_of(1 << 40, 10, 1, 0),
            values_of(0, 0, u64::MAX, 0),
            values_of(0, 8, u64::MAX, 8),
            values_of(0, 8, 2, u64::MAX),
            values_of(0, 8, 2, 4),
            values_of(0, 8, 0, 8),
            values_of(0, LONGEST_VALUES + 1, 1, 0),
            Question::Outcome { file: file.clone(), node: String::new(), freed: None },
            Question::Bounds { file: file.clone() },
        ] {
            assert!(answer(&question, &values, &log).is_err(), "{question:?}");
        }
        let nothing = answer(&Question::Log { file, rank: 0, from: u64::MAX }, &values, &log).unwrap().0;
        assert_eq!(nothing.len(), Lengths::BYTES);
        assert!(Question::from_bytes(b"{\"Log\":{}}").is_err() && Question::from_bytes(&[0xFF; 9]).is_err());

        /// Answers everything with the same bytes.
        struct Same(Vec<u8>);
        impl Answers for Same {
            fn answer(&self, _: &[u8]) -> Result<Vec<u8>> {
                Ok(self.0.clone())
            }
        }
        for bytes in [vec![], vec![0; 23], vec![0; 25], vec![0xFF; 24], vec![7; 100]] {
            let link = MemoryLink::new("b", Arc::new(Same(bytes.clone())), Arc::default());
            let remote = RemoteRank { link: Arc::new(link), file: "f".to_owned(), rank: 0, tuner: None, bounded: None };
            assert!(AssembledPuts::of(u64::MAX, [RankValues::There(remote)]).is_err(), "{bytes:?}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_log_that_grows_while_it_is_read_ends_where_it_did() {
        /// Its log has 30 bytes when it is asked first, and 60 then.
        struct Grows;
        impl Answers for Grows {
            fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
                let Question::Log { from, .. } = Question::from_bytes(question)? else { panic!("another question") };
                let (log, bytes) = if from == 0 { (30, 10) } else { (60, 60 - from) };
                let lengths = Lengths { log, values: log, more: None }.to_bytes();
                Ok([lengths.as_slice(), &vec![7; usize::try_from(bytes).unwrap()]].concat())
            }
        }
        let link = Arc::new(MemoryLink::new("b", Arc::new(Grows), Arc::default()));
        let remote = RemoteRank { link, file: "f".to_owned(), rank: 0, tuner: None, bounded: None };
        let (log, values, _) = remote.read().unwrap();
        assert_eq!((log, values.length), (vec![7; 30], 30));
    }
}
