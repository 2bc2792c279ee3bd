//! The path by which an object is told, whichever of its names somebody else used.

use std::cell::OnceCell;
use std::collections::{HashMap, VecDeque};

use crate::sys::{Address, File, LinkTarget, ObjectKind};
use knarr_array::error::Result;

/// Paths of the objects of a file, looked for when the first is asked for.
pub(crate) struct Paths<'a> {
    file: &'a File,
    found: OnceCell<HashMap<Address, Vec<u8>>>,
}

impl<'a> Paths<'a> {
    pub(crate) fn of(file: &'a File) -> Self {
        Self { file, found: OnceCell::new() }
    }

    /// Path of the object at `address`; empty if no hard link leads there.
    pub(crate) fn get(&self, address: Address) -> Result<Vec<u8>> {
        let found = match self.found.get() {
            Some(found) => found,
            None => {
                let found = find(self.file)?;
                self.found.get_or_init(|| found)
            }
        };
        Ok(found.get(&address).cloned().unwrap_or_default())
    }
}

/// Of several paths the one with the fewest names, and of those the first by name. So it follows from the names alone:
/// in which order a file keeps its links says nothing about it.
fn find(file: &File) -> Result<HashMap<Address, Vec<u8>>> {
    let root = file.root()?;
    let mut found = HashMap::from([(root.0.address()?, b"/".to_vec())]);
    let mut queue = VecDeque::from([(b"/".to_vec(), root)]);
    while let Some((path, group)) = queue.pop_front() {
        let mut links = group.links()?;
        links.sort_by(|a, b| a.name.cmp(&b.name));
        for link in links {
            let LinkTarget::Hard(address) = link.target else { continue };
            if found.contains_key(&address) {
                continue;
            }
            let child = child_path(&path, &link.name);
            found.insert(address, child.clone());
            let object = file.object_at(address)?;
            if object.kind()? == ObjectKind::Group {
                queue.push_back((child, object.into_group()?));
            }
        }
    }
    Ok(found)
}

/// Path of a child.
pub(crate) fn child_path(parent: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = parent.to_vec();
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
