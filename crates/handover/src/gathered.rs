//! The puts of all ranks into one file, read back: any region of any variable.
//!
//! Ranks put regions of any shape, so a region is gathered from all puts that meet it. Where puts overlap, that of the later
//! collective call counts, as it would in a file.

use std::fs::File;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_array::region::{Placed, Region, copy_region, fill};
use knarr_flow::strided::{self, Place};

use crate::puts::{Put, name_of_more, read_puts};

/// The puts of all ranks.
#[derive(Debug, Default)]
pub struct Gathered {
    ranks: Vec<Rank>,
    /// Per variable.
    puts: Vec<Puts>,
}

/// The values of one rank.
#[derive(Debug)]
struct Rank {
    values: Values,
    /// Bytes of values in the first file, and what lies behind.
    first: u64,
    more: Option<Values>,
}

/// A file of values.
#[derive(Debug)]
struct Values {
    file: File,
    length: u64,
}

impl Values {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::read(path, &error))?;
        let length = file.metadata().map_err(|error| Error::read(path, &error))?.len();
        Ok(Self { file, length })
    }
}

impl Rank {
    /// The file with the values of a put, and where they begin in it.
    fn place(&self, put: &Put) -> Option<(&Values, u64)> {
        if put.byte_len() == 0 {
            return Some((&self.values, 0));
        }
        let (values, offset) = match put.offset.checked_sub(self.first) {
            Some(behind) => (self.more.as_ref()?, behind),
            None => (&self.values, put.offset),
        };
        (offset.saturating_add(put.byte_len()) <= values.length).then_some((values, offset))
    }
}

/// The puts into one variable, sorted by their first element along the first axis.
#[derive(Debug, Default)]
struct Puts {
    placed: Vec<Placement>,
    /// The longest extent of a put along the first axis.
    longest: u64,
}

