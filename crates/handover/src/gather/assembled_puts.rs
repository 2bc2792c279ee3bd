//! Reads back what all ranks have put into one file: any region of any variable.
//!
//! Ranks put regions of any shape, so a region is assembled from all puts that intersect it. If puts overlap, the later
//! collective call counts, as it would in a file. Logs are read when the file is opened, the puts into a variable when it is
//! first read.

use std::path::PathBuf;
use std::sync::Arc;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::{Region, Regions};
use knarr_flow::ahead::Ahead;
use knarr_flow::remote_encoder::RemoteEncoder;
use knarr_flow::store::Values;

use crate::encode::ahead_chunks::AheadChunks;
use crate::encode::node_list::NodeList;
use crate::gather::copying::{Copying, Lattice};
use crate::gather::moves::{Answer, Beneath};
use crate::gather::pattern::{Log, Pattern, Question};
use crate::gather::rank_values::{Rank, RankValues};
use crate::gather::source::Source;
use crate::gather::variable_puts::VariablePuts;
use crate::log::put::Put;
use crate::remote::remote_values::Of;

/// The puts of all ranks.
#[derive(Debug, Default)]
pub struct AssembledPuts {
    ranks: Vec<Rank>,
    nodes: NodeList,
    pattern: Arc<Pattern>,
    /// How regions are read is remembered in the pattern.
    remembers: bool,
    /// Chunks that were encoded before.
    ahead: Option<AheadChunks>,
    /// Chunks in which nothing was put are not there.
    has_gaps: bool,
}

impl Values for AssembledPuts {
    fn read(&self, number: usize, region: &Region, padding: &[u8], out: &mut Vec<u8>) -> Result<()> {
        Self::read(self, number, region, padding, out)
    }

    /// Parallel HDF5 allocates all chunks when a dataset is made, and its releases up to 1.10 cannot read datasets with filters
    /// together where chunks are missing.
    fn is_written(&self, number: usize, region: &Region) -> bool {
        !self.has_gaps || Self::is_written(self, number, region)
    }

    fn remote_encoder(&self) -> Option<&dyn RemoteEncoder> {
        if self.nodes.len() > 0 { Some(self) } else { None }
    }

    fn ahead(&self) -> Option<&dyn Ahead> {
        if self.ahead.is_some() { Some(self) } else { None }
    }
}

impl AssembledPuts {
    /// Opens the values and the log of each rank.
    ///
    /// # Errors
    /// As for [`AssembledPuts::until`].
    pub fn open(ranks: impl IntoIterator<Item = (PathBuf, PathBuf)>) -> Result<Self> {
        Self::until(u64::MAX, ranks)
    }

    /// As [`AssembledPuts::open`], without puts of later collective calls than number `last`: other ranks may be ahead.
    ///
    /// # Errors
    /// `NotFound` or `Read`; `Corrupt` for a log that makes no sense, and for puts whose values are not all there.
    pub fn until(last: u64, ranks: impl IntoIterator<Item = (PathBuf, PathBuf)>) -> Result<Self> {
        Self::of(last, here(ranks))
    }

    /// As [`AssembledPuts::until`], from wherever values and logs are.
    ///
    /// # Errors
    /// As for [`AssembledPuts::until`]; those of links.
    pub fn of(last: u64, ranks: impl IntoIterator<Item = RankValues>) -> Result<Self> {
        Self::with_pattern(last, ranks, None)
    }

    /// As [`AssembledPuts::of`], and how regions are read is remembered in [`AssembledPuts::pattern`]. What is known `before` is used
    /// if the logs are the same; otherwise it has no effect.
    ///
    /// # Errors
    /// As for [`AssembledPuts::until`].
    pub fn replaying(
        last: u64,
        ranks: impl IntoIterator<Item = RankValues>,
        before: Option<Arc<Pattern>>,
    ) -> Result<Self> {
        Self::with_pattern(last, ranks, before).map(|gathered| Self { remembers: true, ..gathered })
    }

