//! Shapes of chunks: what can be asked for, and what comes of it for a variable.

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::model::{StorageLayout, Variable};
use knarr_array::request::AXES;

/// Shape of the chunks of the output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ChunkRule {
    /// Chunks of the input where their size is sensible (16 KiB to 16 MiB) or one of them holds the whole variable, whole
    /// steps of about 1 MiB elsewhere: what is small becomes one chunk.
    #[default]
    Auto,
    /// Chunks of the input whatever their size; contiguous variables as for `Auto`.
    Keep,
    /// This shape, clipped to the variable.
    Shape(Vec<u64>),
    /// As `Auto`, but chunks take at least so many bytes, or hold the whole variable.
    AtLeast(u64),
    /// So many elements along these dimensions, of several of one name the last, and along the others as many as come to
    /// about 1 MiB. Variables without them, and small ones, are as for `Auto`.
    Along(Vec<(String, u64)>),
    /// Within the blocks that the ranks of a program have put, as large as those allow. Variables of which that is not known, and
    /// those whose blocks are small or have no divisors, are as for `Auto`.
    Decomposition,
}

impl std::str::FromStr for ChunkRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "keep" => Ok(Self::Keep),
            "decomposition" => Ok(Self::Decomposition),
            _ if text.contains('/') => lengths(text).map(Self::Along).ok_or_else(|| {
                Error::usage(format!("chunks '{text}' do not say how many elements along which dimension"))
                    .hint("write time/12, or time/12,lat/45; lat/ is all of a dimension")
            }),
            _ => text
                .split(['x', ','])
                .map(|extent| extent.trim().parse::<u64>().ok().filter(|&extent| extent > 0))
                .collect::<Option<Vec<u64>>>()
                .filter(|shape| shape.len() <= AXES)
                .map(Self::Shape)
                .ok_or_else(|| {
                    Error::usage(format!("chunks '{text}' is not a shape"))
                        .hint("write auto, keep, decomposition, extents like 1x180x360, or lengths along dimensions like time/12")
                }),
        }
    }
}

/// `time/12,lat/`: names and lengths, none of which is all of a dimension.
fn lengths(text: &str) -> Option<Vec<(String, u64)>> {
    let length = |part: &str| {
        let (name, length) = part.rsplit_once('/')?;
        let length = if length.trim().is_empty() { u64::MAX } else { length.trim().parse().ok()? };
        (!name.trim().is_empty() && length > 0).then(|| (name.trim().to_owned(), length))
    };
    text.split(',').map(length).collect()
}

/// Shape of the output's chunks for a variable.
///
/// # Errors
/// `Usage` if the rank does not fit or a chunk would exceed 4 GiB, the limit of HDF5.
pub fn chunk_shape(rule: &ChunkRule, variable: &Variable) -> Result<Vec<u64>> {
    let element = variable.dtype.size() as u64;
    let bytes = |shape: &[u64]| shape.iter().product::<u64>().saturating_mul(element);
    let stored = match &variable.layout {
        StorageLayout::Chunked(chunk) => Some(chunk),
        _ => None,
    };
    let shape = match (rule, stored) {
        (ChunkRule::Keep, Some(chunk)) => chunk.clone(),
        (ChunkRule::Decomposition, _) if let Some(chunk) = within_block(variable) => chunk,
        (ChunkRule::Auto | ChunkRule::AtLeast(_) | ChunkRule::Along(_) | ChunkRule::Decomposition, Some(chunk))
            if is_sensible(rule, chunk, variable) =>
        {
            chunk.clone()
        }
        (ChunkRule::Shape(shape), _) => {
            if shape.len() != variable.shape.len() {
                return Err(Error::usage(format!(
                    "chunks {} have {} dimensions, the variable has {}",
                    join(shape),
                    shape.len(),
                    variable.shape.len()
                ))
                .hint(format!("its shape is {}", join(&variable.shape)))
                .at_variable(variable.name()));
            }
            shape.iter().zip(&variable.shape).zip(&variable.max_shape).map(clip).collect()
        }
        (ChunkRule::AtLeast(least), _) => steps_of(&variable.shape, *least, element),
        _ => whole_steps(&variable.shape, &lengths_along(rule, variable), element, WANTED),
    };
    if bytes(&shape) >= u64::from(u32::MAX) {
        return Err(Error::new(ErrorKind::Usage, format!("a chunk of {} is over 4 GiB", join(&shape)))
            .hint("choose smaller chunks with --chunks")
            .at_variable(variable.name()));
    }
    Ok(shape)
}

/// Chunks of at most about so many bytes: whole steps, or pieces of one.
pub fn small_chunks(variable: &Variable, bytes: u64) -> Vec<u64> {
    // They may be a quarter larger.
    whole_steps(&variable.shape, &[], variable.dtype.size() as u64, bytes / 5 * 4)
}