/// A put of a rank.
#[derive(Debug)]
struct Placement {
    rank: usize,
    put: Put,
    extent: Region,
    /// Later ones count: by collective call, then rank, then the order of the rank.
    order: (u64, usize, usize),
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
        let mut gathered = Self::default();
        for (rank, (values, log)) in ranks.into_iter().enumerate() {
            gathered.add(rank, last, &values, &log)?;
        }
        for puts in &mut gathered.puts {
            puts.placed.sort_by_key(|placed| first(&placed.extent));
            let extents = puts.placed.iter().filter_map(|placed| placed.extent.count.first());
            puts.longest = extents.max().copied().unwrap_or(1);
        }
        Ok(gathered)
    }

    fn add(&mut self, rank: usize, last: u64, path: &Path, log: &Path) -> Result<()> {
        // Values are there before their records, and the rank may go on putting.
        let found = read_puts(log)?;
        let more = name_of_more(path);
        let more = if more.exists() { Some(Values::open(&more)?) } else { None };
        let of = Rank { values: Values::open(path)?, first: found.first, more };
        for (number, put) in found.puts.into_iter().enumerate().filter(|(_, put)| put.order <= last) {
            if of.place(&put).is_none() {
                let what = "a put whose values are not all there";
                return Err(Error::corrupt(what).at(log.display().to_string()));
            }
            let variable = put.variable as usize;
            if self.puts.len() <= variable {
                self.puts.resize_with(variable + 1, Puts::default);
            }
            let (extent, order) = (put.extent(), (put.order, rank, number));
            self.puts[variable].placed.push(Placement { rank, put, extent, order });
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

    /// Puts into a variable that may meet a region.
    fn near(&self, variable: usize, region: &Region) -> impl Iterator<Item = &Placement> {
        let (begin, end) = match (region.start.first(), region.count.first()) {
            (Some(&start), Some(&count)) => (start, start.saturating_add(count)),
            _ => (0, 1),
        };
        let near = self.puts.get(variable).and_then(|puts| {
            let from = puts.placed.partition_point(|placed| first(&placed.extent) < begin.saturating_sub(puts.longest));
            let to = puts.placed.partition_point(|placed| first(&placed.extent) < end);
            puts.placed.get(from..to)
        });
        near.unwrap_or_default().iter().filter(|placed| placed.extent.intersection(region).is_some())
    }

    /// True if some element of the region was put.
    pub fn is_written(&self, variable: usize, region: &Region) -> bool {
        self.near(variable, region).any(|placed| elements_in(&placed.put, region).is_some())
    }

    /// Replaces the contents of `out` with the elements of a region, row-major; elements that were not put are `padding`.
    ///
    /// # Errors
    /// `Read`; `Corrupt` if the values became shorter; `Unsupported` if there are too many.
    pub fn read(&self, variable: usize, region: &Region, padding: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let elements = region.volume().and_then(|n| usize::try_from(n).ok()?.checked_mul(padding.len()));
        let bytes = elements.ok_or_else(|| Error::unsupported("the region has too many elements"))?;
        let mut puts: Vec<&Placement> = self.near(variable, region).collect();
        puts.sort_by_key(|placed| placed.order);
        let covers = |placed: &&Placement| {
            placed.put.stride.is_empty() && placed.extent.intersection(region).as_ref() == Some(region)
        };
        // What lies beneath a put that covers the region is not seen.
        let covering = puts.iter().rposition(covers);
        out.resize(bytes, 0);
        if covering.is_none() {
            fill(out, padding);
        }
        let mut part = Vec::new();
        puts.into_iter().skip(covering.unwrap_or(0)).try_for_each(|placed| self.take(placed, region, &mut part, out))
    }

    /// As [`Gathered::read`], of every `stride`-th element along each axis; the region's count is that of the elements wanted.
    ///
    /// # Errors
    /// As for [`Gathered::read`].
    pub fn read_strided(
        &self,
        variable: usize,
        region: &Region,
        stride: &[u64],
        padding: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if stride.is_empty() {
            return self.read(variable, region, padding, out);
        }
        let spans = region.count.iter().zip(stride);
        let count: Vec<u64> = spans.map(|(&n, &step)| if n == 0 { 0 } else { (n - 1) * step + 1 }).collect();
        let extent = Region::new(region.start.clone(), count);
        let mut between = Vec::new();
        self.read(variable, &extent, padding, &mut between)?;
        let size = padding.len();
        let distances = Place::dense(0, &extent.count, size).strides;
        let steps: Vec<u64> = distances.iter().zip(stride).map(|(distance, step)| distance * step).collect();
        out.clear();
        each_index(&region.count, |index| {
            let at = index.iter().zip(&steps).map(|(n, step)| n * step).sum::<u64>();
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            out.extend_from_slice(at.checked_add(size).and_then(|end| between.get(at..end)).unwrap_or_default());
        });
        Ok(())
    }

    /// Copies what a put has of `region` to `out`, which holds the region.
    fn take(&self, placed: &Placement, region: &Region, part: &mut Vec<u8>, out: &mut [u8]) -> Result<()> {
        let put = &placed.put;
        let found = self.ranks.get(placed.rank).and_then(|rank| rank.place(put));
        let (values, begin) = found.ok_or_else(|| Error::internal("values of no rank"))?;
        let size = put.dtype.size();
        let Some(met) = elements_in(put, region) else { return Ok(()) };
        let place = Place::dense(begin, &put.region.count, size);
        strided::read_region(&values.file, values.length, &place, size, &met, part)?;
        if !put.stride.is_empty() {
            scatter(put, &met, part, region, out);
            return Ok(());
        }
        let axes = 0..met.start.len();
        let at: Vec<u64> = axes.map(|axis| put.region.start[axis] + met.start[axis] - region.start[axis]).collect();
        let zero = vec![0; at.len()];
        let (from, to) = (Placed { shape: &met.count, start: &zero }, Placed { shape: &region.count, start: &at });
        copy_region(part, from, out, to, &met.count, size);
        Ok(())
    }
}

fn first(extent: &Region) -> u64 {
    extent.start.first().copied().unwrap_or(0)
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

/// Copies the elements `met` of a put with strides, which are in `part`, to their places in `out`, which holds `region`.
fn scatter(put: &Put, met: &Region, part: &[u8], region: &Region, out: &mut [u8]) {
    let size = put.dtype.size();
    let strides = Place::dense(0, &region.count, size).strides;
    let mut elements = part.chunks_exact(size);
    each_index(&met.count, |index| {
        let Some(element) = elements.next() else { return };
        let at = (0..index.len()).map(|axis| {
            let number = met.start[axis] + index[axis];
            (put.region.start[axis] + number * put.stride[axis] - region.start[axis]) * strides[axis]
        });
        let at = usize::try_from(at.sum::<u64>()).unwrap_or(usize::MAX);
        if let Some(place) = at.checked_add(size).and_then(|end| out.get_mut(at..end)) {
            place.copy_from_slice(element);
        }
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
                gathered.read_strided(1, &wanted, &stride, &[9, 9], &mut out).unwrap();
                let mut picked = Vec::new();
                each_index(&wide, |index| {
                    let at =
                        (0..3).fold(0, |at, axis| at * shape[axis] + region.start[axis] + index[axis] * stride[axis]);
                    let at = usize::try_from(at).unwrap() * 2;
                    picked.extend_from_slice(&plain[at..at + 2]);
                });
                assert_eq!(out, picked, "seed {seed} {wanted:?} {stride:?}");
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
