//! Writing Zarr v3.

use crate::zarr::chunk::shard::Sharding;
use crate::zarr::read::array::ZarrArray;
use crate::zarr::read::source::ZarrSource;
use crate::zarr::write::copied::copied_node;
use crate::zarr::write::node::{Node, encoded_node, group_metadata, node_key, refuse_copy};
use crate::zarr::{metadata::attributes, metadata::json, write::plain, write::strings};
use knarr_array::array::DType;
use knarr_array::model::{Attribute, Group, Model};
use knarr_array::{Error, Result};
use knarr_codec::codec::CodecList;
use knarr_flow::output::{AtomicDirectory, DirectoryKind, Replaces, Store};
use knarr_flow::reserved::ReservedOffset;
use knarr_flow::store::{ChunkToReserve, EncodedChunk, Sink, Source, Storage, Strings};
use knarr_flow::urls::Contents;
use knarr_input::described;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::Path;

/// Choices of the Zarr writer.
#[derive(Debug, Clone, Default)]
pub struct ZarrOptions {
    /// What the store may take the place of.
    pub replaces: Replaces,
    /// Whether chunks share files.
    pub sharding: Sharding,
    /// For what the sink encodes itself, strings of variable length. Without a codec `zstd` they are not compressed.
    pub codecs: CodecList,
}

/// A Zarr v3 store being written.
#[derive(Debug)]
pub struct ZarrSink {
    /// `None` once the output was given up.
    store: Option<Box<dyn Store>>,
    /// What the nodes are made of, until they are made.
    design: Option<Design>,
    /// Path and `zarr.json` without attributes, of every node but the root, parents first.
    nodes: Vec<Node>,
    /// Node that variable `i` is, if it is written.
    by_variable: Vec<Option<usize>>,
    root_attributes: Map<String, Value>,
}

#[derive(Debug)]
struct Design {
    model: Model,
    storages: Vec<Storage>,
    options: ZarrOptions,
}

/// What is staged.
const STORE: DirectoryKind = DirectoryKind {
    noun: "Zarr store",
    is: crate::zarr::metadata::hierarchy::is_node_at,
    foreign: crate::zarr::metadata::hierarchy::foreign,
    many_files: true,
};

/// What a Zarr store holds, for stores that are no directories.
pub const CONTENTS: Contents =
    Contents { noun: "Zarr store", descriptions: "zarr.json", is_mark: crate::zarr::metadata::stored::is_metadata };

impl ZarrSink {
    fn node_of(&mut self, variable: usize) -> Result<&mut Node> {
        self.make(None)?;
        let node = self.by_variable.get(variable).copied().flatten();
        node.and_then(|node| self.nodes.get_mut(node)).ok_or_else(|| not_written(variable))
    }

    /// Starts a store that will be `path`, with the groups, attributes and variables of `model`. Chunks of the variables
    /// in `storages` come through [`Sink::put`]. All other variables stay unwritten, unless [`ZarrSink::copy_from`]
    /// copies their values.
    ///
    /// Nodes are made by `copy_from`, or by [`Sink::begin`] or the first chunk if nothing is copied.
    ///
    /// # Errors
    /// `Exists` or `Write`. [`Sink::begin`] gives `Unsupported` for a variable that Zarr or this writer cannot hold.
    pub fn create(path: &Path, model: &Model, storages: &[Storage], options: ZarrOptions) -> Result<Self> {
        let staging = AtomicDirectory::create(path, STORE, options.replaces.clone())?;
        Ok(Self::over(Box::new(staging), model, storages, options))
    }

    /// The same in any store, which is empty.
    pub fn over(store: Box<dyn Store>, model: &Model, storages: &[Storage], options: ZarrOptions) -> Self {
        Self {
            store: Some(store),
            nodes: Vec::new(),
            by_variable: vec![None; model.variables.len()],
            root_attributes: Map::new(),
            design: Some(Design { model: model.clone(), storages: storages.to_vec(), options }),
        }
    }

    /// Copies from `source` what gets no chunks. The variables of the model begin with those of `source`; further ones stay
    /// unwritten. This comes before [`Sink::begin`] and before any chunk.
    ///
    /// Values of variables that are not encoded are written as plain bytes. A [`Model`] does not say which elements are
    /// strings of several bytes or of variable length; the source does, so variables of strings can only be copied.
    /// From another store, attributes, names of axes and booleans are taken over as that store has them, whatever the
    /// model says of them, and arrays that are not numbers are copied chunk by chunk.
    ///
    /// # Errors
    /// `Corrupt` or `MissingFilter` if the source cannot be read, `Write`, or `Unsupported` for a variable that Zarr or
    /// this writer cannot hold. The output is given up then.
    pub fn copy_from(&mut self, source: &dyn Source) -> Result<()> {
        match &self.design {
            Some(design) => described::check(&design.model, source).and_then(|()| self.make(Some(source))),
            None => Err(Error::internal("copying comes before chunks")),
        }
    }

