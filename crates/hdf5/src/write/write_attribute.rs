//! Writes attributes of the model, the way netCDF-4 does.

use crate::sys::{Datatype, Object, Space};
use knarr_array::array::{DType, Endian};
use knarr_array::error::{Error, Result};
use knarr_array::model::{Attribute, AttributeValue};

/// Adds an attribute, or replaces one of the same name. netCDF has no scalar numbers: there they become arrays
/// of one.
pub(crate) fn put_attribute(object: &Object, attribute: &Attribute, is_netcdf: bool) -> Result<()> {
    put(object, attribute, is_netcdf).map_err(|error| error.at(format!("attribute '{}'", attribute.name)))
}

/// Removes an attribute if there is one of this name.
pub(crate) fn remove_attribute(object: &Object, name: &str) -> Result<()> {
    match object.attribute(name.as_bytes())? {
        Some(_) => object.delete_attribute(name.as_bytes()),
        None => Ok(()),
    }
}

fn put(object: &Object, attribute: &Attribute, is_netcdf: bool) -> Result<()> {
    remove_attribute(object, &attribute.name)?;
    let name = attribute.name.as_bytes();
    match &attribute.value {
        AttributeValue::Text(text) => {
            let datatype = Datatype::string(Some(text.len()), !text.is_ascii())?;
            if text.is_empty() {
                return object.create_attribute(name, &datatype, &Space::null()?, None).map(|_| ());
            }
            object.create_attribute(name, &datatype, &Space::scalar()?, None)?.write_bytes(&datatype, text.as_bytes())
        }
        AttributeValue::Strings(strings) => {
            let utf8 = !strings.iter().all(|string| string.is_ascii());
            let datatype = Datatype::string(None, utf8)?;
            let space = Space::simple(&[strings.len() as u64], &[])?;
            object.create_attribute(name, &datatype, &space, None)?.write_strings(&datatype, strings)
        }
        // Characters in an encoding that nobody names: as netCDF-C writes them.
        AttributeValue::Numbers { dtype: DType::Opaque(1), bytes, .. } if !bytes.is_empty() => {
            let datatype = Datatype::string(Some(bytes.len()), false)?;
            object.create_attribute(name, &datatype, &Space::scalar()?, None)?.write_bytes(&datatype, bytes)
        }
        AttributeValue::Numbers { dtype, bytes, scalar } => {
            let datatype = Datatype::of(*dtype, Endian::Little)?;
            let space = if *scalar && !is_netcdf {
                Space::scalar()?
            } else if bytes.is_empty() {
                Space::null()?
            } else {
                Space::simple(&[(bytes.len() / dtype.size()) as u64], &[])?
            };
            object.create_attribute(name, &datatype, &space, None)?.write_bytes(&datatype, bytes)
        }
        AttributeValue::Other { what, .. } => Err(Error::unsupported(format!("{what} cannot be written to HDF5"))),
    }
}

/// Adds a string of fixed length with its terminating NUL, the form that HDF5's dimension scales require.
pub(crate) fn put_terminated(object: &Object, name: &str, text: &str) -> Result<()> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    let datatype = Datatype::string(Some(bytes.len()), false)?;
    object.create_attribute(name.as_bytes(), &datatype, &Space::scalar()?, None)?.write_bytes(&datatype, &bytes)
}
