//! netCDF-4 variables at the length of their unlimited dimensions.
//!
//! Each variable of a netCDF-4 file has as many records as were written to it. Readers of netCDF show all of them with
//! the length of the dimension, and fill values where there are no records. Zarr and content hashes know one shape
//! only, and that is the one.

use crate::classic::NcType;
use knarr_array::array::DType;
use knarr_array::model::{Dimension, Model, StorageLayout, Variable};
use knarr_array::region::{Placed, Region, copy_region, fill_region, volume};
use knarr_array::{Error, Result};
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;
use knarr_flow::store::Source;
use std::collections::HashMap;

/// `source` as readers of netCDF see it. Anything but netCDF-4 is returned as it is.
pub fn whole_records(source: Box<dyn Source>) -> Box<dyn Source> {
    if source.format() != "netCDF-4" {
        return source;
    }
    let mut model = source.model().clone();
    let dimensions = dimensions(source.model());
    let mut is_short = false;
    for index in 0..model.variables.len() {
        let variable = &model.variables[index];
        let Some(shape) = whole_shape(&dimensions, variable) else { continue };
        is_short = true;
        let padding = padding(variable);
        let variable = &mut model.variables[index];
        let was_empty = variable.is_empty();
        variable.shape = shape;
        variable.padding = padding;
        if was_empty && !variable.is_empty() && !matches!(variable.dtype, DType::Opaque(n) if n > 1) {
            variable.copied_because = None;
        }
    }
    if is_short { Box::new(WholeRecords { source, model }) } else { source }
}

/// The shape of a variable with the lengths of its unlimited dimensions; `None` if it has them.
fn whole_shape(dimensions: &Dimensions<'_>, variable: &Variable) -> Option<Vec<u64>> {
    if variable.layout == StorageLayout::Null {
        return None;
    }
    let mut shape = variable.shape.clone();
    for (axis, extent) in shape.iter_mut().enumerate() {
        let name = variable.dimensions.get(axis)?.as_deref();
        let dimension = name.and_then(|name| find(dimensions, &variable.path, name));
        if let Some(dimension) = dimension.filter(|dimension| dimension.unlimited) {
            *extent = (*extent).max(dimension.len);
        }
    }
    let fits = volume(&shape)?.checked_mul(variable.dtype.size() as u64)?;
    (shape != variable.shape && i64::try_from(fits).is_ok()).then_some(shape)
}

/// Dimensions by group and name.
type Dimensions<'a> = HashMap<(&'a str, &'a str), &'a Dimension>;

fn dimensions(model: &Model) -> Dimensions<'_> {
    let mut found = HashMap::new();
    for group in &model.groups {
        found.extend(group.dimensions.iter().map(|one| ((group.path.as_str(), one.name.as_str()), one)));
    }
    found
}

/// The dimension that a name stands for: that of the variable's group, or of the nearest group above.
fn find<'a>(dimensions: &Dimensions<'a>, path: &str, name: &str) -> Option<&'a Dimension> {
    let mut group = path;
    loop {
        group = &group[..group.rfind('/')?];
        let wanted = if group.is_empty() { "/" } else { group };
        if let Some(&dimension) = dimensions.get(&(wanted, name)) {
            return Some(dimension);
        }
    }
}

/// The fill value that netCDF shows. A variable without one of its own (fill mode off) gets that of its type.
fn padding(variable: &Variable) -> u64 {
    if variable.padding != 0 || variable.attribute("_FillValue").is_some() {
        return variable.padding;
    }
    let kind = match variable.dtype {
        DType::I8 => NcType::Byte,
        DType::I16 => NcType::Short,
        DType::I32 => NcType::Int,
        DType::I64 => NcType::Int64,
        DType::U8 => NcType::UByte,
        DType::U16 => NcType::UShort,
        DType::U32 => NcType::UInt,
        DType::U64 => NcType::UInt64,
        DType::F32 => NcType::Float,
        DType::F64 => NcType::Double,
        DType::F16 | DType::Opaque(_) => return 0,
    };
    kind.default_fill()
}

