//! Follows the hard links of a file from the root group: every group and dataset, each once.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use crate::model::names::NON_COORDINATE;
use crate::model::paths::child_path;
use crate::sys::{Address, Dataset, Datatype, File, Group, LinkTarget, ObjectKind};
use crate::text::element::text;
use knarr_array::error::{Error, Result};

/// What is done with what a walk comes to.
pub(crate) trait Visitor {
    /// A group; what is in it follows later, after the groups and datasets that are less deep.
    fn group(&mut self, path: &[u8], group: &Group) -> Result<()>;

    /// A dataset. `group` is the number of the group that it was found in, in the order of [`Visitor::group`].
    fn dataset(&mut self, group: usize, path: &[u8], address: Address, dataset: &Dataset) -> Result<()>;

    /// Another link to an object that was come to before, by the path `first`.
    fn again(&mut self, path: &[u8], address: Address, first: &[u8]);

    /// A type with a name.
    fn named_type(&mut self, _path: &[u8], _datatype: &Datatype) -> Result<()> {
        Ok(())
    }

    /// A link that does not lead to an object itself.
    fn link(&mut self, _path: &[u8], _target: &LinkTarget) {}
}

/// A dataset's path for people: netCDF-4 gives some variables another name in the file than their own.
pub(crate) fn shown_path(path: &[u8]) -> String {
    let (parent, name) = path.split_at(path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1));
    text(&[parent, name.strip_prefix(NON_COORDINATE.as_bytes()).unwrap_or(name)].concat())
}

/// Shows `visitor` everything in `file`. Errors say at which object they happened.
pub(crate) fn walk(file: &File, visitor: &mut dyn Visitor) -> Result<()> {
    let root = file.root()?;
    let mut seen = HashMap::from([(root.0.address()?, b"/".to_vec())]);
    let mut queue = VecDeque::from([(b"/".to_vec(), root)]);
    let mut groups = 0;
    while let Some((path, group)) = queue.pop_front() {
        let place = |error: Error| error.at(format!("group '{}'", text(&path)));
        visitor.group(&path, &group).map_err(place)?;
        for link in group.links().map_err(place)? {
            let child = child_path(&path, &link.name);
            let LinkTarget::Hard(address) = link.target else {
                visitor.link(&child, &link.target);
                continue;
            };
            match seen.entry(address) {
                Entry::Occupied(first) => {
                    visitor.again(&child, address, first.get());
                    continue;
                }
                Entry::Vacant(first) => {
                    first.insert(child.clone());
                }
            }
            let place = |error: Error| error.at_variable(&text(&child));
            let object = file.object_at(address).map_err(place)?;
            match object.kind().map_err(place)? {
                ObjectKind::Group => {
                    let group = object.into_group().map_err(place)?;
                    queue.push_back((child, group));
                }
                ObjectKind::NamedType => {
                    let datatype = object.into_datatype().map_err(place)?;
                    visitor.named_type(&child, &datatype).map_err(place)?;
                }
                ObjectKind::Dataset => {
                    let dataset = object.into_dataset().map_err(place)?;
                    visitor.dataset(groups, &child, address, &dataset).map_err(place)?;
                }
            }
        }
        groups += 1;
    }
    Ok(())
}
