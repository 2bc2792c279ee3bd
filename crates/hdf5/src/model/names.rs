//! Dimension names: HDF5 dimension scales, read the way netCDF-4 writes them.

use std::collections::HashMap;

use crate::model::paths::Paths;
use crate::model::values::{value, whole_numbers};
use crate::sys::{Address, Dataset, Extent};
use crate::text::element::text;
use knarr_array::error::Result;
use knarr_array::model::{AttributeValue, Dimension, Model};

/// How netCDF-4 marks a dimension that has no coordinate variable.
pub(crate) const NOT_A_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable";

/// netCDF-4's prefix for a variable that has the name of a dimension without being its coordinate variable.
pub(crate) const NON_COORDINATE: &str = "_nc4_non_coord_";

/// What a scan collects about dimensions, until all datasets are known.
#[derive(Debug, Default)]
pub(crate) struct DimensionNames {
    scales: Vec<Scale>,
    by_address: HashMap<Address, usize>,
    by_id: HashMap<i64, usize>,
    users: Vec<User>,
    netcdf: bool,
}

#[derive(Debug)]
struct Scale {
    name: String,
    group: usize,
    len: u64,
    unlimited: bool,
    /// `_Netcdf4Dimid`, which orders dimensions.
    id: Option<i64>,
}

/// A dataset whose axes may be named.
#[derive(Debug, Default)]
struct User {
    variable: Option<usize>,
    /// Scale that the dataset itself is.
    own: Option<usize>,
    /// Dimension ids per axis, of coordinate variables with several axes.
    ids: Vec<i64>,
    /// First scale per axis.
    list: Vec<Option<Address>>,
}

impl DimensionNames {
    /// Takes note of a dataset of group number `group`. False if it is only a dimension and no variable.
    pub(crate) fn add(
        &mut self,
        group: usize,
        path: &[u8],
        address: Address,
        dataset: &Dataset,
        paths: &Paths<'_>,
    ) -> Result<bool> {
        let object = &dataset.0;
        let read = |name: &[u8]| -> Result<Option<AttributeValue>> {
            object.attribute(name)?.map(|attr| value(&attr, paths)).transpose()
        };
        let mut user = User::default();
        let mut is_variable = true;
        let (shape, max) = match dataset.space()?.extent()? {
            Extent::Simple { shape, max } => (shape, max),
            _ => (Vec::new(), Vec::new()),
        };
        if let Some(AttributeValue::Text(class)) = read(b"CLASS")?
            && class == "DIMENSION_SCALE"
        {
            let own = self.scales.len();
            let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
            self.scales.push(Scale {
                name: text(name),
                group,
                len: shape.first().copied().unwrap_or(0),
                unlimited: max.first() == Some(&None),
                id: read(b"_Netcdf4Dimid")?.and_then(|value| whole_numbers(&value).first().copied()),
            });
            self.by_address.insert(address, own);
            if let Some(id) = self.scales.last().and_then(|scale| scale.id) {
                self.by_id.insert(id, own);
                self.netcdf = true;
            }
            if let Some(AttributeValue::Text(label)) = read(b"NAME")?
                && label.starts_with(NOT_A_VARIABLE)
            {
                is_variable = false;
                self.netcdf = true;
            }
            user.own = Some(own);
        }
        if let Some(ids) = read(b"_Netcdf4Coordinates")? {
            user.ids = whole_numbers(&ids);
        }
        if let Some(attr) = object.attribute(b"DIMENSION_LIST")? {
            user.list = attr.read()?.reference_sequences()?.iter().map(|scales| scales.first().copied()).collect();
        }
        if is_variable {
            self.users.push(user);
        }
        Ok(is_variable)
    }

    /// The dataset added last is this variable of the model.
    pub(crate) fn belongs_to(&mut self, variable: usize) {
        if let Some(user) = self.users.last_mut() {
            user.variable = Some(variable);
        }
    }

    /// True if dimensions carry netCDF-4's marks.
    pub(crate) fn are_netcdf(&self) -> bool {
        self.netcdf
    }

    /// Gives axes their names and groups their dimensions.
    pub(crate) fn resolve(mut self, model: &mut Model) {
        for user in &self.users {
            let Some(variable) = user.variable.and_then(|variable| model.variables.get_mut(variable)) else { continue };
            for axis in 0..variable.shape.len() {
                let scale = user
                    .list
                    .get(axis)
                    .copied()
                    .flatten()
                    .and_then(|address| self.by_address.get(&address).copied())
                    .or_else(|| user.ids.get(axis).and_then(|id| self.by_id.get(id).copied()))
                    .or(if axis == 0 { user.own } else { None });
                let Some(scale) = scale.and_then(|scale| self.scales.get_mut(scale)) else { continue };
                if let (Some(name), Some(len)) = (variable.dimensions.get_mut(axis), variable.shape.get(axis)) {
                    *name = Some(scale.name.clone());
                    // An unlimited dimension is as long as the longest variable on it.
                    if scale.unlimited {
                        scale.len = scale.len.max(*len);
                    }
                }
            }
        }
        self.scales.sort_by_key(|scale| scale.id);
        for scale in self.scales {
            if let Some(group) = model.groups.get_mut(scale.group) {
                group.dimensions.push(Dimension { name: scale.name, len: scale.len, unlimited: scale.unlimited });
            }
        }
    }
}
