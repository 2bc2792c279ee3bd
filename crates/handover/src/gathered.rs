//! The puts of all ranks into one file, read back: any region of any variable.
//!
//! Ranks put regions of any shape, so a region is gathered from all puts that meet it. Where puts overlap, that of the later
//! collective call counts, as it would in a file.

use std::path::PathBuf;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::{Placed, Region, copy_region, fill, run_length, runs};
use knarr_flow::strided::{self, Place};

use crate::boxes::Boxes;
use crate::held::{Held, Rank, read_error};
use crate::put::Put;
use crate::seen::Seen;

/// The puts of all ranks.
#[derive(Debug, Default)]
pub struct Gathered {
    ranks: Vec<Rank>,
    /// Per variable.
    puts: Vec<Puts>,
}

/// The puts into one variable.
#[derive(Debug, Default)]
struct Puts {
    placed: Vec<Placement>,
    /// The extents of the puts.
    boxes: Boxes,
}

/// A put of a rank.
#[derive(Debug)]
struct Placement {
    rank: usize,
    put: Put,
    /// Later ones count: by collective call, then rank, then the order of the rank.
    order: (u64, usize, usize),
}

/// What elements are that were not put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beneath<'a> {
    /// This element.
    Fill(&'a [u8]),
    /// An error. Elements have so many bytes.
    Nothing(usize),
}

impl Beneath<'_> {
    /// Bytes of an element.
    pub fn size(&self) -> usize {
        match self {
            Self::Fill(element) => element.len(),
            Self::Nothing(size) => *size,
        }
    }
}

impl knarr_flow::store::Values for Gathered {
    fn read(&self, number: usize, region: &Region, padding: &[u8], out: &mut Vec<u8>) -> Result<()> {
        Self::read(self, number, region, padding, out)
    }

    fn is_written(&self, number: usize, region: &Region) -> bool {
        Self::is_written(self, number, region)
    }
}

impl Gathered {
    /// Opens the values and the log of each rank.
    ///
    /// # Errors
    /// As for [`Gathered::until`].
    pub fn open(ranks: impl IntoIterator<Item = (PathBuf, PathBuf)>) -> Result<Self> {
        Self::until(u64::MAX, ranks)
    }

    /// As [`Gathered::open`], without puts of later collective calls than number `last`: other ranks may be ahead.
    ///
    /// # Errors
    /// `NotFound` or `Read`; `Corrupt` for a log that makes no sense, and for puts whose values are not all there.
    pub fn until(last: u64, ranks: impl IntoIterator<Item = (PathBuf, PathBuf)>) -> Result<Self> {
        Self::of(last, ranks.into_iter().map(|(values, log)| Held::Here { values, log }))
    }

    /// As [`Gathered::until`], from wherever values and logs are.
    ///
    /// # Errors
    /// As for [`Gathered::until`]; those of links.
    pub fn of(last: u64, ranks: impl IntoIterator<Item = Held>) -> Result<Self> {
        let mut gathered = Self::default();
        for (rank, held) in ranks.into_iter().enumerate() {
            gathered.add(rank, last, &held)?;
        }
        gathered.puts.iter_mut().for_each(Puts::index);
        Ok(gathered)
    }

    fn add(&mut self, rank: usize, last: u64, held: &Held) -> Result<()> {
        // Values are there before their records, and the rank may go on putting.
        let (puts, of) = Rank::open(held)?;
        for (number, put) in puts.into_iter().enumerate().filter(|(_, put)| put.order <= last) {
            if of.place(&put).is_none() {
                return Err(Error::corrupt("a put whose values are not all there").at(held.place()));
            }
            let variable = put.variable as usize;
            if self.puts.len() <= variable {
                self.puts.resize_with(variable + 1, Puts::default);
            }
            if !put.region.is_empty() {
                let order = (put.order, rank, number);
                self.puts[variable].placed.push(Placement { rank, put, order });
            }
        }
        self.ranks.push(of);
        Ok(())
    }

    /// Calls `check` with the number of each variable and each put into it.
    ///
    /// # Errors
    /// Those of `check`.
    pub fn check(&self, mut check: impl FnMut(usize, &Put) -> Result<()>) -> Result<()> {
        let each = self.puts.iter().enumerate();
        each.flat_map(|(variable, puts)| puts.placed.iter().map(move |placed| (variable, &placed.put)))
            .try_for_each(|(variable, put)| check(variable, put))
    }

