//! A Zarr store as a source.

use crate::zarr::chunk::chunks::Wanted;
use crate::zarr::chunk::recode::Recode;
use crate::zarr::metadata::attributes;
use crate::zarr::metadata::hierarchy;
use crate::zarr::metadata::stored::Version;
use crate::zarr::metadata::types::ZarrType;
use crate::zarr::read::ahead::Ahead;
use crate::zarr::read::array::ZarrArray;
use crate::zarr::read::keys::Keys;
use knarr_array::model::{Dimension, ElementType, Group, Model, StorageLayout, Variable};
use knarr_array::region::Region;
use knarr_array::{Error, Result};
use knarr_codec::codec::CodecList;
use knarr_flow::cache::ChunkCache;
use knarr_flow::directory::Directory;
use knarr_flow::read_store::ReadStore;
use knarr_flow::store::{Source, Strings, Values};
use knarr_input::header::{ExternalValues, set_external};
use serde_json::{Map, Value};
use std::any::Any;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open Zarr v2 or v3 store.
pub struct ZarrSource {
    path: PathBuf,
    format: &'static str,
    model: Model,
    arrays: Vec<ZarrArray>,
    /// Attributes of each group as they are stored.
    group_attributes: Vec<Map<String, Value>>,
    cache: ChunkCache,
    /// Reads the objects ahead, where they lie elsewhere.
    ahead: Option<Arc<Ahead>>,
    /// What does not lie in the store.
    values: Option<Box<dyn Values>>,
    /// The number there of each variable that has its values there.
    external: HashMap<usize, usize>,
}

/// Bytes of decoded chunks kept for regions that do not follow the chunk grid, when nothing else is asked for.
const CACHE: usize = 64 << 20;

impl ZarrSource {
    /// Opens the group or array in directory `path` and reads all metadata below it. Chunks are decoded with `codecs`.
    ///
    /// # Errors
    /// `NotFound`, `Read`, or `Corrupt` if metadata makes no sense. Arrays with unknown codecs open; reading
    /// them gives `MissingFilter`.
    pub fn open(path: &Path, codecs: &CodecList) -> Result<Self> {
        Self::open_in(Arc::new(Directory::new(path)), path, codecs)
    }

    /// As [`ZarrSource::open_in`], without a look at the chunks: the model does not say what they take.
    ///
    /// # Errors
    /// As for [`ZarrSource::open`].
    pub fn open_uncounted(store: Arc<dyn ReadStore>, path: &Path, codecs: &CodecList) -> Result<Self> {
        Self::open_nodes(store, path, codecs, false)
    }

    /// The same in any store. `path` is its name, of which messages and a lone array have theirs.
    ///
    /// # Errors
    /// As for [`ZarrSource::open`].
    pub fn open_in(store: Arc<dyn ReadStore>, path: &Path, codecs: &CodecList) -> Result<Self> {
        Self::open_nodes(store, path, codecs, true)
    }

    /// `counted` says whether to find out what the chunks of each array take.
    fn open_nodes(store: Arc<dyn ReadStore>, path: &Path, codecs: &CodecList, counted: bool) -> Result<Self> {
        let place = |error: Error| error.hint_damage("store").within(&path.display().to_string());
        let nodes = hierarchy::walk(store.as_ref()).map_err(place)?;
        let format = match nodes.first().map(|node| node.version) {
            Some(Version::V2) => "Zarr v2",
            _ => "Zarr v3",
        };
        let ahead = store.is_remote().then(|| Arc::new(Ahead::new(store.clone())));
        let store = Arc::new(Keys(ahead.clone().map_or(store, |ahead| ahead)));
        let mut model = Model::default();
        let (mut arrays, mut group_attributes) = (Vec::new(), Vec::new());
        for mut node in nodes {
            if !node.is_array {
                let attributes = attributes::from_json(&node.attributes, None);
                model.groups.push(Group { path: node.path, attributes, ..Group::default() });
                group_attributes.push(node.attributes);
                continue;
            }
            let key = node.path.clone();
            if key == "/" {
                // A lone array gets a root group around it and the name of its directory.
                let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("array");
                node.path = format!("/{name}");
                model.groups.push(Group { path: "/".to_owned(), ..Group::default() });
                group_attributes.push(Map::new());
            }
            let name = node.path.clone();
            let (array, variable) =
                ZarrArray::open(&store, &key, node, codecs).map_err(|error| place(error.at_variable(&name[1..])))?;
            let bytes = counted.then(|| array.stored_bytes());
            let variable = Variable { stored_bytes: bytes.flatten(), ..variable };
            arrays.push(array);
            model.variables.push(variable);
        }
        define_dimensions(&mut model);
        let_grow(&mut model, &group_attributes);
        Ok(Self {
            path: path.to_owned(),
            format,
            model,
            arrays,
            group_attributes,
            cache: ChunkCache::new(CACHE),
            ahead,
            values: None,
            external: HashMap::new(),
        })
    }

