//! Which of many stored regions gives which elements of a region that is read.

use super::Region;

/// Which of `stored` gives which part of `wanted`: numbers of stored regions with parts of them, in which no element
/// comes twice. Where stored regions overlap the later one counts.
///
/// # Errors
/// A part that is in none of them.
pub fn assign<'a>(
    wanted: &Region,
    stored: impl DoubleEndedIterator<Item = (usize, &'a Region)>,
) -> Result<Vec<(usize, Region)>, Region> {
    let mut missing = vec![wanted.clone()];
    missing.retain(|part| !part.is_empty());
    let mut assigned = Vec::new();
    for (number, region) in stored.rev() {
        let mut rest = Vec::new();
        for part in &missing {
            match part.intersection(region) {
                Some(both) => {
                    part.without(&both, &mut rest);
                    assigned.push((number, both));
                }
                None => rest.push(part.clone()),
            }
        }
        missing = rest;
        if missing.is_empty() {
            break;
        }
    }
    match missing.into_iter().next() {
        Some(part) => Err(part),
        None => Ok(assigned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::testing::elements;
    use proptest::prelude::*;

    fn region(axes: usize) -> impl Strategy<Value = Region> {
        prop::collection::vec((0u64..6, 0u64..5), axes).prop_map(|axes| {
            let (start, count) = axes.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
            Region { start, count }
        })
    }

    fn regions() -> impl Strategy<Value = (Region, Vec<Region>)> {
        (0usize..4).prop_flat_map(|axes| (region(axes), prop::collection::vec(region(axes), 0..9)))
    }

    proptest! {
        #[test]
        fn every_element_comes_from_the_last_region_that_has_it((wanted, stored) in regions()) {
            let last = |index: &[u64]| {
                let holds = |region: &Region| region.axes().zip(index).all(|((from, to), at)| (from..to).contains(at));
                stored.iter().rposition(holds)
            };
            match assign(&wanted, stored.iter().enumerate()) {
                Err(gap) => {
                    prop_assert!(!elements(&gap).is_empty());
                    for index in elements(&gap) {
                        prop_assert!(last(&index).is_none() && elements(&wanted).contains(&index));
                    }
                }
                Ok(assigned) => {
                    let mut seen = Vec::new();
                    for (number, part) in assigned {
                        for index in elements(&part) {
                            prop_assert_eq!(last(&index), Some(number));
                            seen.push(index);
                        }
                    }
                    seen.sort();
                    prop_assert_eq!(seen, elements(&wanted));
                }
            }
        }
    }
}
