//! A file that a program has handed over in memory: a classic header without values, and the puts of all ranks.

use std::any::Any;
use std::path::{Path, PathBuf};

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::model::{AttributeValue, Model, Variable};
use knarr_array::region::Region;
use knarr_flow::store::{Source, Strings};
use knarr_handover::Gathered;

use crate::classic;

/// A file that was handed over.
#[derive(Debug)]
pub struct HandedOverSource {
    target: PathBuf,
    model: Model,
    puts: Gathered,
}

impl HandedOverSource {
    /// Opens a header, with the puts of all ranks. `records` is the length of the unlimited dimension; if
    /// nobody knows it, it is as long as the puts are. In the eyes of the program the file is `target`.
    ///
    /// # Errors
    /// `NotFound` or `Read`; `Corrupt` for a header or a put that makes no sense.
    pub fn open(header: &Path, puts: Gathered, records: Option<u64>, target: &Path) -> Result<Self> {
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
        puts.check(|index, put| {
            let variable = model.variables.get(index).filter(|variable| variable.dtype == put.dtype);
            let variable = variable.ok_or_else(|| Error::corrupt("a put into no variable of the header"))?;
            let inside = put.extent().check_inside(&variable.shape);
            inside.map_err(|error| Error::corrupt(error.message()).at_variable(variable.name()))
        })
        .map_err(|error| error.at(target.display().to_string()))?;
        Ok(Self { target: target.to_owned(), model, puts })
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
        "netCDF-3 (handed over)"
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

    fn strings(&self, variable: usize) -> Option<Strings> {
        let dtype = self.model.variables.get(variable)?.dtype;
        matches!(dtype, DType::Opaque(_)).then_some(Strings::Fixed)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
