//! Text of attributes byte for byte. Text ends at its first NUL; netCDF counts characters, and programs in C often write the
//! NUL as one of them and rely on it when they read.

use crate::read::source::Hdf5Source;
use crate::sys::{Class, Extent, Object, locked};
use knarr_array::array::DType;
use knarr_array::error::Result;
use knarr_array::model::{Attribute, AttributeValue, Model};
use knarr_flow::store::Source;

impl Hdf5Source {
    /// The model, with attributes of fixed length as the characters that netCDF sees in them.
    ///
    /// # Errors
    /// `Corrupt` if an object is damaged.
    pub fn with_all_characters(&self) -> Result<Model> {
        locked(|| {
            let mut model = self.model().clone();
            for group in &mut model.groups {
                let object = self.file().object_named(&group.path)?;
                group.attributes.iter_mut().try_for_each(|attribute| complete(&object, attribute))?;
            }
            for (index, variable) in model.variables.iter_mut().enumerate() {
                let object = self.file().object_at(self.stored(index)?.address)?;
                variable.attributes.iter_mut().try_for_each(|attribute| complete(&object, attribute))?;
            }
            Ok(model)
        })
    }
}

fn complete(object: &Object, attribute: &mut Attribute) -> Result<()> {
    if !matches!(attribute.value, AttributeValue::Text(_)) {
        return Ok(());
    }
    let Some(attr) = object.attribute(attribute.name.as_bytes())? else { return Ok(()) };
    let datatype = attr.datatype()?;
    let is_counted = attr.space()?.extent()? == Extent::Scalar
        && datatype.class()? == Class::String
        && !datatype.is_variable_string()?
        && !datatype.is_space_padded();
    if is_counted {
        attribute.value = match String::from_utf8(attr.read()?.bytes().to_vec()) {
            Ok(text) => AttributeValue::Text(text),
            // Characters in an encoding that nobody names.
            Err(error) => AttributeValue::Numbers { dtype: DType::Opaque(1), bytes: error.into_bytes(), scalar: false },
        };
    }
    Ok(())
}
