//! A file that a program has handed over in memory: the puts of all ranks, and a classic header without values or what
//! the program said of its variables.

use std::any::Any;
use std::path::{Path, PathBuf};

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::model::{Attribute, AttributeValue, Dimension, Model, Variable};
use knarr_array::region::Region;
use knarr_flow::ahead::Ahead;
use knarr_flow::remote_encoder::RemoteEncoder;
use knarr_flow::store::{Source, Strings, Values};
use knarr_handover::{AssembledPuts, RankValues};

use crate::classic::{self, NcType, Version};
use crate::fills;

/// A file that was handed over.
#[derive(Debug)]
pub struct HandedOverSource {
    target: PathBuf,
    format: &'static str,
    model: Model,
    puts: AssembledPuts,
}

impl HandedOverSource {
    /// Opens a header, with the puts of all ranks. `records` is the length of the unlimited dimension; if
    /// nobody knows it, it is as long as the puts are. In the eyes of the program the file is `target`.
    ///
    /// # Errors
    /// `NotFound` or `Read`; `Corrupt` for a header or a put that makes no sense.
    pub fn open(header: &Path, puts: AssembledPuts, records: Option<u64>, target: &Path) -> Result<Self> {
        let records = match records {
            Some(records) => records,
            None => {
                let empty = classic::model_of_header(header, 0)?;
                let grows = |index: usize| {
                    empty.variables.get(index).is_some_and(|variable| variable.max_shape.first() == Some(&None))
                };
                let mut records = 0;
                puts.check(|index, put| {
                    records = records.max(if grows(index) { put.extent().end(0) } else { 0 });
                    Ok(())
                })?;
                records
            }
        };
        let mut model = classic::model_of_header(header, records)?;
        model.variables.iter_mut().for_each(fill_with_text);
        Self::checked(target, "netCDF-3 (handed over)", model, puts)
    }

    /// As [`HandedOverSource::open`], of the root group that a program describes by `model`. Dimensions that can grow are as
    /// long as the puts along them are.
    ///
    /// # Errors
    /// As for [`HandedOverSource::open`].
    pub fn of_model(mut model: Model, ranks: impl IntoIterator<Item = RankValues>, target: &Path) -> Result<Self> {
        let puts = AssembledPuts::of(u64::MAX, ranks)?;
        let Model { groups, variables } = &mut model;
        let dimensions = groups.first_mut().map(|root| root.dimensions.as_mut_slice()).unwrap_or_default();
        let mut grown = dimensions.iter_mut().filter(|dimension| dimension.unlimited).collect::<Vec<_>>();
        puts.check(|index, put| {
            let names = variables.get(index).map(|variable| variable.dimensions.as_slice()).unwrap_or_default();
            let extent = put.extent();
            for (axis, name) in names.iter().enumerate().take(extent.count.len()) {
                let named = grown.iter_mut().filter(|dimension| Some(&dimension.name) == name.as_ref());
                named.for_each(|dimension| dimension.len = dimension.len.max(extent.end(axis)));
            }
            Ok(())
        })?;
        for variable in variables {
            for (length, name) in variable.shape.iter_mut().zip(&variable.dimensions) {
                let dimension = dimensions.iter().find(|dimension| Some(&dimension.name) == name.as_ref());
                *length = dimension.map_or(*length, |dimension| dimension.len);
            }
        }
        Self::checked(target, "arrays (handed over)", model, puts)
    }

    fn checked(target: &Path, format: &'static str, mut model: Model, puts: AssembledPuts) -> Result<Self> {
        puts.check(|index, put| {
            let variable = model.variables.get(index).filter(|variable| variable.dtype == put.dtype);
            let variable = variable.ok_or_else(|| Error::corrupt("a put into no variable of the header"))?;
            let inside = put.extent().check_inside(&variable.shape);
            inside.map_err(|error| Error::corrupt(error.message()).at_variable(variable.name()))
        })
        .map_err(|error| error.at(target.display().to_string()))?;
        for (index, variable) in model.variables.iter_mut().enumerate() {
            variable.block = puts.usual_extents(index)?;
        }
        Ok(Self { target: target.to_owned(), format, model, puts })
    }
}

/// A variable of the root group that a program describes itself, along `dimensions`. Elements that nobody puts are those of
/// its attribute `_FillValue`, or else netCDF's own fill values.
pub fn described_variable(name: &str, dtype: DType, dimensions: &[&Dimension], attributes: Vec<Attribute>) -> Variable {
    let given = fills::attribute_bits(dtype, &attributes, "_FillValue").first().copied();
    let padding = given.unwrap_or_else(|| NcType::of(dtype, Version::Cdf5).map_or(0, NcType::default_fill));
    // Every value of a byte is data unless an attribute says otherwise (netCDF conventions).
    let own = (dtype.size() > 1).then_some(padding);
    Variable {
        fills: fills::collect(dtype, &attributes, own),
        padding,
        attributes,
        max_shape: dimensions.iter().map(|dimension| (!dimension.unlimited).then_some(dimension.len)).collect(),
        dimensions: dimensions.iter().map(|dimension| Some(dimension.name.clone())).collect(),
        ..Variable::plain(format!("/{name}"), dtype, dimensions.iter().map(|dimension| dimension.len).collect())
    }
}

/// Characters that were never put are those of `_FillValue`, which is text.
fn fill_with_text(variable: &mut Variable) {
    let fill = variable.attributes.iter().find(|attribute| attribute.name == "_FillValue");
    if let (DType::Opaque(1), Some(AttributeValue::Text(text))) = (variable.dtype, fill.map(|fill| &fill.value))
        && let [byte] = text.as_bytes()
    {
        variable.padding = u64::from(*byte);
    }
}

impl Source for HandedOverSource {
    fn model(&self) -> &Model {
        &self.model
    }

    fn path(&self) -> &Path {
        &self.target
    }

    fn format(&self) -> &str {
        self.format
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let Some(info) = self.model.variables.get(variable) else { return Err(Error::internal("no such variable")) };
        let place = |error: Error| error.at_variable(info.name()).at(self.target.display().to_string());
        region.check_inside(&info.shape).map_err(place)?;
        self.puts.read(variable, region, &info.padding_bytes(), out).map_err(place)
    }

    fn is_written(&self, variable: usize, region: &Region) -> bool {
        self.puts.is_written(variable, region)
    }

    fn remote_encoder(&self) -> Option<&dyn RemoteEncoder> {
        Values::remote_encoder(&self.puts)
    }

    fn ahead(&self) -> Option<&dyn Ahead> {
        Values::ahead(&self.puts)
    }

    fn strings(&self, variable: usize) -> Option<Strings> {
        let dtype = self.model.variables.get(variable)?.dtype;
        matches!(dtype, DType::Opaque(_)).then_some(Strings::Fixed)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