    /// Makes the nodes, if they are not made yet.
    fn make(&mut self, source: Option<&dyn Source>) -> Result<()> {
        let Some(design) = self.design.take() else { return Ok(()) };
        let made = self.make_nodes(&design, source);
        made.map_err(|error| match self.store.take() {
            Some(store) => error.at(store.place()),
            None => error,
        })
    }

    fn make_nodes(&mut self, design: &Design, source: Option<&dyn Source>) -> Result<()> {
        let Design { model, storages, .. } = design;
        for (index, group) in model.groups.iter().enumerate() {
            self.make_group(group, source.and_then(|source| stored_attributes(source, index, group)))?;
        }
        let by_variable: HashMap<usize, &Storage> =
            storages.iter().map(|storage| (storage.variable, storage)).collect();
        for (index, variable) in model.variables.iter().enumerate() {
            let source = source.filter(|source| index < source.model().variables.len());
            self.make_array(design, index, by_variable.get(&index).copied(), source)
                .map_err(|error| error.at_variable(variable.name()))?;
        }
        Ok(())
    }

    fn make_group(&mut self, group: &Group, stored: Option<Map<String, Value>>) -> Result<()> {
        let attributes = match stored {
            Some(stored) => stored,
            None => attributes::to_json(&group.attributes, None)
                .map_err(|error| error.at(format!("group '{}'", group.path)))?,
        };
        match node_key(&group.path)? {
            "" => self.root_attributes = attributes,
            key => self.nodes.push(Node { key: key.to_owned(), metadata: group_metadata(), attributes, array: None }),
        }
        Ok(())
    }

    /// Makes the array of variable number `index`, and copies its values if `storage` does not say that chunks come.
    fn make_array(
        &mut self,
        Design { model, options, .. }: &Design,
        index: usize,
        storage: Option<&Storage>,
        source: Option<&dyn Source>,
    ) -> Result<()> {
        let variable = model.variable(index)?;
        let stored = source.and_then(|source| source.as_any().downcast_ref::<ZarrSource>()?.array(index));
        let strings = match source {
            Some(source) => source.strings(index),
            // Characters of netCDF.
            None => (variable.dtype == DType::Opaque(1)).then_some(Strings::Fixed),
        };
        let own = if storage.is_some() || !stored.is_none_or(ZarrArray::is_decoded) {
            None
        } else if strings == Some(Strings::Variable) {
            Some(strings::storage(index, variable, &options.codecs)?)
        } else {
            Some(plain::storage(index, variable))
        };
        let node = match (storage.or(own.as_ref()), stored) {
            (Some(storage), stored) => encoded_node(variable, storage, stored, strings, options.sharding),
            (None, Some(stored)) => copied_node(self.store()?, variable, stored),
            (None, None) => Err(refuse_copy(variable)),
        }?;
        if let Some(place) = self.by_variable.get_mut(index) {
            *place = Some(self.nodes.len());
        }
        self.nodes.push(node);
        match (source, &own) {
            (Some(source), Some(storage)) if strings == Some(Strings::Variable) => {
                strings::copy_values(self, source, variable, storage, &options.codecs)
            }
            (Some(source), Some(storage)) => plain::copy_values(self, source, variable, storage),
            _ => Ok(()),
        }
    }

    /// Adds a chunk: a whole object, or the end of a shard.
    fn add<T>(
        &mut self,
        chunk: ChunkToReserve<'_>,
        whole: impl FnOnce(&mut dyn Store, &str) -> Result<T>,
        end: impl FnOnce(&mut dyn Store, &str) -> Result<(u64, T)>,
    ) -> Result<T> {
        self.make(None)?;
        let store = self.store.as_mut().ok_or_else(given_up)?.as_mut();
        let node = self.by_variable.get(chunk.variable).copied().flatten().and_then(|node| self.nodes.get_mut(node));
        let Some(Node { key, array: Some(array), .. }) = node else { return Err(not_written(chunk.variable)) };
        let place = |error: Error| error.at(format!("chunk {:?}", chunk.position)).at_variable(&array.name);
        if chunk.filter_mask != 0 {
            return Err(place(Error::internal("Zarr has no filter mask: every codec must be applied")));
        }
        let in_grid = chunk.position.len() == array.grid.len()
            && chunk.position.iter().zip(&array.grid).all(|(position, n)| position < n);
        if !array.takes_chunks || !in_grid {
            return Err(place(Error::internal("no such chunk is to be written")));
        }
        match &mut array.shards {
            Some(shards) => {
                let file = chunk_key(key, &shards.position(chunk.position));
                shards.put(store, file, (chunk.position, chunk.length), end)
            }
            None => whole(store, &chunk_key(key, chunk.position)),
        }
        .map_err(|error| error.at(format!("chunk {:?}", chunk.position)).at_variable(&array.name))
    }

