//! How much room everything but values will take in an output.
//!
//! HDF5 takes room for headers, attributes and indices of chunks when it needs it, between the values. Readers then seek
//! through the whole file before they know what it holds, which takes minutes where each seek is a request to an object
//! store. So the room is estimated and set aside at the beginning of the file. An estimate that is too low costs that
//! advantage, one that is too high leaves bytes unused, so it is meant to be a little high.

use crate::read::source::Hdf5Source;
use crate::sys::File;
use crate::write::sink_options::SinkOptions;
use knarr_array::error::Result;
use knarr_array::model::{Attribute, AttributeValue, Model, Variable};
use knarr_array::region::{chunk_region, volume};
use knarr_flow::store::{Source, Storage};

/// The superblock, the root group, and what objects without a path take.
const FILE: u64 = 2048;
const GROUP: u64 = 1024;
const DATASET: u64 = 768;
/// Header of an attribute: name, type, shape.
const ATTRIBUTE: u64 = 96;
/// Attributes beyond these leave the header for a heap and two indices (`H5Pset_attr_phase_change`).
const COMPACT: usize = 8;
const HEAP: u64 = 4096;
/// What is added to a variable after its chunks: what was promised and measured.
const LATE_ATTRIBUTES: u64 = 256;

/// Chunks of a variable that are asked for whether they were ever written.
const SAMPLED: u64 = 64;

/// For a copy of `source`, whose chunk indices take `indices`, with `labels` added and the variables of `storages` encoded anew.
pub(crate) fn of_copy(source: &Hdf5Source, labels: &[Variable], storages: &[Storage], indices: u64) -> Result<u64> {
    let file: &File = source.file();
    let (mut room, model) = (FILE, source.model());
    for group in &model.groups {
        room += file.object_named(&group.path)?.header_room(true)?;
    }
    let mut is_encoded = vec![false; model.variables.len()];
    for storage in storages {
        if let Some(encoded) = is_encoded.get_mut(storage.variable) {
            *encoded = true;
        }
    }
    for (index, encoded) in is_encoded.into_iter().enumerate() {
        room += file.object_at(source.stored(index)?.address)?.header_room(!encoded)?;
    }
    room += labels.iter().map(of_variable).sum::<u64>();
    Ok(room + room / 16 + indices)
}

/// For a file that is made from a model.
pub(crate) fn of_model(model: &Model, indices: u64) -> u64 {
    let groups = model.groups.iter().map(|group| {
        let names = group.dimensions.iter().map(|dimension| DATASET + dimension.name.len() as u64).sum::<u64>();
        GROUP + names + of_attributes(&group.attributes)
    });
    let room = FILE + groups.sum::<u64>() + model.variables.iter().map(of_variable).sum::<u64>();
    let room = room + HEAP * u64::from(model.variables.len() > COMPACT);
    room + room / 16 + indices
}

fn of_variable(variable: &Variable) -> u64 {
    let names = variable.path.len() as u64 + variable.dimensions.len() as u64 * ATTRIBUTE;
    DATASET + names + of_attributes(&variable.attributes)
}

fn of_attributes(attributes: &[Attribute]) -> u64 {
    let each = attributes.iter().map(|attribute| {
        let value = match &attribute.value {
            AttributeValue::Text(text) => text.len(),
            AttributeValue::Numbers { bytes, .. } => bytes.len(),
            // They are kept among values; here are their places.
            AttributeValue::Strings(list) => 16 * list.len(),
            AttributeValue::Other { content, .. } => content.len(),
        };
        ATTRIBUTE + (attribute.name.len() + value) as u64
    });
    let room = each.sum::<u64>();
    if attributes.len() > COMPACT { HEAP + room * 2 } else { room }
}

/// Of what comes with and after the chunks: their indices, and attributes. Chunks that `source` never wrote will not come;
/// without a source every chunk may. Not for who holds the lock of the HDF5 library: threads that read the source hold
/// what they look up while they wait for it.
pub(crate) fn of_chunks(
    model: &Model,
    source: Option<&dyn Source>,
    storages: &[Storage],
    options: &SinkOptions,
) -> Result<u64> {
    let mut room = LATE_ATTRIBUTES * options.annotated as u64;
    for storage in storages {
        let shape = &model.variable(storage.variable)?.shape;
        let grid: Vec<u64> = shape.iter().zip(&storage.chunk).map(|(n, c)| n.div_ceil((*c).max(1))).collect();
        let chunks = volume(&grid).unwrap_or(u64::MAX);
        let sampled = chunks.min(SAMPLED);
        let written = (0..sampled).filter(|&sample| {
            let mut number = u128::from(chunks) * u128::from(sample) / u128::from(sampled);
            let mut position = vec![0; grid.len()];
            for (at, n) in position.iter_mut().zip(&grid).rev() {
                *at = u64::try_from(number % u128::from((*n).max(1))).unwrap_or(0);
                number /= u128::from((*n).max(1));
            }
            let region = chunk_region(shape, &storage.chunk, &position);
            source.is_none_or(|source| source.is_written(storage.variable, &region))
        });
        let written = written.count() as u64;
        let chunks = u128::from(chunks) * u128::from(written) / u128::from(sampled.max(1));
        room += options.libver.low.chunk_index_bytes(u64::try_from(chunks).unwrap_or(u64::MAX), shape.len() as u64);
    }
    Ok(room)
}