/// True for chunks that are kept without being asked to: not too small, not too large, or all of the variable.
fn is_sensible(rule: &ChunkRule, chunk: &[u64], variable: &Variable) -> bool {
    let bytes = chunk.iter().product::<u64>().saturating_mul(variable.dtype.size() as u64);
    let is_whole = chunk.iter().zip(&variable.shape).all(|(chunk, extent)| chunk >= extent);
    let is_free = lengths_along(rule, variable).iter().all(Option::is_none);
    // Of a small variable one chunk would be no better off than a few.
    let least = match rule {
        ChunkRule::AtLeast(least) => *least,
        _ if variable.raw_bytes() <= SMALLEST => FEW,
        _ => SMALLEST,
    };
    is_free && bytes <= LARGEST && (bytes >= least || is_whole)
}

/// The length of chunks along each axis, where one was asked for. A small variable is one chunk whatever others are.
fn lengths_along(rule: &ChunkRule, variable: &Variable) -> Vec<Option<u64>> {
    let along = match rule {
        ChunkRule::Along(along) if variable.raw_bytes() > SMALLEST => along.as_slice(),
        _ => &[],
    };
    let length = |(dimension, &extent): (&Option<String>, &u64)| {
        let asked = along.iter().rev().find(|(name, _)| dimension.as_deref() == Some(name))?.1;
        Some(asked.min(extent.max(1)))
    };
    variable.dimensions.iter().zip(&variable.shape).map(length).collect()
}

/// `chunk` as HDF5 takes it: no longer than a dimension can become. Chunks of Zarr may be.
pub fn within_limits(mut chunk: Vec<u64>, variable: &Variable) -> Vec<u64> {
    for (extent, limit) in chunk.iter_mut().zip(&variable.max_shape) {
        *extent = limit.map_or(*extent, |limit| limit.max(1).min(*extent));
    }
    chunk
}

/// Chunk sizes in bytes that are kept without being asked to.
pub(super) const SMALLEST: u64 = 16 << 10;
/// Those of variables that are no larger than that: at most four of them.
const FEW: u64 = 4 << 10;
const LARGEST: u64 = 16 << 20;
/// Size in bytes that new chunks come close to: the default chunk cache of HDF5.
const WANTED: u64 = 1 << 20;

fn clip(((&chunk, &extent), limit): ((&u64, &u64), &Option<u64>)) -> u64 {
    match limit {
        Some(_) => chunk.min(extent.max(1)),
        None => chunk,
    }
}

/// Whole trailing dimensions, as many steps of the slowest as come to about `wanted` bytes. Axes of a given length have
/// that.
fn whole_steps(shape: &[u64], given: &[Option<u64>], element: u64, wanted: u64) -> Vec<u64> {
    let given = |axis: usize| given.get(axis).copied().flatten();
    let mut chunk: Vec<u64> = shape.iter().enumerate().map(|(axis, &n)| given(axis).unwrap_or(n.max(1))).collect();
    for axis in (0..chunk.len()).filter(|&axis| given(axis).is_none()) {
        let bytes = chunk.iter().product::<u64>().saturating_mul(element);
        if bytes <= wanted + wanted / 4 {
            break;
        }
        let rest = (bytes / chunk[axis]).max(1);
        let most = (wanted / rest).clamp(1, chunk[axis]);
        // Equal pieces leave no thin chunk at the edge.
        let pieces = chunk[axis].div_ceil(most);
        chunk[axis] = chunk[axis].div_ceil(pieces);
    }
    chunk
}

/// Chunks that divide the blocks of ranks: none has values of two of them, where blocks are alike. `None` without blocks, and where
/// they are too small or cannot be divided.
fn within_block(variable: &Variable) -> Option<Vec<u64>> {
    let element = variable.dtype.size() as u64;
    let mut chunk =
        variable.block.clone().filter(|block| block.len() == variable.shape.len() && !block.contains(&0))?;
    let bytes = |chunk: &[u64]| chunk.iter().product::<u64>().saturating_mul(element);
    if bytes(&chunk) < SMALLEST {
        return None;
    }
    for axis in 0..chunk.len() {
        let all = bytes(&chunk);
        if all <= WANTED + WANTED / 4 {
            break;
        }
        let rest = (all / chunk[axis]).max(1);
        let most = (WANTED / rest).clamp(1, chunk[axis]);
        let divides = |&length: &u64| chunk[axis].is_multiple_of(length);
        let below = (1..=most).rev().find(divides).unwrap_or(1);
        let above = (most..=chunk[axis]).find(divides).unwrap_or(chunk[axis]);
        // Of a prime number of rows, parts of all of them are better than one of them.
        chunk[axis] = if rest * below < WANTED / 8 { above } else { below };
    }
    (bytes(&chunk) <= LARGEST).then_some(chunk)
}

/// Whole trailing dimensions, and as many steps of the slowest as take at least so many bytes. Where one step is larger,
/// pieces of it.
fn steps_of(shape: &[u64], least: u64, element: u64) -> Vec<u64> {
    let mut chunk: Vec<u64> = shape.iter().map(|&extent| extent.max(1)).collect();
    let Some((slowest, rest)) = chunk.split_first_mut() else { return chunk };
    let step = rest.iter().product::<u64>().saturating_mul(element).max(1);
    if step > least {
        return whole_steps(shape, &[], element, least);
    }
    *slowest = least.div_ceil(step).clamp(1, *slowest);
    chunk
}