    fn with_pattern(
        last: u64,
        ranks: impl IntoIterator<Item = RankValues>,
        before: Option<Arc<Pattern>>,
    ) -> Result<Self> {
        let held: Vec<RankValues> = ranks.into_iter().collect();
        // Values are there before their records, and the rank may go on putting.
        let read = held.iter().map(RankValues::read).collect::<Result<Vec<_>>>()?;
        let (logs, values): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        let pattern = Pattern::of(last, logs, before).map_err(|error| match held.first() {
            Some(held) => error.at(held.place()),
            None => error,
        })?;
        let open = |((held, values), log): ((&RankValues, _), &Log)| {
            Rank::open(values, log.first, log.ends).map_err(|error| error.at(held.place()))
        };
        let ranks = held.iter().zip(values).zip(pattern.logs()).map(open).collect::<Result<Vec<_>>>()?;
        Ok(Self { ranks, nodes: NodeList::of(&held), pattern, remembers: false, ahead: None, has_gaps: false })
    }

    /// With chunks that were encoded before, or are encoded for later.
    #[must_use]
    pub fn with_ahead(self, ahead: Option<AheadChunks>) -> Self {
        Self { ahead, ..self }
    }

    /// Of a file that HDF5 would have written without MPI: chunks in which nothing was put are not there.
    #[must_use]
    pub fn with_gaps(self, has_gaps: bool) -> Self {
        Self { has_gaps, ..self }
    }

    pub(crate) fn ahead_chunks(&self) -> Option<&AheadChunks> {
        self.ahead.as_ref()
    }

    /// Bytes of the records of all ranks, as [`PutLog::close`](crate::PutLog::close) tells of each.
    pub fn logged(&self) -> u64 {
        self.pattern.logs().iter().map(|log| log.recorded).sum()
    }

    /// True if the logs had puts of later collective calls, which are not there.
    pub fn has_later(&self) -> bool {
        self.pattern.has_later()
    }

    /// What the puts are, for another file with equal ones.
    pub fn pattern(&self) -> Arc<Pattern> {
        Arc::clone(&self.pattern)
    }

    pub(crate) fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// The other nodes that have values.
    pub(crate) fn nodes(&self) -> &NodeList {
        &self.nodes
    }

    /// Calls `check` with the number of each variable and each put into it that has elements.
    ///
    /// # Errors
    /// Those of `check`; `Corrupt` for a put that makes no sense.
    pub fn check(&self, check: impl FnMut(usize, &Put) -> Result<()>) -> Result<()> {
        self.pattern.check(check)
    }

    /// The extents in which most of the values of a variable were put; `None` if there are none.
    ///
    /// # Errors
    /// `Corrupt` for puts that make no sense.
    pub fn usual_extents(&self, variable: usize) -> Result<Option<Vec<u64>>> {
        Ok(self.pattern.puts_of(variable)?.and_then(VariablePuts::usual_extents))
    }

    /// True if some element of the region was put; also if nobody can tell.
    pub fn is_written(&self, variable: usize, region: &Region) -> bool {
        let wanted = Lattice { start: &region.start, count: &region.count, stride: &[] };
        match self.pattern.puts_of(variable) {
            Ok(puts) => puts.is_some_and(|puts| Copying::new(&self.ranks, variable, puts).is_any_put(wanted)),
            Err(_) => true,
        }
    }

    /// Replaces the contents of `out` with the elements of a region, row-major; elements that were not put are `padding`.
    ///
    /// # Errors
    /// `Read`; `Corrupt` if the values became shorter; `Unsupported` if there are too many.
    pub fn read(&self, variable: usize, region: &Region, padding: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.resize(byte_count(region.volume(), padding.len())?, 0);
        self.read_strided(variable, region, &[], Beneath::Fill(padding), out)
    }

    /// Every `stride`-th element of a region along each axis, into memory that has just the room for them; the region's count
    /// is that of the elements wanted. Without strides all of them.
    ///
    /// # Errors
    /// As for [`AssembledPuts::read_regions`].
    pub fn read_strided(
        &self,
        variable: usize,
        region: &Region,
        stride: &[u64],
        beneath: Beneath<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        self.read_regions(variable, &Regions::from(region), stride, beneath, out)
    }

    /// As [`AssembledPuts::read_strided`], of many regions, one behind the other.
    ///
    /// # Errors
    /// As for [`AssembledPuts::read`]; `NotFound` for elements that were not put, if those are no fill values.
    pub fn read_regions(
        &self,
        variable: usize,
        regions: &Regions,
        stride: &[u64],
        beneath: Beneath<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        if out.len() != byte_count(regions.volume(), beneath.size())? {
            return Err(Error::internal("memory of another size than the regions"));
        }
        if !self.remembers {
            return self.look_up(variable, regions, stride, beneath, out, None);
        }
        let size = beneath.size();
        let question = Question { variable, regions: regions.clone(), stride: stride.to_vec(), size };
        // Elements that were fill values may be an error now.
        let holds = |answer: &Arc<Answer>| !answer.fills || matches!(beneath, Beneath::Fill(_));
        if let Some(answer) = self.pattern.answer(&question).filter(holds) {
            let dtype = self.pattern.puts_of(variable)?.and_then(VariablePuts::dtype);
            return Source::new(&self.ranks, Some(Of { variable, dtype })).replay(&answer, beneath, out);
        }
        let mut answer = Answer::default();
        self.look_up(variable, regions, stride, beneath, out, Some(&mut answer))?;
        self.pattern.remember(question, answer);
        Ok(())
    }

