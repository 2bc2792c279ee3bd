//! Builds a netCDF-4 file from a model.
//!
//! Follows what netCDF-C writes (`libhdf5/nc4hdf.c`, and 'NetCDF-4 file format' in its documentation): dimensions
//! are dimension scales with `_Netcdf4Dimid`, groups and variables keep their creation order.

use std::collections::HashMap;

use crate::create::{Site, create_encoded, create_same, stop_pretending_all};
use crate::model::paths::child_path;
use crate::sys::{Datatype, File, Group, Object, Plist, Space};
use crate::write::contents::each_piece;
use crate::write::dimensions::{DimensionPlan, Scales};
use crate::write::write_attribute::{put_attribute, put_terminated};
use knarr_array::array::{DType, Endian};
use knarr_array::error::{Error, Result};
use knarr_array::model::{Model, StorageLayout, Variable};
use knarr_flow::store::{Source, Storage};

/// Chunks of variables that can grow but are not encoded anew hold at most this.
const DEFAULT_CHUNK: u64 = 1 << 20;

/// Makes groups, dimensions, variables and attributes of `model` in `file`. If there is a `source`, copies the values of
/// its variables that are not in `storages`. Returns the path of each variable.
pub(crate) fn build(
    model: &Model,
    source: Option<&dyn Source>,
    file: &File,
    storages: &[Storage],
) -> Result<Vec<Vec<u8>>> {
    let plan = DimensionPlan::new(model)?;
    let root = file.root()?;
    put_terminated(&root.0, "_NCProperties", concat!("version=2,knarr=", env!("CARGO_PKG_VERSION")))?;
    let by_variable: HashMap<usize, &Storage> = storages.iter().map(|storage| (storage.variable, storage)).collect();
    let mut scales = Scales::default();
    let mut paths: Vec<Vec<u8>> = Vec::new();
    let outcome = model.groups.iter().enumerate().try_for_each(|(number, description)| {
        let group = make_group(file, &description.path)?;
        for &dimension in plan.lone(number) {
            make_dimension(&group, &description.path, &plan, dimension, &mut scales)?;
        }
        description.attributes.iter().try_for_each(|attribute| put_attribute(&group.0, attribute, true))
    });
    let outcome = outcome.and_then(|()| {
        for (index, variable) in model.variables.iter().enumerate() {
            let path = plan.dataset_path(model, index);
            make_variable(file, &path, variable, by_variable.get(&index).copied())
                .and_then(|object| scales.add(&plan, index, variable, &object))
                .map_err(|error| error.at_variable(variable.name()))?;
            paths.push(path);
        }
        Ok(())
    });
    let written = stop_pretending_all(file);
    outcome.and(written)?;
    scales.attach(file)?;
    for (index, variable) in model.variables.iter().enumerate() {
        let Some(path) = paths.get(index) else { continue };
        let place = |error: Error| error.at_variable(variable.name());
        let object = file.object_at_path(path).map_err(place)?;
        variable.attributes.iter().try_for_each(|attribute| put_attribute(&object, attribute, true)).map_err(place)?;
        let source = source.filter(|source| index < source.model().variables.len());
        if let Some(source) = source.filter(|_| !by_variable.contains_key(&index)) {
            copy_values(source, index, variable, object).map_err(place)?;
        }
    }
    Ok(paths)
}

/// Adds a variable without values to a file that was copied.
pub(crate) fn add_label(file: &File, variable: &Variable) -> Result<()> {
    let object = make_variable(file, variable.path.as_bytes(), variable, None)?;
    variable.attributes.iter().try_for_each(|attribute| put_attribute(&object, attribute, true))
}

fn make_group(file: &File, path: &str) -> Result<Group> {
    if path == "/" {
        return file.root();
    }
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let parent = if parent.is_empty() { "/" } else { parent };
    let gcpl = Plist::for_group()?;
    gcpl.track_orders(true)?;
    file.object_at_path(parent.as_bytes())?
        .into_group()?
        .create_group(name.as_bytes(), &Plist::for_link(!name.is_ascii())?, &gcpl)
        .map_err(|error| error.at(format!("group '{path}'")))
}