fn join(shape: &[u64]) -> String {
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;

    fn variable(path: &str, dtype: DType, shape: &[u64], layout: StorageLayout) -> Variable {
        Variable { layout, ..Variable::plain(path, dtype, shape.to_vec()) }
    }

    #[test]
    fn chunks_of_a_decomposition_divide_its_blocks() {
        let chunk = |shape: &[u64], block: Option<&[u64]>| {
            let block = block.map(<[u64]>::to_vec);
            let variable = Variable { block, ..variable("/v", DType::F32, shape, StorageLayout::Contiguous) };
            chunk_shape(&ChunkRule::Decomposition, &variable).unwrap()
        };
        let auto = |shape: &[u64]| {
            chunk_shape(&ChunkRule::Auto, &variable("/v", DType::F32, shape, StorageLayout::Contiguous)).unwrap()
        };
        // A quarter of a plane, and of a stack of planes.
        assert_eq!(chunk(&[5, 512, 1024], Some(&[1, 256, 512])), [1, 256, 512]);
        assert_eq!(chunk(&[5, 64, 1024, 1024], Some(&[1, 64, 512, 512])), [1, 1, 512, 512]);
        // One that is divided along its rows, evenly: 2500 rows of 2000 elements.
        assert_eq!(chunk(&[5000, 4000], Some(&[2500, 2000])), [125, 2000]);
        // A prime number of rows is not.
        assert_eq!(chunk(&[2 * 1009, 8192], Some(&[1009, 8192])), [1009, 256]);
        assert_eq!(chunk(&[2 * 1009, 2003], Some(&[1009, 2003])), [1009, 2003]);
        assert_eq!(chunk(&[2 * 10_007, 2003], Some(&[10_007, 2003])), auto(&[2 * 10_007, 2003]));
        // What is small or not known is as it is elsewhere.
        assert_eq!(chunk(&[4000, 30, 30], Some(&[1, 10, 10])), auto(&[4000, 30, 30]));
        assert_eq!(chunk(&[5, 512, 1024], None), auto(&[5, 512, 1024]));
        assert_eq!("decomposition".parse::<ChunkRule>().unwrap(), ChunkRule::Decomposition);
    }

    #[test]
    fn chunks_are_whole_steps_of_about_a_mebibyte() {
        let of =
            |shape: &[u64], layout| chunk_shape(&ChunkRule::Auto, &variable("/v", DType::F32, shape, layout)).unwrap();
        assert_eq!(of(&[1000, 180, 360], StorageLayout::Contiguous), [4, 180, 360]);
        assert_eq!(of(&[10, 20], StorageLayout::Contiguous), [10, 20]);
        assert_eq!(of(&[3, 5000, 5000], StorageLayout::Contiguous), [1, 52, 5000]);
        assert_eq!(of(&[100, 100, 100], StorageLayout::Chunked(vec![10, 100, 100])), [10, 100, 100]);
        assert_eq!(of(&[100, 100, 100], StorageLayout::Chunked(vec![1, 1, 100])), [25, 100, 100]);
        assert_eq!(of(&[0, 7], StorageLayout::Contiguous), [1, 7]);
        assert_eq!(of(&[1980], StorageLayout::Chunked(vec![1])), [1980], "one chunk of what is small");
        assert_eq!(of(&[100, 2], StorageLayout::Chunked(vec![1, 2])), [100, 2]);
        assert_eq!(of(&[12], StorageLayout::Chunked(vec![512])), [512], "that may grow");
        let least = |shape: &[u64], layout| {
            chunk_shape(&ChunkRule::AtLeast(4 << 20), &variable("/v", DType::F32, shape, layout)).unwrap()
        };
        assert_eq!(least(&[1000, 180, 360], StorageLayout::Chunked(vec![1, 180, 360])), [17, 180, 360]);
        assert_eq!(least(&[1000, 180, 360], StorageLayout::Chunked(vec![20, 180, 360])), [20, 180, 360]);
        assert_eq!(least(&[5, 10], StorageLayout::Chunked(vec![1, 10])), [5, 10]);
        assert_eq!(least(&[5, 10], StorageLayout::Chunked(vec![512, 10])), [512, 10]);
        assert_eq!(least(&[3, 1000, 1000], StorageLayout::Contiguous), [2, 1000, 1000]);
        assert_eq!(least(&[3, 2000, 2000], StorageLayout::Contiguous), [1, 500, 2000]);
    }

    #[test]
    fn chunk_rules_parse_and_clip() {
        assert_eq!("10x20".parse::<ChunkRule>().unwrap(), ChunkRule::Shape(vec![10, 20]));
        for text in ["", "10x", "0x4", "big", "-1"] {
            assert!(text.parse::<ChunkRule>().is_err(), "{text}");
        }
        let small = variable("/v", DType::F32, &[4, 5], StorageLayout::Contiguous);
        assert_eq!(chunk_shape(&ChunkRule::Shape(vec![10, 2]), &small).unwrap(), [4, 2]);
        assert!(chunk_shape(&ChunkRule::Shape(vec![10]), &small).is_err());
    }
}
