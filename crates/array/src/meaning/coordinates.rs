//! Which variables locate or measure others.

use std::collections::{HashMap, HashSet};

use crate::model::{AttributeValue, Model, Variable};

/// Attributes whose words name variables that locate or measure the one they belong to, or, of a group, others (CF
/// conventions, chapters 4, 5, 7 and appendix D; UGRID). Section 8.4 rules out rounding for what `formula_terms` and
/// `cell_measures` name, too.
const NAMING_COORDINATES: [&str; 10] = [
    "coordinates",
    "bounds",
    "climatology",
    "grid_mapping",
    "formula_terms",
    "cell_measures",
    "node_coordinates",
    "edge_coordinates",
    "face_coordinates",
    "volume_coordinates",
];

/// Units that only latitudes and longitudes have (CF conventions, sections 4.1 and 4.2).
const UNITS_OF_PLACES: [&str; 12] = [
    "degrees_north",
    "degree_north",
    "degree_n",
    "degrees_n",
    "degreen",
    "degreesn",
    "degrees_east",
    "degree_east",
    "degree_e",
    "degrees_e",
    "degreee",
    "degreese",
];

/// The variables of a model that locate or measure others.
#[derive(Debug, Clone, Default)]
pub struct Coordinates {
    /// Names, without their groups, that attributes say.
    named: HashSet<String>,
    /// What CMIP's archives ask of the chunks of variables, by path.
    archived: HashMap<String, u64>,
}

/// Bytes that a chunk of the data of a CMIP file takes at least (`check_cmip7_packing` of cmip7-repack).
const CMIP_CHUNK: u64 = 4 << 20;
/// Those of its times: all of them, below the limit of HDF5.
const ONE_CHUNK: u64 = 1 << 30;

impl Coordinates {
    /// Those of `model`.
    pub fn of(model: &Model) -> Self {
        let all = model.variables.iter().flat_map(|variable| &variable.attributes);
        let naming = all.filter(|attribute| NAMING_COORDINATES.contains(&attribute.name.as_str()));
        let mut named: HashSet<String> = naming.flat_map(|attribute| names(&attribute.value)).collect();
        // Of groups it may be text for people.
        let known: HashSet<&str> = model.variables.iter().map(|variable| base(&variable.path)).collect();
        let of_groups = model.groups.iter().flat_map(|group| &group.attributes);
        for attribute in of_groups.filter(|attribute| attribute.name == "coordinates") {
            let words = names(&attribute.value);
            if words.iter().all(|word| known.contains(word.as_str())) {
                named.extend(words);
            }
        }
        Self { named, archived: archived(model) }
    }

    /// Bytes that a chunk of `variable` takes at least, or all of it, where its file follows a convention that asks this.
    pub fn least_chunk(&self, variable: &Variable) -> Option<u64> {
        self.archived.get(&variable.path).copied()
    }

    /// True if `variable` is called like its dimension, is on an `axis` or in units of places or times, or is named by
    /// an attribute that names coordinates.
    pub fn has(&self, variable: &Variable) -> bool {
        let base = base(&variable.path);
        let is_dimension = matches!(variable.dimensions.as_slice(), [Some(only)] if only == base);
        let axis = variable.attribute("axis").and_then(AttributeValue::text);
        is_dimension
            || self.named.contains(base)
            || axis.is_some_and(|axis| ["X", "Y", "Z", "T"].contains(&axis.trim().to_uppercase().as_str()))
            || has_units_of_coordinates(variable)
    }
}

/// In a file of CMIP, whose attribute `variable_id` names its data: that variable is to have chunks of at least 4 MiB,
/// and times and their bounds a single one, or who reads a part of them fetches hundreds.
fn archived(model: &Model) -> HashMap<String, u64> {
    let root = model.groups.iter().find(|group| group.path == "/");
    let id = root.and_then(|root| root.attributes.iter().find(|attribute| attribute.name == "variable_id"));
    let at = |name: &str| model.variables.iter().find(|variable| variable.path.trim_start_matches('/') == name);
    let Some(data) = id.and_then(|id| id.value.text()).and_then(at) else { return HashMap::new() };
    let time = at("time");
    let bounds = time.and_then(|time| time.attribute("bounds")).and_then(AttributeValue::text).and_then(at);
    let whole = [time, bounds].into_iter().flatten().map(|variable| (variable.path.clone(), ONE_CHUNK));
    whole.chain([(data.path.clone(), CMIP_CHUNK)]).collect()
}

/// A name without its groups.
fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Last names of the paths in `value`.
fn names(value: &AttributeValue) -> Vec<String> {
    let texts: &[String] = match value {
        AttributeValue::Text(text) => std::slice::from_ref(text),
        AttributeValue::Strings(list) => list,
        _ => &[],
    };
    texts.iter().flat_map(|text| text.split_whitespace()).map(|word| base(word).to_owned()).collect()
}

/// True for units of latitudes and longitudes, and of times since a date.
fn has_units_of_coordinates(variable: &Variable) -> bool {
    let Some(units) = variable.attribute("units").and_then(AttributeValue::text) else { return false };
    UNITS_OF_PLACES.contains(&units.trim().to_lowercase().as_str())
        || units.split_whitespace().nth(1).is_some_and(|word| word.eq_ignore_ascii_case("since"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::DType;
    use crate::model::{Attribute, Group};

    fn text(name: &str, value: &str) -> Attribute {
        Attribute { name: name.to_owned(), value: AttributeValue::Text(value.to_owned()) }
    }

    fn variable(path: &str, attributes: Vec<Attribute>) -> Variable {
        Variable { attributes, ..Variable::plain(path, DType::F32, vec![4]) }
    }

    #[test]
    fn coordinates_are_known_by_names_paths_axes_and_units() {
        let strings = |name: &str, value: &str| Attribute {
            name: name.to_owned(),
            value: AttributeValue::Strings(vec![value.to_owned()]),
        };
        let prose = vec![text("coordinates", "geographic: P and others"), text("bounds", "P is bounded")];
        let other = Group { path: "/geo".to_owned(), attributes: prose, ..Group::default() };
        let root = Group { path: "/".to_owned(), attributes: vec![text("coordinates", "station")], ..Group::default() };
        let variables = vec![
            variable("/T", vec![text("coordinates", "/geo/lat ../geo/lon"), text("units", "K")]),
            variable("/geo/lat", vec![]),
            variable("/geo/lon", vec![]),
            variable("/mesh", vec![text("node_coordinates", "node_x"), text("face_coordinates", "face_x")]),
            variable("/node_x", vec![]),
            variable("/face_x", vec![]),
            variable("/station", vec![]),
            variable("/nav_lat", vec![text("units", "degrees_north")]),
            variable("/month", vec![text("units", "days since 1850-01-01")]),
            variable("/level", vec![text("axis", "Z")]),
            variable("/strings", vec![strings("units", "degrees_east")]),
            variable("/rotated", vec![text("axis", "")]),
            variable("/P", vec![]),
            variable("/lon_error", vec![text("units", "degrees")]),
            variable("/since", vec![text("units", "since 1850")]),
        ];
        let model = Model { groups: vec![root, other], variables };
        let coordinates = Coordinates::of(&model);
        let data: Vec<&str> =
            model.variables.iter().filter(|variable| !coordinates.has(variable)).map(Variable::name).collect();
        assert_eq!(data, ["T", "mesh", "rotated", "P", "lon_error", "since"]);
    }
}
