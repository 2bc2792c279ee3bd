//! Copies the structure of an HDF5 file: groups, links, named types, datasets without values, attributes.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};

use crate::create::{Site, create_encoded, create_same, stop_pretending_all};
use crate::model::paths::child_path;
use crate::read::source::Hdf5Source;
use crate::sys::{
    Address, DatasetLayout, Datatype, File, Group, Link, LinkTarget, Object, ObjectKind, Plist, References,
};
use crate::text::element::text;
use crate::write::as_made::StoredAs;
use crate::write::contents::copy_values;
use crate::write::sink_options::SinkOptions;
use knarr_array::error::{Error, Result};
use knarr_flow::store::{Source, Storage};

/// An object of the new file.
struct Copied {
    path: Vec<u8>,
    address: Address,
}

/// Copies one file into another.
pub(crate) struct Copier<'a> {
    source: &'a Hdf5Source,
    target: &'a File,
    /// The target takes the place of the source: values in external raw files stay there.
    in_place: bool,
    /// Datasets to be encoded anew, by address in the source.
    storages: HashMap<Address, &'a Storage>,
    /// Datasets that are stored in another way, with their numbers.
    as_made: HashMap<Address, (usize, StoredAs)>,
    /// Objects of the source and what became of them.
    copied: HashMap<Address, Copied>,
    /// The same, in the order of their making.
    order: Vec<(Address, ObjectKind)>,
    /// Named types of the new file, kept open because they may not be linked yet.
    types: HashMap<Address, Datatype>,
    /// References that were met and lead nowhere.
    lost: Cell<usize>,
    early: Vec<Address>,
}

/// What is to be known of a copy.
pub(crate) struct Outcome {
    /// References of the source that led nowhere.
    pub(crate) references_lost: usize,
    /// Datasets of the copy that are to take their space early once they are complete.
    pub(crate) early: Vec<Address>,
}

impl References for Copier<'_> {
    fn source(&self) -> &File {
        self.source.file()
    }

    fn target(&self) -> &File {
        self.target
    }

    fn translate(&self, address: Address) -> Option<(Address, &[u8])> {
        self.copied.get(&address).map(|copied| (copied.address, copied.path.as_slice()))
    }

    fn leads_nowhere(&self) {
        self.lost.set(self.lost.get() + 1);
    }
}

impl<'a> Copier<'a> {
    /// Copies everything but the values of the datasets in `storages`.
    pub(crate) fn run(
        source: &'a Hdf5Source,
        target: &'a File,
        storages: &'a [Storage],
        options: &'a SinkOptions,
    ) -> Result<Outcome> {
        let mut as_made = HashMap::new();
        for (number, variable) in source.model().variables.iter().enumerate() {
            let (stored, is) = (source.stored(number)?, StoredAs::of(variable));
            let wanted = match options.as_made.get(&variable.path) {
                Some(wanted) => (*wanted != is).then(|| wanted.clone()),
                // Its chunks are not there to be copied, so they are encoded as the program would have done it.
                None => (source.is_serial && source.variable_apart(stored.address).is_some()).then_some(is),
            };
            if let Some(wanted) = wanted
                && wanted.is_possible(source, number)
            {
                as_made.insert(stored.address, (number, wanted));
            }
        }
        let storages = storages
            .iter()
            .map(|storage| Ok((source.stored(storage.variable)?.address, storage)))
            .collect::<Result<HashMap<_, _>>>()?;
        let mut copier = Self {
            source,
            target,
            in_place: options.in_place,
            storages,
            as_made,
            copied: HashMap::new(),
            order: Vec::new(),
            types: HashMap::new(),
            lost: Cell::new(0),
            early: Vec::new(),
        };
        let outcome = copier.structure();
        let written = stop_pretending_all(target);
        outcome.and(written)?;
        copier.values()?;
        copier.attributes()?;
        Ok(Outcome { references_lost: copier.lost.get(), early: copier.early })
    }

    fn structure(&mut self) -> Result<()> {
        let root = self.source.file().root()?;
        let new_root = self.target.root()?;
        let root_address = root.0.address()?;
        self.remember(root_address, ObjectKind::Group, b"/".to_vec(), &new_root.0)?;
        let mut queue = VecDeque::from([(b"/".to_vec(), root, new_root)]);
        while let Some((path, from, to)) = queue.pop_front() {
            for link in from.links()? {
                let child = child_path(&path, &link.name);
                if let Some((from, to)) = self.link(&link, &child, &to).map_err(|error| error.at(text(&child)))? {
                    queue.push_back((child, from, to));
                }
            }
        }
        Ok(())
    }

    fn remember(&mut self, old: Address, kind: ObjectKind, path: Vec<u8>, new: &Object) -> Result<()> {
        self.copied.insert(old, Copied { path, address: new.address()? });
        self.order.push((old, kind));
        Ok(())
    }