/// A dimension without a coordinate variable: a dataset without values that carries only its length.
fn make_dimension(
    group: &Group,
    group_path: &str,
    plan: &DimensionPlan,
    number: usize,
    scales: &mut Scales,
) -> Result<()> {
    let dimension = plan.dimension(number);
    let name = dimension.name.as_bytes();
    let dcpl = Plist::for_dataset()?;
    dcpl.track_orders(false)?;
    if dimension.unlimited {
        dcpl.set_chunked(&[1024])?;
        dcpl.allocate_incrementally()?;
    }
    let space = Space::simple(&[dimension.len], &[(!dimension.unlimited).then_some(dimension.len)])?;
    let lcpl = Plist::for_link(!dimension.name.is_ascii())?;
    let dataset = group
        .create_dataset(name, &Datatype::of(DType::F32, Endian::Big)?, &space, &lcpl, &dcpl)
        .map_err(|error| error.at(format!("dimension '{}'", dimension.name)))?;
    let label = format!("{}.{:10}", crate::model::names::NOT_A_VARIABLE, dimension.len);
    scales.mark(&dataset.0, number, &label, child_path(group_path.as_bytes(), name))?;
    dataset.close()
}

fn make_variable(file: &File, path: &[u8], variable: &Variable, storage: Option<&Storage>) -> Result<Object> {
    let slash = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    let (parent, name) = (path.get(..slash).unwrap_or_default(), path.get(slash + 1..).unwrap_or(path));
    let group = file.object_at_path(if parent.is_empty() { b"/" } else { parent })?.into_group()?;
    let datatype = datatype(variable)?;
    let space = match (&variable.layout, variable.shape.is_empty()) {
        (StorageLayout::Null, _) => Space::null()?,
        (_, true) => Space::scalar()?,
        _ => Space::simple(&variable.shape, &variable.max_shape)?,
    };
    let dcpl = Plist::for_dataset()?;
    dcpl.track_orders(false)?;
    if variable.dtype.size() <= 8 {
        let bits = variable.padding.to_le_bytes();
        let mut value = bits.get(..variable.dtype.size()).unwrap_or_default().to_vec();
        if variable.endian == Endian::Big {
            value.reverse();
        }
        dcpl.set_fill_value(&datatype, &value)?;
    }
    let site = Site { group: &group, name, lcpl: &Plist::for_link(!name.is_ascii())? };
    let dataset = match storage {
        Some(storage) => create_encoded(&site, &datatype, &space, &dcpl, storage)?,
        None => {
            if variable.max_shape.contains(&None) || variable.max_shape.iter().zip(&variable.shape).any(grows) {
                dcpl.set_chunked(&default_chunk(variable))?;
                dcpl.allocate_incrementally()?;
            }
            create_same(&site, &datatype, &space, &dcpl)?
        }
    };
    Ok(dataset.0)
}

fn grows((max, len): (&Option<u64>, &u64)) -> bool {
    max.is_some_and(|max| max > *len)
}

/// Characters of classic netCDF are opaque bytes in the model, and strings of length 1 in netCDF-4.
fn datatype(variable: &Variable) -> Result<Datatype> {
    match variable.dtype {
        DType::Opaque(1) => Datatype::string(Some(1), false),
        // Byte strings of Zarr, and types that only Zarr has.
        DType::Opaque(size) => {
            let what = variable.copied_because.clone().unwrap_or_else(|| format!("strings of {size} bytes"));
            Err(Error::unsupported(format!("{what} are not written to this format"))
                .hint("write Zarr instead, or make a copy of the store without it")
                .at_variable(variable.name()))
        }
        dtype => Datatype::of(dtype, variable.endian),
    }
}

/// One record of unlimited axes, as much of the others as fits.
fn default_chunk(variable: &Variable) -> Vec<u64> {
    let mut chunk: Vec<u64> = variable
        .shape
        .iter()
        .zip(&variable.max_shape)
        .map(|(len, max)| if max.is_none() { 1 } else { (*len).max(1) })
        .collect();
    let size = variable.dtype.size() as u64;
    for axis in 0..chunk.len() {
        let bytes = chunk.iter().fold(size, |product, n| product.saturating_mul(*n));
        if bytes > DEFAULT_CHUNK
            && let Some(extent) = chunk.get_mut(axis)
        {
            *extent = (*extent / bytes.div_ceil(DEFAULT_CHUNK)).max(1);
        }
    }
    chunk
}

fn copy_values(source: &dyn Source, index: usize, variable: &Variable, object: Object) -> Result<()> {
    if variable.is_empty() {
        return Ok(());
    }
    let dataset = object.into_dataset()?;
    let mut bytes = Vec::new();
    each_piece(&variable.shape, variable.dtype.size() as u64, &mut |region| {
        if !source.is_written(index, region) {
            return Ok(());
        }
        source.read_region(index, region, &mut bytes)?;
        dataset.write_bytes(region, &bytes)
    })?;
    dataset.close()
}
