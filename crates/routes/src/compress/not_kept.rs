//! What an output's format has no place for, and readers would not miss before they look for it.

use std::collections::BTreeSet;

use knarr_array::model::{Group, Model, Variable};
use knarr_flow::store::Source;
use knarr_formats::hdf5::Hdf5Source;
use knarr_formats::zarr::ZarrSource;

use super::format::OutputFormat;

/// What an output of this format does not keep of `source`, in words.
pub(super) fn of(source: &dyn Source, format: OutputFormat) -> Vec<String> {
    let (model, is_zarr) = (source.model(), source.as_any().is::<ZarrSource>());
    let mut notes = Vec::new();
    match format {
        OutputFormat::Zarr if !is_zarr => {
            let growing = growing(model);
            if !growing.is_empty() {
                notes.push(format!("which dimensions can grow: {}; Zarr does not say that", named(&growing)));
            }
            let unused = unused(model);
            if !unused.is_empty() {
                notes.push(format!("dimensions that no variable has: {}", named(&unused)));
            }
            let tables =
                source.as_any().downcast_ref::<Hdf5Source>().map(Hdf5Source::attribute_tables).unwrap_or_default();
            if !tables.is_empty() {
                notes.push(format!("the shape of attributes, which become plain lists: {}", tables.join(", ")));
            }
        }
        OutputFormat::NetCdf4 | OutputFormat::Hdf5 if is_zarr => {
            let fixed: BTreeSet<&str> = model
                .groups
                .iter()
                .flat_map(|group| &group.dimensions)
                .filter(|dimension| !dimension.unlimited)
                .map(|dimension| dimension.name.as_str())
                .collect();
            if !fixed.is_empty() && growing(model).is_empty() {
                notes.push(format!(
                    "which dimensions can grow: Zarr does not say that, so they have a fixed length: {}",
                    named(&fixed)
                ));
            }
        }
        _ => {}
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
