//! What an output does not keep of its input, and readers would not miss before they look for it.

use std::collections::BTreeSet;

use knarr_array::model::{Group, Link, Model, Variable};
use knarr_flow::store::Source;
use knarr_hdf5::{Hdf5Source, NetcdfLimits};
use serde::{Deserialize, Serialize};

use crate::zarr::ZarrSource;

/// What an output does not keep of its input, and what some readers cannot find in it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Losses {
    /// Links of the input that the output's format does not have.
    pub left_out: Vec<Link>,
    /// Names of other files in the output, which HDF5 looks for in its directory.
    pub other_files: BTreeSet<String>,
    /// Names of axes that the output does not have, each with its variable and why.
    pub names_lost: Vec<String>,
    /// What programs of netCDF-C do not open or show of a netCDF-4 output.
    pub netcdf: NetcdfLimits,
    /// What else the output's format does not keep of the input, in words.
    pub not_kept: Vec<String>,
}

/// What a Zarr store does not say of `source`, in words.
pub(super) fn unknown_to_zarr(source: &dyn Source) -> Vec<String> {
    let (model, mut notes) = (source.model(), Vec::new());
    if source.as_any().is::<ZarrSource>() {
        return notes;
    }
    let growing = growing(model);
    if !growing.is_empty() {
        notes.push(format!("which dimensions can grow: {}; Zarr does not say that", named(&growing)));
    }
    let unused = unused(model);
    if !unused.is_empty() {
        notes.push(format!("dimensions that no variable has: {}", named(&unused)));
    }
    let tables = source.as_any().downcast_ref::<Hdf5Source>().map(Hdf5Source::attribute_tables).unwrap_or_default();
    if !tables.is_empty() {
        notes.push(format!("the shape of attributes, which become plain lists: {}", tables.join(", ")));
    }
    notes
}

/// Dimensions whose length an output of HDF5 has to fix because a Zarr store does not say that they can grow, in words.
pub(super) fn fixed_dimensions(source: &dyn Source) -> Vec<String> {
    let model = source.model();
    let dimensions = model.groups.iter().flat_map(|group| &group.dimensions);
    let fixed = dimensions.filter(|dimension| !dimension.unlimited).map(|dimension| dimension.name.as_str());
    let fixed: BTreeSet<&str> = fixed.collect();
    if !source.as_any().is::<ZarrSource>() || fixed.is_empty() || !growing(model).is_empty() {
        return Vec::new();
    }
    vec![format!("which dimensions can grow: Zarr does not say that, so they have a fixed length: {}", named(&fixed))]
}

/// Axes whose names an output with one length for each name cannot have, in words.
pub(super) fn names_lost(source: &dyn Source) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, variable) in source.model().variables.iter().enumerate() {
        let axes = source.axis_names(index).into_iter().zip(&variable.dimensions).zip(&variable.shape);
        for ((name, _), len) in axes.filter(|((name, dimension), _)| name != *dimension) {
            notes.push(format!(
                "{}: variable '{}': the name '{}' of an axis of length {len} is lost: other variables have a dimension \
                 of that name and another length, and the output has one length for each; rename it in the input to \
                 keep it",
                source.path().display(),
                variable.name(),
                name.unwrap_or_default()
            ));
        }
    }
    notes
}

/// Dimensions that can grow, and variables that do along axes without a name.
fn growing(model: &Model) -> BTreeSet<&str> {
    let dimensions = model.groups.iter().flat_map(|group| &group.dimensions);
    let dimensions = dimensions.filter(|dimension| dimension.unlimited).map(|dimension| dimension.name.as_str());
    let nameless = |variable: &&Variable| {
        variable.max_shape.iter().zip(&variable.dimensions).any(|(most, name)| most.is_none() && name.is_none())
    };
    dimensions.chain(model.variables.iter().filter(nameless).map(Variable::name)).collect()
}

/// Dimensions that no variable of their group, or below it, has.
fn unused(model: &Model) -> BTreeSet<&str> {
    let is_used = |group: &Group, name: &str| {
        let below = format!("{}/", group.path.trim_end_matches('/'));
        let variables = model.variables.iter().filter(|variable| variable.path.starts_with(&below));
        variables.flat_map(|variable| variable.dimensions.iter().flatten()).any(|known| known == name)
    };
    let dimensions = model.groups.iter().flat_map(|group| group.dimensions.iter().map(move |one| (group, one)));
    dimensions.filter(|(group, one)| !is_used(group, &one.name)).map(|(_, one)| one.name.as_str()).collect()
}

fn named(names: &BTreeSet<&str>) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;
    use knarr_array::model::Dimension;

    #[test]
    fn dimensions_that_grow_or_have_no_use_are_named() {
        let dimension = |name: &str, unlimited| Dimension { name: name.to_owned(), len: 4, unlimited };
        let group = |path: &str, dimensions| Group { path: path.to_owned(), dimensions, ..Group::default() };
        let mut variable = Variable::plain("/g/T", DType::F32, vec![4, 4]);
        variable.dimensions = vec![Some("time".to_owned()), None];
        let mut model = Model {
            groups: vec![
                group("/", vec![dimension("time", true), dimension("x", false)]),
                group("/g", vec![dimension("x", false)]),
            ],
            variables: vec![variable],
        };
        assert_eq!((growing(&model), unused(&model)), (BTreeSet::from(["time"]), BTreeSet::from(["x"])));
        model.variables[0].max_shape = vec![None, None];
        assert_eq!(growing(&model), BTreeSet::from(["time", "g/T"]));
    }
}