    /// Puts into a variable whose extents meet a region, the earliest first.
    fn near(&self, variable: usize, region: &Region) -> Vec<&Placement> {
        let Some(puts) = self.puts.get(variable).filter(|_| !region.is_empty()) else { return Vec::new() };
        let end: Vec<u64> = region.start.iter().zip(&region.count).map(|(at, n)| at.saturating_add(*n)).collect();
        let mut near = Vec::new();
        puts.boxes.meeting(&region.start, &end, |number| near.extend(puts.placed.get(number)));
        near.sort_unstable_by_key(|placed| placed.order);
        near
    }

    /// True if some element of the region was put.
    pub fn is_written(&self, variable: usize, region: &Region) -> bool {
        self.near(variable, region).iter().any(|placed| elements_in(&placed.put, region).is_some())
    }

    /// Replaces the contents of `out` with the elements of a region, row-major; elements that were not put are `padding`.
    ///
    /// # Errors
    /// `Read`; `Corrupt` if the values became shorter; `Unsupported` if there are too many.
    pub fn read(&self, variable: usize, region: &Region, padding: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.resize(byte_count(region, padding.len())?, 0);
        self.read_into(variable, region, Beneath::Fill(padding), out)
    }

    /// As [`Gathered::read`], into memory that has just the room for them.
    ///
    /// # Errors
    /// As for [`Gathered::read`]; `NotFound` for elements that were not put, if those are no fill values.
    pub fn read_into(&self, variable: usize, region: &Region, beneath: Beneath<'_>, out: &mut [u8]) -> Result<()> {
        if out.len() != byte_count(region, beneath.size())? {
            return Err(Error::internal("memory of another size than the region"));
        }
        let missing = |element| not_put(&region.start, &element_of(&region.count, element));
        self.gather(variable, region, beneath, out)?
            .and_then(|seen| seen.first_missing())
            .map_or(Ok(()), |at| Err(missing(at)))
    }

    /// As [`Gathered::read_into`], of every `stride`-th element along each axis; the region's count is that of the elements
    /// wanted.
    ///
    /// # Errors
    /// As for [`Gathered::read_into`].
    pub fn read_strided(
        &self,
        variable: usize,
        region: &Region,
        stride: &[u64],
        beneath: Beneath<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        if stride.is_empty() {
            return self.read_into(variable, region, beneath, out);
        }
        let spans = region.count.iter().zip(stride);
        let count: Vec<u64> = spans.map(|(&n, &step)| if n == 0 { 0 } else { (n - 1) * step + 1 }).collect();
        let extent = Region::new(region.start.clone(), count);
        let size = beneath.size();
        let mut between = vec![0; byte_count(&extent, size)?];
        let seen = self.gather(variable, &extent, beneath, &mut between)?;
        let steps: Vec<u64> =
            Place::dense(0, &extent.count, 1).strides.iter().zip(stride).map(|(d, s)| d * s).collect();
        let mut places = out.chunks_exact_mut(size);
        let mut missing = None;
        each_index(&region.count, |index| {
            let element = index.iter().zip(&steps).map(|(n, step)| n * step).sum::<u64>();
            let at = usize::try_from(element).unwrap_or(usize::MAX).saturating_mul(size);
            if let (Some(place), Some(value)) = (places.next(), between.get(at..at.saturating_add(size))) {
                place.copy_from_slice(value);
            }
            if missing.is_none() && seen.as_ref().is_some_and(|seen| !seen.has(element)) {
                missing = Some(element_of(&extent.count, element));
            }
        });
        missing.map_or(Ok(()), |at| Err(not_put(&region.start, &at)))
    }

    /// Fills `out` with the elements of a region. Returns which of them were put, if there is no fill value and not all were.
    fn gather(&self, variable: usize, region: &Region, beneath: Beneath<'_>, out: &mut [u8]) -> Result<Option<Seen>> {
        let puts = self.near(variable, region);
        let covers = |placed: &&Placement| {
            let extent = placed.put.extent();
            placed.put.stride.is_empty() && extent.intersection(region).as_ref() == Some(region)
        };
        // What lies beneath a put that covers the region is not seen.
        let covering = puts.iter().rposition(covers);
        let mut seen = None;
        match (covering, beneath) {
            (Some(_), _) => {}
            (None, Beneath::Fill(element)) => fill(out, element),
            (None, Beneath::Nothing(_)) => seen = Some(Seen::none_of(region.volume().unwrap_or(0))),
        }
        let mut part = Vec::new();
        for placed in puts.into_iter().skip(covering.unwrap_or(0)) {
            if placed.put.dtype.size() != beneath.size() {
                return Err(Error::corrupt("a put of elements of another size"));
            }
            self.take(placed, region, &mut part, seen.as_mut(), out)?;
        }
        Ok(seen)
    }

