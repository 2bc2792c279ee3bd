//! What programs of netCDF-C make of a file that uses more of HDF5 than netCDF-4 does.
//!
//! They open every object when they open a file: one that they cannot open keeps them from all the others. Types and
//! links are treated here as netCDF-C 4.9.0 and 4.10.1 treat them; `tests/e2e/test_netcdf_limits.py` asks those
//! that are installed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::read::external_files::{is_beside, places};
use crate::read::source::Hdf5Source;
use crate::sys::{self, Class, Datatype};
use knarr_array::array::DType;
use knarr_array::error::Result;
use knarr_array::model::{ElementType, Link, LinkTarget, Model, StorageLayout};
use knarr_flow::store::Source;

/// What programs of netCDF-C do not open or show of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetcdfLimits {
    /// Why they do not open the file at all.
    pub refused: Vec<String>,
    /// Links into other files, with the names of these: the file is opened only where it finds them.
    pub files: Vec<(String, String)>,
    /// Attributes of several dimensions: listing the attributes of an object that has one fails.
    pub tables: Vec<String>,
    /// Variables of types that they do not know: left out.
    pub hidden: Vec<String>,
    /// Variables of types without a name, which are left out before release 4.9.3.
    pub hidden_before: Vec<String>,
    /// Variables of half precision: 4.10.1 takes them for strings, and reading them ends the program.
    #[serde(default)]
    pub halves: Vec<String>,
}

impl NetcdfLimits {
    /// Why a file of these limits is not opened from where `output` lies.
    pub fn refused_at(&self, output: &Path) -> Vec<String> {
        let missing = self.files.iter().filter(|(_, file)| !is_beside(output, file));
        let missing = missing.map(|(link, file)| format!("link '{link}' leads into '{file}', which is not there"));
        self.refused.iter().cloned().chain(missing).collect()
    }
}

/// What programs of netCDF-C would not open or show of `source` and of a copy of it.
///
/// # Errors
/// `Corrupt` if a dataset cannot be opened again.
pub fn netcdf_limits(source: &Hdf5Source) -> Result<NetcdfLimits> {
    let model = source.model();
    let mut limits = NetcdfLimits { tables: source.attribute_tables().to_vec(), ..NetcdfLimits::default() };
    for link in model.links() {
        let name = link.path.trim_start_matches('/');
        match &link.target {
            LinkTarget::Hard(_) => {}
            LinkTarget::Soft(_) | LinkTarget::User { .. } if leads_somewhere(source, link) => {}
            LinkTarget::Soft(to) => limits.refused.push(format!("link '{name}' to '{to}' leads nowhere")),
            LinkTarget::User { class, .. } => {
                limits.refused.push(format!("link '{name}' is of class {class}, which only its program can follow"));
            }
            LinkTarget::External { file, path } => match find(source.path(), file) {
                Some(found) if !has_object(&found, path) => {
                    limits.refused.push(format!("link '{name}' leads to '{path}' in '{file}', where there is no such"));
                }
                _ => limits.files.push((name.to_owned(), file.clone())),
            },
        }
    }
    if let Some(group) = circle(model) {
        limits.refused.push(format!("links lead from group '{group}' back to itself"));
    }
    let unknown = source
        .odd_types()
        .iter()
        .map(|name| format!("type '{}' has a name and is not one of netCDF's", name.trim_start_matches('/')));
    limits.refused.extend(unknown);
    for (index, variable) in model.variables.iter().enumerate() {
        if variable.layout == StorageLayout::Null {
            limits.refused.push(format!(
                "variable '{}' has no values (null dataspace), which new releases refuse",
                variable.name()
            ));
            continue;
        }
        if variable.dtype == DType::F16 {
            limits.halves.push(format!("'{}'", variable.name()));
        }
        let Some(element) = source.element_type(index) else { continue };
        let datatype = source.dataset(source.stored(index)?)?.datatype()?;
        let told = || format!("'{}' ({})", variable.name(), element.short());
        match datatype.class()? {
            Class::Time => limits.refused.push(format!("variable '{}' is of type time", variable.name())),
            Class::Reference | Class::Bitfield | Class::Array => limits.hidden.push(told()),
            _ if needs_name(&datatype, element)? => limits.hidden_before.push(told()),
            _ => {}
        }
    }
    Ok(limits)
}