struct WholeRecords {
    source: Box<dyn Source>,
    model: Model,
}

/// What a variable of this shape has of a region of a larger one; `None` if that is nothing. It begins where the region
/// does.
fn inside(shape: &[u64], region: &Region) -> Option<Region> {
    region.intersection(&Region::whole(shape))
}

impl WholeRecords {
    /// The variable as it is stored and as it is shown.
    fn variable(&self, index: usize) -> Result<(&Variable, &Variable)> {
        Ok((self.source.model().variable(index)?, self.model.variable(index)?))
    }

    fn check(&self, shown: &Variable, region: &Region) -> Result<()> {
        region
            .check_inside(&shown.shape)
            .map_err(|error| error.at_variable(shown.name()).at(self.path().display().to_string()))
    }
}

// A method with a default that is not handed on would answer for the wrong source.
#[deny(clippy::missing_trait_methods)]
impl Source for WholeRecords {
    crate::delegate::delegate!(own_model, path, format, no_places, reading, is_remote, unchanged, variables, as_any);

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let (stored, shown) = self.variable(variable)?;
        self.check(shown, region)?;
        let part = inside(&stored.shape, region);
        if stored.shape == shown.shape || part.as_ref() == Some(region) {
            return self.source.read_region(variable, region, out);
        }
        let size = stored.dtype.size();
        let bytes = region.volume().and_then(|len| usize::try_from(len).ok()?.checked_mul(size));
        let bytes = bytes.ok_or_else(|| Error::unsupported("the region is too large for memory"))?;
        out.clear();
        out.try_reserve_exact(bytes).map_err(|_| Error::unsupported("the region is too large for memory"))?;
        out.resize(bytes, 0);
        let origin = vec![0; region.count.len()];
        let whole = Placed { shape: &region.count, start: &origin };
        fill_region(out, whole, &region.count, &shown.padding_bytes());
        let Some(part) = part else { return Ok(()) };
        let mut written = Vec::new();
        self.source.read_region(variable, &part, &mut written)?;
        copy_region(&written, Placed { shape: &part.count, start: &origin }, out, whole, &part.count, size);
        Ok(())
    }

    fn is_written(&self, variable: usize, region: &Region) -> bool {
        let Ok((stored, _)) = self.variable(variable) else { return true };
        if stored.shape.is_empty() {
            return self.source.is_written(variable, region);
        }
        inside(&stored.shape, region).is_some_and(|part| self.source.is_written(variable, &part))
    }

    fn read_strings(&self, variable: usize, region: &Region) -> Result<Vec<String>> {
        let (stored, shown) = self.variable(variable)?;
        self.check(shown, region)?;
        let part = inside(&stored.shape, region);
        if stored.shape == shown.shape || part.as_ref() == Some(region) {
            return self.source.read_strings(variable, region);
        }
        let len = region.volume().and_then(|len| usize::try_from(len).ok());
        let len = len.ok_or_else(|| Error::unsupported("the region is too large for memory"))?;
        let mut all = vec![String::new(); len];
        let Some(part) = part else { return Ok(all) };
        let mut written = self.source.read_strings(variable, &part)?.into_iter();
        // Row-major order of the part is that of its elements within the whole.
        for (number, place) in all.iter_mut().enumerate() {
            let mut rest = number as u64;
            let mut is_written = true;
            for (n, part) in region.count.iter().zip(&part.count).rev() {
                is_written &= rest % n < *part;
                rest /= n;
            }
            if is_written {
                *place = written.next().unwrap_or_default();
            }
        }
        Ok(all)
    }

    fn frame_chains(&self, variable: usize, codecs: &CodecList, most: usize) -> Result<Vec<(ChainSpec, usize)>> {
        self.source.frame_chains(variable, codecs, most)
    }
}