    /// Copies what a put has of `region` to `out`, which holds the region.
    fn take(
        &self,
        placed: &Placement,
        region: &Region,
        part: &mut Vec<u8>,
        mut seen: Option<&mut Seen>,
        out: &mut [u8],
    ) -> Result<()> {
        let put = &placed.put;
        let found = self.ranks.get(placed.rank).and_then(|rank| rank.place(put));
        let (values, begin) = found.ok_or_else(|| Error::internal("values of no rank"))?;
        let size = put.dtype.size();
        let Some(met) = elements_in(put, region) else { return Ok(()) };
        let place = Place::dense(begin, &put.region.count, size);
        let (first, end) = span(&place, &met, size);
        let read = |part: &mut Vec<u8>| {
            values.with(first, end, |file| strided::read_region(file, values.length, &place, size, &met, part))
        };
        if !put.stride.is_empty() {
            read(part)?;
            each_place(put, &met, region, |number, at| {
                let bytes = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).saturating_mul(size);
                let (from, to) = (bytes(number), bytes(at));
                let value = part.get(from..from.saturating_add(size));
                if let (Some(value), Some(place)) = (value, out.get_mut(to..to.saturating_add(size))) {
                    place.copy_from_slice(value);
                }
                if let Some(seen) = &mut seen {
                    seen.put(at, 1);
                }
            });
            return Ok(());
        }
        let axes = 0..met.start.len();
        let at: Vec<u64> = axes.map(|axis| put.region.start[axis] + met.start[axis] - region.start[axis]).collect();
        let to = Placed { shape: &region.count, start: &at };
        if let Some(seen) = seen {
            runs(to, to, &met.count, |_, at, length| seen.put(at, length));
        }
        let from = Placed { shape: &put.region.count, start: &met.start };
        let run = run_length(from, to, &met.count);
        if run.saturating_mul(size as u64) < LONG_RUN && met.volume() != Some(run) {
            read(part)?;
            let zero = vec![0; at.len()];
            copy_region(part, Placed { shape: &met.count, start: &zero }, out, to, &met.count, size);
            return Ok(());
        }
        // Long runs, and a single one, are read to where they belong.
        values.with(first, end, |file| {
            let mut done = Ok(());
            runs(from, to, &met.count, |a, b, length| {
                if done.is_ok() {
                    let bytes = |elements: u64| usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(size);
                    let place = out.get_mut(bytes(b)..bytes(b).saturating_add(bytes(length))).unwrap_or_default();
                    done = file.read_exact_at(place, begin + a * size as u64);
                }
            });
            done.map_err(|error| read_error(&error))
        })
    }
}

impl Puts {
    /// Makes the index, when all puts are there.
    fn index(&mut self) {
        let axes = self.placed.iter().map(|placed| placed.put.region.start.len()).max().unwrap_or(0);
        let mut bounds = Vec::with_capacity(2 * axes * self.placed.len());
        for Placement { put, .. } in &self.placed {
            let Region { start, count } = put.extent();
            // Puts of other axes than the variable has are refused elsewhere.
            bounds.extend((0..axes).map(|axis| start.get(axis).copied().unwrap_or(0)));
            bounds
                .extend((0..axes).map(|axis| start.get(axis).zip(count.get(axis)).map_or(u64::MAX, |(at, n)| at + n)));
        }
        self.boxes = Boxes::new(axes, bounds, self.placed.len());
    }
}

/// Runs of so many bytes are worth a call of their own.
const LONG_RUN: u64 = 4096;

/// The first byte of the elements of a region, and the end of the last one.
fn span(place: &Place, region: &Region, size: usize) -> (u64, u64) {
    let at = |axis: usize, index: u64| place.strides[axis] * index;
    let axes = 0..region.start.len();
    let first = place.begin + axes.clone().map(|axis| at(axis, region.start[axis])).sum::<u64>();
    let last = place.begin + axes.map(|axis| at(axis, region.end(axis).saturating_sub(1))).sum::<u64>();
    (first, last + size as u64)
}