/// True for types that releases before 4.9.3 find by their names only.
fn needs_name(datatype: &Datatype, element: &ElementType) -> Result<bool> {
    let is_text = matches!(datatype.class()?, Class::String | Class::Integer | Class::Float);
    Ok(!is_text
        && !matches!(element, ElementType::Other(words) if words == "string")
        && datatype.named_address()?.is_none())
}

/// The library knows names that the model does not have: those of dimensions without variables.
fn leads_somewhere(source: &Hdf5Source, link: &Link) -> bool {
    source.file().object_named(&link.path).is_ok()
}

/// The file that a link of `from` names, if it is there.
fn find(from: &Path, name: &str) -> Option<PathBuf> {
    places(from).map(|place| place.join(name)).find(|path| path.is_file())
}

/// True if `file` has an object at `path`, or another program keeps that from being found out.
fn has_object(file: &Path, path: &str) -> bool {
    let absolute = format!("/{}", path.trim_start_matches('/'));
    sys::File::open(file, false).is_ok_and(|file| file.object_at_path(absolute.as_bytes()).is_ok())
}

/// A group that one comes back to by following links, if there is one.
fn circle(model: &Model) -> Option<String> {
    let groups: BTreeSet<&str> = model.groups.iter().map(|group| group.path.as_str()).collect();
    let mut below: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for group in &model.groups {
        let path = group.path.as_str();
        if let Some((parent, _)) = path.rsplit_once('/').filter(|_| path != "/") {
            below.entry(if parent.is_empty() { "/" } else { parent }).or_default().push(path);
        }
        for link in &group.links {
            let target = match &link.target {
                LinkTarget::Hard(to) => to.clone(),
                LinkTarget::Soft(to) if to.starts_with('/') => to.clone(),
                LinkTarget::Soft(to) => format!("{}/{to}", path.trim_end_matches('/')),
                LinkTarget::External { .. } | LinkTarget::User { .. } => continue,
            };
            let target = if target.len() > 1 { target.trim_end_matches('/') } else { target.as_str() };
            if let Some(group) = groups.get(target) {
                below.entry(path).or_default().push(group);
            }
        }
    }
    // Groups whose links are being followed, each with the number of those that were; and groups that led back to none.
    let (mut way, mut done) = (vec![("/", 0)], BTreeSet::new());
    while let Some((group, next)) = way.last_mut() {
        let Some(child) = below.get(group).and_then(|below| below.get(*next)).copied() else {
            done.insert(*group);
            way.pop();
            continue;
        };
        *next += 1;
        if way.iter().any(|(group, _)| *group == child) {
            return Some(child.to_owned());
        }
        if !done.contains(child) {
            way.push((child, 0));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::model::Group;

    #[test]
    fn circles_of_links_are_found() {
        let model = |links: &[(&str, LinkTarget)]| {
            let of = |path: &str| {
                let here = links.iter().filter(|(at, _)| {
                    at.rsplit_once('/').map(|(parent, _)| parent) == Some(path.trim_end_matches('/'))
                });
                let links = here.map(|(at, target)| Link { path: (*at).to_owned(), target: target.clone() });
                Group { path: path.to_owned(), links: links.collect(), ..Group::default() }
            };
            Model { groups: ["/", "/a", "/a/b", "/c"].map(of).to_vec(), variables: vec![] }
        };
        let hard = |to: &str| LinkTarget::Hard(to.to_owned());
        let soft = |to: &str| LinkTarget::Soft(to.to_owned());
        assert_eq!(circle(&model(&[])), None);
        assert_eq!(circle(&model(&[("/a/again", hard("/c")), ("/c/deep", soft("/a/b"))])), None);
        assert_eq!(circle(&model(&[("/a/b/up", hard("/a"))])), Some("/a".to_owned()));
        assert_eq!(circle(&model(&[("/up", soft("/"))])), Some("/".to_owned()));
        assert!(circle(&model(&[("/a/b/x", hard("/c")), ("/c/y", soft("/a"))])).is_some());
    }
}
