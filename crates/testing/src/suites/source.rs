//! The conformance suite of sources: what every format must do when regions are read.

use crate::data::Random;
use knarr_array::error::ErrorKind;
use knarr_array::model::{StorageLayout, Variable};
use knarr_array::region::Region;
use knarr_flow::store::Source;

/// Variables of more bytes than this are skipped.
const LARGEST: u64 = 64 << 20;

/// Runs every check on all variables whose values can be read as bytes. Returns how many were checked.
pub fn check(source: &dyn Source) -> usize {
    assert!(!source.format().is_empty());
    let groups = &source.model().groups;
    assert_eq!(groups.first().map(|group| group.path.as_str()), Some("/"), "the root group comes first");
    let mut checked = 0;
    for (index, variable) in source.model().variables.iter().enumerate() {
        assert_eq!(variable.dimensions.len(), variable.shape.len(), "{}", variable.path);
        assert_eq!(variable.max_shape.len(), variable.shape.len(), "{}", variable.path);
        assert!(variable.path.starts_with('/'), "{}", variable.path);
        if variable.layout == StorageLayout::Null || variable.raw_bytes() > LARGEST {
            continue;
        }
        let mut whole = Vec::new();
        match source.read_region(index, &Region::whole(&variable.shape), &mut whole) {
            Ok(()) => {}
            // Values with pointers inside.
            Err(error) if error.kind() == ErrorKind::Unsupported => continue,
            Err(error) => panic!("{}: {error}", variable.path),
        }
        assert_eq!(whole.len() as u64, variable.raw_bytes(), "{}", variable.path);
        refuses_what_is_outside(source, index, variable);
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let whole = &whole;
                scope.spawn(move || regions_are_parts_of_the_whole(source, index, variable, whole, seed));
            }
        });
        checked += 1;
    }
    checked
}

fn refuses_what_is_outside(source: &dyn Source, index: usize, variable: &Variable) {
    let rank = variable.shape.len();
    let mut out = Vec::new();
    for axis in 0..rank {
        let mut region = Region::whole(&variable.shape);
        region.count[axis] += 1;
        assert!(source.read_region(index, &region, &mut out).is_err(), "{}", variable.path);
    }
    let region = Region::whole(&vec![1; rank + 1]);
    assert!(source.read_region(index, &region, &mut out).is_err(), "{}", variable.path);
}

fn regions_are_parts_of_the_whole(source: &dyn Source, index: usize, variable: &Variable, whole: &[u8], seed: u64) {
    if variable.is_empty() {
        return;
    }
    let size = variable.dtype.size();
    let mut random = Random::new(seed + 1);
    let mut pick = |n: u64| random.below(usize::try_from(n).unwrap_or(usize::MAX)) as u64;
    let mut out = vec![1, 2, 3];
    for _ in 0..20 {
        let start: Vec<u64> = variable.shape.iter().map(|&n| pick(n)).collect();
        let count: Vec<u64> = variable.shape.iter().zip(&start).map(|(n, s)| 1 + pick((n - s).min(40))).collect();
        let region = Region { start, count };
        source.read_region(index, &region, &mut out).unwrap_or_else(|error| panic!("{error}"));
        let expected = part(whole, &variable.shape, &region, size);
        assert!(out == expected, "{}: {region:?}", variable.path);
        if variable.dtype.is_number() && !source.is_written(index, &region) {
            let mut padding = variable.padding.to_le_bytes()[..size].to_vec();
            if variable.endian == knarr_array::array::Endian::Big {
                padding.reverse();
            }
            assert!(out.chunks_exact(size).all(|element| element == padding), "{}: padding", variable.path);
        }
    }
}

/// A region of an array of this shape with elements of `size` bytes, element by element.
pub fn part(whole: &[u8], shape: &[u64], region: &Region, size: usize) -> Vec<u8> {
    let Region { start, count } = region;
    let mut out = Vec::new();
    for n in 0..count.iter().product::<u64>() {
        let (mut rest, mut at, mut stride) = (n, 0, 1);
        for axis in (0..count.len()).rev() {
            at += (start[axis] + rest % count[axis]) * stride;
            rest /= count[axis];
            stride *= shape[axis];
        }
        let at = usize::try_from(at).unwrap_or(usize::MAX) * size;
        out.extend_from_slice(&whole[at..at + size]);
    }
    out
}