    fn look_up(
        &self,
        variable: usize,
        regions: &Regions,
        stride: &[u64],
        beneath: Beneath<'_>,
        out: &mut [u8],
        mut answer: Option<&mut Answer>,
    ) -> Result<()> {
        let nothing = VariablePuts::default();
        let mut copying = Copying::new(&self.ranks, variable, self.pattern.puts_of(variable)?.unwrap_or(&nothing));
        let mut begin = 0;
        for (start, count) in regions.iter() {
            let bytes = usize::try_from(count.iter().product::<u64>()).unwrap_or(usize::MAX) * beneath.size();
            let wanted = Lattice { start, count, stride };
            let here = begin..begin + bytes;
            begin += bytes;
            if let Some(missing) = copying.copy(wanted, beneath, out, here, answer.as_deref_mut())? {
                let element = wanted.element(missing);
                return Err(Error::new(ErrorKind::NotFound, format!("element {element:?} was never put")));
            }
        }
        copying.finish(out)
    }
}

fn here(ranks: impl IntoIterator<Item = (PathBuf, PathBuf)>) -> impl Iterator<Item = RankValues> {
    ranks.into_iter().map(|(values, log)| RankValues::Here { values, log })
}

/// Bytes of so many elements.
fn byte_count(elements: Option<u64>, size: usize) -> Result<usize> {
    let bytes = elements.and_then(|n| usize::try_from(n).ok()?.checked_mul(size));
    bytes.ok_or_else(|| Error::unsupported("the region has too many elements"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::Path;

    use crate::log::put::Part;
    use crate::log::puts::{PutLog, Room};
    use knarr_array::array::DType;
    use knarr_array::region::{Placed, copy_region};

    /// Numbers that are the same in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % end
        }
    }

    fn room(folder: &Path, rank: usize, most: u64) -> Room {
        let more = folder.join(format!("disk.{rank}"));
        Room::of_process(folder, most.saturating_add(4096), more)
    }

    /// The parts of elements of so many bytes that some put has: none if it has whole ones.
    fn random_parts(random: &mut Random, size: u32) -> Vec<Part> {
        let (mut parts, mut at) = (Vec::new(), 0);
        while at < size {
            let len = 1 + u32::try_from(random.below(3)).unwrap().min(size - at - 1);
            if random.below(2) == 0 {
                parts.push(Part { at, len });
            }
            at += len;
        }
        parts
    }

    /// Puts of random regions, strides and parts of elements by three ranks, into a plain array as well.
    #[test]
    fn any_region_reads_as_from_a_plain_array() {
        let shape = [6u64, 7, 5];
        for seed in 0..120 {
            let mut random = Random(seed);
            let folder = std::env::temp_dir().join(format!("knarr-gathered-{}-{seed}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let names = |rank: usize| (format!("values.{rank}"), format!("log.{rank}"));
            let mut logs: Vec<PutLog> = (0..3)
                .map(|rank| PutLog::create(room(&folder, rank, 300), &names(rank).0, &names(rank).1).unwrap())
                .collect();
            // In every second one, puts have parts of elements.
            let (wide, has_parts) = if seed % 2 == 0 { (2, false) } else { (7, true) };
            let size = usize::try_from(wide).unwrap();
            let fill = vec![9u8; size];
            let mut plain = vec![9u8; 6 * 7 * 5 * size];
            for order in 0..random.below(14) {
                let rank = usize::try_from(random.below(3)).unwrap();
                let stride: Vec<u64> = shape.iter().map(|_| 1 + random.below(3)).collect();
                let start: Vec<u64> = shape.iter().map(|&n| random.below(n)).collect();
                let count: Vec<u64> =
                    (0..3).map(|axis| random.below((shape[axis] - start[axis]).div_ceil(stride[axis]) + 1)).collect();
                let stride = if stride == [1, 1, 1] || order % 2 == 0 { Vec::new() } else { stride };
                let boxes = Regions::from(&Region::new(start, count));
                let parts = if has_parts { random_parts(&mut random, wide) } else { Vec::new() };
                let dtype = DType::Opaque(wide);
                let mut put = Put { variable: 1, dtype, boxes, stride, parts, order, offset: 0 };
                put.offset = logs[rank].reserve(put.byte_len()).unwrap();
                let values: Vec<u8> =
                    (0..put.byte_len()).map(|_| 10 + u8::try_from(random.below(240)).unwrap()).collect();
                logs[rank].write(put.offset, put.lies_as(), &values).unwrap();
                logs[rank].push(std::slice::from_ref(&put)).unwrap();
                let mut values = values.into_iter();
                let bytes: Vec<usize> = match put.parts.as_slice() {
                    [] => (0..size).collect(),
                    parts => parts.iter().flat_map(|part| part.at..part.at + part.len).map(|at| at as usize).collect(),
                };
                let (first, count) = put.boxes.get(0);
                for x in 0..count[0] {
                    for y in 0..count[1] {
                        for z in 0..count[2] {
                            let at = |axis: usize, n: u64| first[axis] + n * put.stride.get(axis).unwrap_or(&1);
                            let at = usize::try_from((at(0, x) * 7 + at(1, y)) * 5 + at(2, z)).unwrap() * size;
                            bytes.iter().for_each(|byte| plain[at + byte] = values.next().unwrap());
                        }
                    }
                }
            }
            let gathered = AssembledPuts::open((0..3).map(|rank| {
                let (values, log) = names(rank);
                (folder.join(values), folder.join(log))
            }))
            .unwrap();
            for _ in 0..40 {
                let start: Vec<u64> = shape.iter().map(|&n| random.below(n)).collect();
                let count: Vec<u64> = (0..3).map(|axis| 1 + random.below(shape[axis] - start[axis])).collect();
                let region = Region::new(start, count);
                let mut out = vec![1; 3];
                gathered.read(1, &region, &fill, &mut out).unwrap();
                let mut expected = vec![0; out.len()];
                let zero = [0; 3];
                let from = Placed { shape: &shape, start: &region.start };
                copy_region(
                    &plain,
                    from,
                    &mut expected,
                    Placed { shape: &region.count, start: &zero },
                    &region.count,
                    size,
                );
                assert_eq!(out, expected, "seed {seed} {region:?}");
                let is_padding = expected.iter().all(|&byte| byte == 9);
                assert_eq!(gathered.is_written(1, &region), !is_padding, "seed {seed} {region:?}");
                let stride: Vec<u64> = region.count.iter().map(|_| 1 + random.below(3)).collect();
                let wide: Vec<u64> = region.count.iter().zip(&stride).map(|(n, step)| n.div_ceil(*step)).collect();
                let wanted = Region::new(region.start.clone(), wide.clone());
                out.resize(usize::try_from(wanted.volume().unwrap()).unwrap() * size, 0);
                gathered.read_strided(1, &wanted, &stride, Beneath::Fill(&fill), &mut out).unwrap();
                let mut picked = Vec::new();
                let lattice = Lattice { start: &wanted.start, count: &wanted.count, stride: &stride };
                for number in 0..wanted.volume().unwrap() {
                    let at = lattice.element(number).iter().zip(shape).fold(0, |at, (n, extent)| at * extent + n);
                    let at = usize::try_from(at).unwrap() * size;
                    picked.extend_from_slice(&plain[at..at + size]);
                }
                assert_eq!(out, picked, "seed {seed} {wanted:?} {stride:?}");
                // Without a fill value all has to be there, and the first element that is not is named.
                for (region, stride, expected) in [(&region, Vec::new(), &expected), (&wanted, stride, &picked)] {
                    let mut out = vec![0; expected.len()];
                    let read = gathered.read_strided(1, region, &stride, Beneath::Nothing(size), &mut out);
                    let Some(number) = expected.chunks_exact(size).position(|value| value.contains(&9)) else {
                        read.unwrap();
                        assert_eq!(out, *expected, "seed {seed} {region:?} {stride:?}");
                        continue;
                    };
                    let lattice = Lattice { start: &region.start, count: &region.count, stride: &stride };
                    let element = lattice.element(number as u64);
                    assert!(read.unwrap_err().to_string().contains(&format!("element {element:?} ")), "seed {seed}");
                }
            }
            std::fs::remove_dir_all(folder).unwrap();
        }
    }

    /// A file with the values `value` in puts that adjoin or not, and one with other puts.
    fn file(folder: &Path, value: u8, shift: u64) -> impl Iterator<Item = (PathBuf, PathBuf)> + use<> {
        let folder = folder.join(format!("{value}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        for rank in 0..2u64 {
            let number = usize::try_from(rank).unwrap();
            let (values, log) = (format!("values.{rank}"), format!("log.{rank}"));
            let mut log = PutLog::create(room(&folder, number, 40), &values, &log).unwrap();
            let mut boxes = Regions::new(2);
            (0..10).for_each(|n| boxes.push(&[n, 4 * rank + shift * (n / 9)], &[1, 4]));
            let mut put = Put {
                variable: 0,
                dtype: DType::U8,
                boxes,
                stride: Vec::new(),
                parts: Vec::new(),
                order: 1,
                offset: 0,
            };
            put.offset = log.reserve(put.byte_len()).unwrap();
            log.write(put.offset, put.dtype, &[value + u8::try_from(rank).unwrap(); 40]).unwrap();
            log.push(&[put]).unwrap();
        }
        (0..2).map(move |rank| (folder.join(format!("values.{rank}")), folder.join(format!("log.{rank}"))))
    }

    #[test]
    fn what_was_found_out_holds_for_equal_puts_and_for_no_others() {
        let folder = std::env::temp_dir().join(format!("knarr-gathered-replay-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut before = None;
        let whole = Region::whole(&[10, 8]);
        let mut parts = Regions::new(2);
        (0..10).for_each(|n| parts.push(&[n, n % 3], &[1, 5]));
        for (value, shift) in [(10, 0), (20, 0), (30, 1), (40, 1), (50, 0)] {
            let gathered =
                AssembledPuts::replaying(u64::MAX, here(file(&folder, value, shift)), before.clone()).unwrap();
            let is_known = before.as_ref().is_some_and(|before| Arc::ptr_eq(before, &gathered.pattern()));
            assert_eq!(is_known, value == 20 || value == 40);
            let plain = AssembledPuts::open(file(&folder, value, shift)).unwrap();
            for (regions, beneath) in [
                (&Regions::from(&whole), Beneath::Fill(&[9])),
                (&parts, Beneath::Nothing(1)),
                (&parts, Beneath::Fill(&[9])),
                (&Regions::from(&whole), Beneath::Nothing(1)),
            ] {
                let len = usize::try_from(regions.volume().unwrap()).unwrap();
                let (mut out, mut expected) = (vec![1; len], vec![2; len]);
                let read = gathered.read_regions(0, regions, &[], beneath, &mut out);
                let told = plain.read_regions(0, regions, &[], beneath, &mut expected);
                // What is missing is missed, known or not.
                assert_eq!(read.as_ref().map_err(ToString::to_string), told.as_ref().map_err(ToString::to_string));
                assert_eq!(read.is_err(), shift == 1 && beneath == Beneath::Nothing(1), "{value}");
                if read.is_ok() {
                    assert_eq!(out, expected, "{value}");
                    assert!(out.contains(&value));
                }
            }
            before = Some(gathered.pattern());
        }
        // Equal puts whose values are not there.
        let ranks: Vec<(PathBuf, PathBuf)> = file(&folder, 60, 0).collect();
        File::options().write(true).open(&ranks[1].0).unwrap().set_len(39).unwrap();
        assert!(AssembledPuts::replaying(u64::MAX, here(ranks), before).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn values_that_are_cut_are_noticed() {
        let folder = std::env::temp_dir().join(format!("knarr-gathered-cut-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut log = PutLog::create(room(&folder, 0, u64::MAX), "values", "log").unwrap();
        let put = Put {
            variable: 0,
            dtype: DType::F64,
            boxes: Regions::from(&Region::new([0], [10])),
            stride: Vec::new(),
            parts: Vec::new(),
            order: 0,
            offset: log.reserve(80).unwrap(),
        };
        log.write(0, DType::F64, &[1; 79]).unwrap();
        File::options().write(true).open(folder.join("values")).unwrap().set_len(79).unwrap();
        log.push(&[put]).unwrap();
        let error = AssembledPuts::open([(folder.join("values"), folder.join("log"))]).unwrap_err();
        assert!(error.to_string().contains("not all there"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