/// Bytes of the elements of a region.
fn byte_count(region: &Region, size: usize) -> Result<usize> {
    let elements = region.volume().and_then(|n| usize::try_from(n).ok()?.checked_mul(size));
    elements.ok_or_else(|| Error::unsupported("the region has too many elements"))
}

/// Index of an element of an array, by its number.
fn element_of(count: &[u64], number: u64) -> Vec<u64> {
    let distances = Place::dense(0, count, 1).strides;
    distances.iter().zip(count).map(|(distance, n)| number / distance.max(&1) % n.max(&1)).collect()
}

fn not_put(start: &[u64], index: &[u64]) -> Error {
    let element: Vec<u64> = start.iter().zip(index).map(|(start, index)| start + index).collect();
    Error::new(ErrorKind::NotFound, format!("element {element:?} was never put"))
}

/// Elements of a put that lie in `region`, as a region of the put's own array; none if there are none.
fn elements_in(put: &Put, region: &Region) -> Option<Region> {
    let mut met = Region::new(Vec::new(), Vec::new());
    for axis in 0..region.start.len() {
        let stride = put.stride.get(axis).copied().unwrap_or(1);
        let (start, count) = (put.region.start[axis], put.region.count[axis]);
        let begin = region.start[axis].saturating_sub(start).div_ceil(stride);
        let end = region.end(axis).saturating_sub(start).div_ceil(stride).min(count);
        if begin >= end {
            return None;
        }
        met.start.push(begin);
        met.count.push(end - begin);
    }
    Some(met)
}

/// Calls `f` with the number of each of the elements `met` of a put with strides, and its number in `region`.
fn each_place(put: &Put, met: &Region, region: &Region, mut f: impl FnMut(u64, u64)) {
    let strides = Place::dense(0, &region.count, 1).strides;
    let mut number = 0;
    each_index(&met.count, |index| {
        let at = (0..index.len()).map(|axis| {
            let element = met.start[axis] + index[axis];
            (put.region.start[axis] + element * put.stride[axis] - region.start[axis]) * strides[axis]
        });
        f(number, at.sum());
        number += 1;
    });
}