    /// Copies one link, and the object behind it if it is new. Returns groups whose links come next.
    fn link(&mut self, link: &Link, path: &[u8], to: &Group) -> Result<Option<(Group, Group)>> {
        let lcpl = Plist::for_link(link.utf8)?;
        let address = match &link.target {
            LinkTarget::Hard(address) => *address,
            LinkTarget::Soft(target) => return to.link_soft(&link.name, target, &lcpl).map(|()| None),
            LinkTarget::External { file, path } => {
                return to.link_external(&link.name, file, path, &lcpl).map(|()| None);
            }
            LinkTarget::User { class, value } => {
                return to.link_user(&link.name, *class, value, &lcpl).map(|()| None);
            }
        };
        if let Some(known) = self.copied.get(&address) {
            return to.link_hard(&link.name, &known.path, &lcpl).map(|()| None);
        }
        let object = self.source.file().object_at(address)?;
        match object.kind()? {
            ObjectKind::Group => {
                let from = object.into_group()?;
                let gcpl = Plist::for_group()?;
                gcpl.copy_group_settings(&from.0.creation()?)?;
                let new = to.create_group(&link.name, &lcpl, &gcpl)?;
                self.remember(address, ObjectKind::Group, path.to_vec(), &new.0)?;
                Ok(Some((from, new)))
            }
            ObjectKind::NamedType => {
                self.named_type(address, &object.into_datatype()?)?;
                let new = self.types.get(&address).ok_or_else(|| Error::internal("a named type got lost"))?;
                to.link_id(&link.name, new, &lcpl)?;
                let new = new.as_object()?;
                self.remember(address, ObjectKind::NamedType, path.to_vec(), &new)?;
                Ok(None)
            }
            ObjectKind::Dataset => {
                let dataset = object.into_dataset()?;
                let (space, dcpl) = (dataset.space()?.rebuilt()?, dataset.0.creation()?);
                let datatype = dataset.datatype()?;
                let dcpl = dcpl.rebuilt_for_dataset(&datatype, self.in_place)?;
                let is_early = self.source.is_parallel || dcpl.allocates_early()?;
                drop(dataset);
                let site = Site { group: to, name: &link.name, lcpl: &lcpl };
                let datatype = self.target_type(&datatype)?;
                let new = match self.storages.get(&address) {
                    Some(_) if datatype.indirections()? != (false, false) => {
                        return Err(Error::usage("values with pointers cannot be encoded, only copied"));
                    }
                    Some(storage) => create_encoded(&site, &datatype, &space, &dcpl, storage)?,
                    None => {
                        if let Some((_, wanted)) = self.as_made.get(&address) {
                            wanted.set(&dcpl)?;
                        } else if self.source.variable_apart(address).is_some() {
                            // What is so small needs none of the program's filters.
                            dcpl.set_filters(&[])?;
                        }
                        create_same(&site, &datatype, &space, &dcpl)?
                    }
                };
                self.remember(address, ObjectKind::Dataset, path.to_vec(), &new.0)?;
                if is_early && matches!(dcpl.layout()?, DatasetLayout::Chunked(_)) && !dcpl.allocates_early()? {
                    self.early.push(new.0.address()?);
                }
                new.close()?;
                Ok(None)
            }
        }
    }

    /// The type to use in the new file: the counterpart of a named type, or the type itself.
    fn target_type(&mut self, datatype: &Datatype) -> Result<Datatype> {
        match datatype.named_address()? {
            None => datatype.rebuilt(),
            Some(address) => {
                self.named_type(address, datatype)?;
                let new = self.types.get(&address).ok_or_else(|| Error::internal("a named type got lost"))?;
                new.same()
            }
        }
    }

    /// Makes the counterpart of a named type unless there is one. It is linked when its link is copied; a type
    /// that only datasets hold on to needs none.
    fn named_type(&mut self, address: Address, datatype: &Datatype) -> Result<()> {
        if self.types.contains_key(&address) {
            return Ok(());
        }
        let tcpl = datatype.as_object()?.creation()?;
        tcpl.forget_times()?;
        let new = datatype.rebuilt()?;
        new.commit_nameless(&self.target.root()?, &tcpl)?;
        self.types.insert(address, new);
        Ok(())
    }

    /// Copies values of datasets that keep their storage. All objects exist by now, so references find theirs.
    fn values(&self) -> Result<()> {
        for (address, kind) in &self.order {
            if *kind != ObjectKind::Dataset || self.storages.contains_key(address) {
                continue;
            }
            let Some(copied) = self.copied.get(address) else { continue };
            let place = |error: Error| error.at_variable(text(&copied.path).trim_start_matches('/'));
            let target = self.target.object_at_path(&copied.path).and_then(Object::into_dataset).map_err(place)?;
            match self.as_made.get(address) {
                Some((variable, wanted)) => wanted.copy(self.source, *variable, &target),
                None => copy_values(self.source, *address, &copied.path, &target, self),
            }
            .map_err(place)?;
            target.close().map_err(place)?;
        }
        Ok(())
    }

    fn attributes(&mut self) -> Result<()> {
        for n in 0..self.order.len() {
            let Some((address, _)) = self.order.get(n).copied() else { break };
            let Some(copied) = self.copied.get(&address) else { continue };
            let path = copied.path.clone();
            let place = |error: Error| error.at(text(&path));
            let from = self.source.file().object_at(address).map_err(place)?;
            let to = self.target.object_at_path(&path).map_err(place)?;
            for attr in from.attributes().map_err(place)? {
                let name = attr.name().map_err(place)?;
                self.attribute(&attr, &name, &to)
                    .map_err(|error| error.at(format!("attribute '{}'", text(&name))).at(text(&path)))?;
            }
            let comment = from.comment().map_err(place)?;
            if !comment.is_empty() {
                to.set_comment(&comment).map_err(place)?;
            }
        }
        Ok(())
    }

    fn attribute(&mut self, attr: &crate::sys::Attr, name: &[u8], to: &Object) -> Result<()> {
        let datatype = self.target_type(&attr.datatype()?)?;
        let new = to.create_attribute(name, &datatype, &attr.space()?.rebuilt()?, Some(&attr.creation()?))?;
        let mut memory = attr.read()?;
        memory.translate(self)?;
        new.write(&memory)
    }
}