    fn store(&mut self) -> Result<&mut dyn Store> {
        match &mut self.store {
            Some(store) => Ok(store.as_mut()),
            None => Err(given_up()),
        }
    }
}

/// The attributes of group number `index` as they are stored, if `source` is a store that has the group there.
fn stored_attributes(source: &dyn Source, index: usize, group: &Group) -> Option<Map<String, Value>> {
    let zarr = source.as_any().downcast_ref::<ZarrSource>()?;
    let is_same = zarr.model().groups.get(index).is_some_and(|found| found.path == group.path);
    zarr.group_attributes(index).filter(|_| is_same).cloned()
}

fn given_up() -> Error {
    Error::internal("the output was given up")
}

/// Key of a chunk below its array: `c/1/0`, or `c` for a scalar.
fn chunk_key(array: &str, position: &[u64]) -> String {
    position.iter().fold(format!("{array}/c"), |key, index| format!("{key}/{index}"))
}

fn not_written(variable: usize) -> Error {
    Error::internal(format!("variable number {variable} is not written"))
}

impl Sink for ZarrSink {
    fn begin(&mut self) -> Result<()> {
        self.make(None)
    }

    fn put(&mut self, chunk: EncodedChunk<'_>) -> Result<()> {
        let EncodedChunk { variable, position, bytes, filter_mask } = chunk;
        let chunk = ChunkToReserve { variable, position, length: bytes.len() as u64, filter_mask };
        self.add(
            chunk,
            |store, key| store.write(key, bytes),
            |store, key| store.append(key, bytes).map(|offset| (offset, ())),
        )
    }

    fn supports_external_writes(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.supports_external_writes())
    }

    fn reserve(&mut self, chunk: ChunkToReserve<'_>) -> Result<ReservedOffset> {
        let reserve = |store: &mut dyn Store, key: &str| store.reserve(key, chunk.length);
        let whole = |store: &mut dyn Store, key: &str| match reserve(store, key)? {
            ReservedOffset { offset: 1.., .. } => Err(Error::internal(format!("'{key}' was written twice"))),
            reserved => Ok(reserved),
        };
        self.add(chunk, whole, |store, key| reserve(store, key).map(|reserved| (reserved.offset, reserved)))
    }

    fn remove_attributes(&mut self, variable: usize, names: &[String]) -> Result<()> {
        let node = self.node_of(variable)?;
        names.iter().for_each(|name| drop(node.attributes.remove(name)));
        Ok(())
    }

    fn annotate(&mut self, variable: Option<usize>, attributes: &[Attribute]) -> Result<()> {
        match variable {
            None => {
                self.make(None)?;
                self.root_attributes.extend(attributes::to_json(attributes, None)?);
            }
            Some(index) => {
                let node = self.node_of(index)?;
                let dtype = node.array.as_ref().map(|array| array.dtype);
                node.attributes.extend(attributes::to_json(attributes, dtype)?);
            }
        }
        Ok(())
    }

    fn commit(mut self: Box<Self>) -> Result<u64> {
        self.make(None)?;
        let Self { store, nodes, root_attributes, .. } = *self;
        let mut store = store.ok_or_else(given_up)?;
        let target = store.place();
        let mut consolidated = Map::new();
        for node in nodes {
            if let Some(shards) = node.array.as_ref().and_then(|array| array.shards.as_ref()) {
                shards.finish(store.as_mut())?;
            }
            let mut document = node.metadata;
            document.insert("attributes".to_owned(), Value::Object(node.attributes));
            store.write(&format!("{}/zarr.json", node.key), json::pretty(&document)?.as_bytes())?;
            if node.array.is_none() {
                document.insert("consolidated_metadata".to_owned(), inline(Map::new()));
            }
            if consolidated.insert(node.key.clone(), Value::Object(document)).is_some() {
                return Err(Error::unsupported(format!("two nodes are called '{}'", node.key)).at(target));
            }
        }
        let mut root = group_metadata();
        root.insert("attributes".to_owned(), Value::Object(root_attributes));
        root.insert("consolidated_metadata".to_owned(), inline(consolidated));
        store.write("zarr.json", json::pretty(&root)?.as_bytes())?;
        store.publish()
    }
}

/// Consolidated metadata as zarr-python writes it.
fn inline(metadata: Map<String, Value>) -> Value {
    json!({"kind": "inline", "must_understand": false, "metadata": metadata})
}