/// Calls `f` with the index of each element of an array, row-major.
fn each_index(count: &[u64], mut f: impl FnMut(&[u64])) {
    let mut index = vec![0u64; count.len()];
    for _ in 0..count.iter().product::<u64>() {
        f(&index);
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            if index[axis] < count[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::write_calls;
    use crate::puts::{PutLog, Room};
    use knarr_array::array::DType;
    use std::fs::File;
    use std::path::Path;

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
        Room { directory: folder.to_owned(), free: folder.join("free"), most, more }
    }

    /// Puts of random regions and strides by three ranks, into a plain array as well.
    #[test]
    fn any_region_reads_as_from_a_plain_array() {
        let shape = [6u64, 7, 5];
        for seed in 0..60 {
            let mut random = Random(seed);
            let folder = std::env::temp_dir().join(format!("knarr-gathered-{}-{seed}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let names = |rank: usize| (format!("values.{rank}"), format!("log.{rank}"));
            let mut logs: Vec<PutLog> = (0..3)
                .map(|rank| {
                    PutLog::create(room(&folder, rank, 300), &names(rank).0, &names(rank).1, write_calls).unwrap()
                })
                .collect();
            let mut plain = vec![9u8; 6 * 7 * 5 * 2];
            for order in 0..random.below(14) {
                let rank = usize::try_from(random.below(3)).unwrap();
                let stride: Vec<u64> = shape.iter().map(|_| 1 + random.below(3)).collect();
                let start: Vec<u64> = shape.iter().map(|&n| random.below(n)).collect();
                let count: Vec<u64> =
                    (0..3).map(|axis| random.below((shape[axis] - start[axis]).div_ceil(stride[axis]) + 1)).collect();
                let stride = if stride == [1, 1, 1] || order % 2 == 0 { Vec::new() } else { stride };
                let region = Region::new(start, count);
                let value = u16::try_from(order + 1).unwrap().to_le_bytes();
                let mut put = Put { variable: 1, dtype: DType::U16, region, stride, order, offset: 0 };
                put.offset = logs[rank].reserve(put.byte_len()).unwrap();
                let elements = usize::try_from(put.byte_len()).unwrap() / 2;
                logs[rank].write(put.offset, &value.repeat(elements)).unwrap();
                logs[rank].push(std::slice::from_ref(&put)).unwrap();
                for x in 0..put.region.count[0] {
                    for y in 0..put.region.count[1] {
                        for z in 0..put.region.count[2] {
                            let at =
                                |axis: usize, n: u64| put.region.start[axis] + n * put.stride.get(axis).unwrap_or(&1);
                            let at = usize::try_from((at(0, x) * 7 + at(1, y)) * 5 + at(2, z)).unwrap() * 2;
                            plain[at..at + 2].copy_from_slice(&value);
                        }
                    }
                }
            }
            let gathered = Gathered::open((0..3).map(|rank| {
                let (values, log) = names(rank);
                (folder.join(values), folder.join(log))
            }))
            .unwrap();
            for _ in 0..40 {
                let start: Vec<u64> = shape.iter().map(|&n| random.below(n)).collect();
                let count: Vec<u64> = (0..3).map(|axis| 1 + random.below(shape[axis] - start[axis])).collect();
                let region = Region::new(start, count);
                let mut out = vec![1; 3];
                gathered.read(1, &region, &[9, 9], &mut out).unwrap();
                let mut expected = vec![0; out.len()];
                let zero = [0; 3];
                let from = Placed { shape: &shape, start: &region.start };
                copy_region(
                    &plain,
                    from,
                    &mut expected,
                    Placed { shape: &region.count, start: &zero },
                    &region.count,
                    2,
                );
                assert_eq!(out, expected, "seed {seed} {region:?}");
                let is_padding = expected.iter().all(|&byte| byte == 9);
                assert_eq!(gathered.is_written(1, &region), !is_padding, "seed {seed} {region:?}");
                let stride: Vec<u64> = region.count.iter().map(|_| 1 + random.below(3)).collect();
                let wide: Vec<u64> = region.count.iter().zip(&stride).map(|(n, step)| n.div_ceil(*step)).collect();
                let wanted = Region::new(region.start.clone(), wide.clone());
                out.resize(usize::try_from(wanted.volume().unwrap()).unwrap() * 2, 0);
                gathered.read_strided(1, &wanted, &stride, Beneath::Fill(&[9, 9]), &mut out).unwrap();
                let mut picked = Vec::new();
                each_index(&wide, |index| {
                    let at =
                        (0..3).fold(0, |at, axis| at * shape[axis] + region.start[axis] + index[axis] * stride[axis]);
                    let at = usize::try_from(at).unwrap() * 2;
                    picked.extend_from_slice(&plain[at..at + 2]);
                });
                assert_eq!(out, picked, "seed {seed} {wanted:?} {stride:?}");
                // Without a fill value all has to be there, and the first element that is not is named.
                for (region, stride, expected) in [(&region, Vec::new(), &expected), (&wanted, stride, &picked)] {
                    let mut out = vec![0; expected.len()];
                    let read = gathered.read_strided(1, region, &stride, Beneath::Nothing(2), &mut out);
                    let Some(number) = expected.chunks_exact(2).position(|value| value == [9, 9]) else {
                        read.unwrap();
                        assert_eq!(out, *expected, "seed {seed} {region:?} {stride:?}");
                        continue;
                    };
                    let index = element_of(&region.count, number as u64);
                    let at = |axis: usize| region.start[axis] + index[axis] * stride.get(axis).unwrap_or(&1);
                    let element: Vec<u64> = (0..3).map(at).collect();
                    assert!(read.unwrap_err().to_string().contains(&format!("element {element:?} ")), "seed {seed}");
                }
            }
            std::fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn values_that_are_cut_are_noticed() {
        let folder = std::env::temp_dir().join(format!("knarr-gathered-cut-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut log = PutLog::create(room(&folder, 0, u64::MAX), "values", "log", write_calls).unwrap();
        let region = Region::new([0], [10]);
        let put = Put {
            variable: 0,
            dtype: DType::F64,
            region,
            stride: Vec::new(),
            order: 0,
            offset: log.reserve(80).unwrap(),
        };
        log.write(0, &[1; 79]).unwrap();
        File::options().write(true).open(folder.join("values")).unwrap().set_len(79).unwrap();
        log.push(&[put]).unwrap();
        let error = Gathered::open([(folder.join("values"), folder.join("log"))]).unwrap_err();
        assert!(error.to_string().contains("not all there"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