    /// Opens a header. The values of the variables `external` come from `values`, by their places in that list. In messages the
    /// store is called `name`.
    ///
    /// # Errors
    /// As for [`ZarrSource::open`]; `Internal` if the header lacks one of the variables.
    pub fn header(
        header: &Path,
        name: &Path,
        (external, values): (&[ExternalValues], Box<dyn Values>),
        codecs: &CodecList,
    ) -> Result<Self> {
        let mut source = Self::open(header, codecs)?;
        let indices = set_external(&mut source.model, external)?;
        source.external = indices.into_iter().enumerate().map(|(number, index)| (index, number)).collect();
        name.clone_into(&mut source.path);
        source.values = Some(values);
        Ok(source)
    }

    /// The values of a variable that do not lie in the store, and its number there.
    fn external(&self, variable: usize) -> Option<(usize, &dyn Values)> {
        self.values.as_deref().zip(self.external.get(&variable).copied()).map(|(values, number)| (number, values))
    }

    /// Replaces the contents of `out` by the bytes of a chunk as they are stored: encoded by the codecs that the
    /// array's metadata names. `position` is that of the chunk in the grid of [`StorageLayout::Chunked`] chunks, within shards
    /// too. False if it was never written.
    ///
    /// # Errors
    /// `Unsupported` for arrays that Knarr does not decode itself; `Corrupt` or `Read`, with the chunk's place.
    pub fn stored_chunk(&self, variable: usize, position: &[u64], out: &mut Vec<u8>) -> Result<bool> {
        let (info, array) = self.model.variable_with(variable, &self.arrays)?;
        let StorageLayout::Chunked(chunk) = &info.layout else {
            return Err(Error::unsupported("it has no regular chunks").at_variable(info.name()));
        };
        let grid: Vec<u64> = info.shape.iter().zip(chunk).map(|(n, chunk)| n.div_ceil(*chunk)).collect();
        Region::new(position, vec![1; position.len()])
            .check_inside(&grid)
            .and_then(|()| array.stored_chunk(position, out))
            .map_err(|error| self.place(error, info))
    }

    /// How chunks of a variable are written anew, as its metadata want them; `None` if Knarr has no chain for its codecs.
    ///
    /// # Errors
    /// `Internal` if there is no such variable.
    pub fn recode(&self, variable: usize, codecs: &CodecList) -> Result<Option<Recode>> {
        let (info, array) = self.model.variable_with(variable, &self.arrays)?;
        Ok(array.recode(info, codecs))
    }

    /// Key of the object, a chunk or a shard, at a position in the grid of objects of a variable, which may lie beyond its
    /// shape.
    ///
    /// # Errors
    /// What keeps the array from being read.
    pub fn object_key(&self, variable: usize, position: &[u64]) -> Result<String> {
        let (info, array) = self.model.variable_with(variable, &self.arrays)?;
        let key = array.array().map(|array| array.chunk_key(position).to_string());
        key.map_err(|error| self.place(error, info))
    }

    fn place(&self, error: Error, variable: &Variable) -> Error {
        error.hint_damage("store").at_variable(variable.name()).within(&self.path.display().to_string())
    }

    /// The stored form of variable `index`.
    pub(in crate::zarr) fn array(&self, index: usize) -> Option<&ZarrArray> {
        self.arrays.get(index)
    }

    /// The attributes of group `index` as they are stored.
    pub(in crate::zarr) fn group_attributes(&self, index: usize) -> Option<&Map<String, Value>> {
        self.group_attributes.get(index)
    }
}

/// Gives every named axis a dimension of its group or of a group above, as netCDF wants. An axis whose name
/// already stands for another length in its group loses the name: netCDF has no way to say that. [`Source::axis_names`]
/// still has it.
fn define_dimensions(model: &mut Model) {
    let mut members: HashMap<String, Vec<&mut Variable>> = HashMap::new();
    for variable in &mut model.variables {
        members.entry(parent(&variable.path).to_owned()).or_default().push(variable);
    }
    // Lengths by group and name. Groups come after those above them.
    let mut known: HashMap<String, HashMap<String, u64>> = HashMap::new();
    for group in &mut model.groups {
        for variable in members.remove(&group.path).into_iter().flatten() {
            let Variable { dimensions, shape, .. } = variable;
            for (name, &len) in dimensions.iter_mut().zip(shape.iter()) {
                let Some(wanted) = name.as_deref() else { continue };
                let of = |path: &str| known.get(path)?.get(wanted).copied();
                let own = of(&group.path);
                let inherited = || above(&group.path).find_map(of);
                match own.or_else(inherited) {
                    Some(defined) if defined == len => {}
                    Some(_) if own.is_some() => *name = None,
                    _ => {
                        group.dimensions.push(Dimension { name: wanted.to_owned(), len, unlimited: false });
                        known.entry(group.path.clone()).or_default().insert(wanted.to_owned(), len);
                    }
                }
            }
        }
    }
}

/// NetCDF-C notes in stores of its own which dimensions can grow (NCZarr), in the group that has the dimension, which may
/// be one above that of the model. Zarr itself does not say that.
fn let_grow(model: &mut Model, attributes: &[Map<String, Value>]) {
    let noted = |attributes: &Map<String, Value>| attributes.get("_nczarr_group")?.get("dimensions").cloned();
    let paths = model.groups.iter().map(|group| group.path.clone());
    let noted: HashMap<String, Value> =
        paths.zip(attributes).filter_map(|(path, attributes)| Some((path, noted(attributes)?))).collect();
    if noted.is_empty() {
        return;
    }
    for group in &mut model.groups {
        let ways = || std::iter::once(group.path.as_str()).chain(above(&group.path));
        for dimension in &mut group.dimensions {
            let said = ways().find_map(|path| noted.get(path)?.get(&dimension.name));
            let said = said.and_then(|said| said.get("unlimited"));
            dimension.unlimited = said.is_some_and(|said| said.as_u64() == Some(1) || said.as_bool() == Some(true));
        }
    }
    let groups: HashMap<&str, &Group> = model.groups.iter().map(|group| (group.path.as_str(), group)).collect();
    for variable in &mut model.variables {
        let home = parent(&variable.path);
        for (name, most) in variable.dimensions.iter().zip(&mut variable.max_shape) {
            let Some(name) = name else { continue };
            let mut dimensions = std::iter::once(home)
                .chain(above(home))
                .filter_map(|path| groups.get(path)?.dimensions.iter().find(|dimension| dimension.name == *name));
            if dimensions.next().is_some_and(|dimension| dimension.unlimited) {
                *most = None;
            }
        }
    }
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(slash) => &path[..slash],
    }
}

/// The groups above one, the nearest first.
fn above(group: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(group), |group| (*group != "/").then(|| parent(group))).skip(1)
}

impl Source for ZarrSource {
    fn block(&self, variable: usize) -> Option<&[u64]> {
        self.external(variable).and_then(|(number, values)| values.block(number))
    }

    fn is_remote(&self) -> bool {
        self.ahead.is_some()
    }

    fn will_read_all(&self) {
        if let Some(ahead) = &self.ahead {
            ahead.will_read_all();
        }
    }

    fn limit_cache(&self, bytes: usize) {
        let half = bytes / 2;
        self.cache.set_limit(if self.ahead.is_some() { half } else { bytes });
        if let Some(ahead) = &self.ahead {
            ahead.set_limit(half as u64);
        }
        if let Some(values) = &self.values {
            values.limit_cache(bytes);
        }
    }

    fn decode_seconds(&self) -> f64 {
        self.arrays.iter().map(ZarrArray::decode_seconds).sum()
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn format(&self) -> &str {
        self.format
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let (info, array) = self.model.variable_with(variable, &self.arrays)?;
        out.clear();
        let padding = info.padding_bytes();
        let wanted = Wanted { variable, shape: &info.shape, region, padding: &padding };
        let read = region.check_inside(&info.shape).and_then(|()| match self.external(variable) {
            _ if region.is_empty() => Ok(()),
            Some((number, values)) => values.read(number, region, &padding, out),
            None => array.read(&self.cache, &wanted, out),
        });
        read.map_err(|error| self.place(error, info))
    }

    fn is_written(&self, variable: usize, region: &Region) -> bool {
        match self.external(variable) {
            Some((number, values)) => values.is_written(number, region),
            None => self.arrays.get(variable).is_none_or(|array| array.is_written(region)),
        }
    }

    fn axis_names(&self, variable: usize) -> Vec<Option<String>> {
        self.arrays.get(variable).map_or_else(Vec::new, ZarrArray::axis_names)
    }

    fn element_type(&self, variable: usize) -> Option<&ElementType> {
        self.arrays.get(variable)?.element_type()
    }

    fn strings(&self, variable: usize) -> Option<Strings> {
        match self.arrays.get(variable)?.zarr_type {
            ZarrType::Text => Some(Strings::Variable),
            ZarrType::Bytes(_) => Some(Strings::Fixed),
            _ => None,
        }
    }

    fn read_strings(&self, variable: usize, region: &Region) -> Result<Vec<String>> {
        let (info, array) = self.model.variable_with(variable, &self.arrays)?;
        let read = region
            .check_inside(&info.shape)
            .and_then(|()| if region.is_empty() { Ok(Vec::new()) } else { array.read_strings(region) });
        read.map_err(|error| self.place(error, info))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
