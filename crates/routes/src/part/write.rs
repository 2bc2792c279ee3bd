//! Writing a part: what is checked first, then object by object.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use knarr_array::coordinates::Coordinates;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::quality::Observed;
use knarr_array::region::{Region, each_chunk};
use knarr_codec::chain::ChainSpec;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::mutable_store::MutableStore;
use knarr_flow::pipeline::{ChunkEncoder, Container};
use knarr_flow::settings::Settings;
use knarr_flow::store::{Source, Values};
use knarr_formats::zarr::{Recode, ZarrSource};

use super::object::{Array, Object};
use super::promise::promise;

/// Most bytes of objects that wait for others to be put with.
const MOST_WAITING: usize = 16 << 20;

/// Values for a part of one array.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Absolute path of the array.
    pub path: String,
    /// Where its values go.
    pub region: Region,
    /// Shape of the array when all is written. It is not said in the store here: the array grows for its readers when its
    /// metadata are written.
    pub shape: Vec<u64>,
}

/// Who else may write an object that the part has only some elements of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Others, who hold the store while they do so.
    StoreLock,
    /// Nobody.
    Alone,
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Written {
    /// Bytes of values.
    pub input_bytes: u64,
    /// Bytes of the objects that were written.
    pub output_bytes: u64,
    /// Objects that were written.
    pub objects: u64,
    /// Those of them that hold elements beside the part, which were read and written anew.
    pub rewritten: u64,
    /// By path: errors of arrays that are rounded.
    pub observed: BTreeMap<String, Observed>,
}

/// A store that is to be changed.
pub struct Target {
    store: Arc<dyn MutableStore>,
    source: ZarrSource,
}

impl Target {
    /// Reads the metadata of the store. What it says of shapes holds until it is opened again.
    ///
    /// # Errors
    /// What reading reports.
    pub fn open(engine: &Engine, store: Arc<dyn MutableStore>) -> Result<Self> {
        let place = store.place();
        let source = ZarrSource::open_uncounted(store.objects(), Path::new(&place), &engine.codecs)?;
        Ok(Self { store, source })
    }

    /// How the chunks of an array are written anew; `None` if Knarr has no chain for its codecs.
    ///
    /// # Errors
    /// `NotFound` if there is no such array.
    pub fn recode(&self, engine: &Engine, path: &str) -> Result<Option<Recode>> {
        self.source.recode(self.index(path)?, &engine.codecs)
    }

    /// All values of an array, in the byte order of the machine.
    ///
    /// # Errors
    /// `NotFound` if there is no such array; what reading reports.
    pub fn values(&self, path: &str) -> Result<Vec<u8>> {
        let index = self.index(path)?;
        let mut values = Vec::new();
        let whole = Region::whole(&self.source.model().variable(index)?.shape);
        self.source.read_region(index, &whole, &mut values)?;
        Ok(values)
    }

    fn index(&self, path: &str) -> Result<usize> {
        let index = self.source.model().variables.iter().position(|variable| variable.path == path);
        index.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no array '{path}'")))
    }

    fn array<'a>(
        &'a self,
        engine: &Engine,
        coordinates: &Coordinates,
        (number, part): (usize, &'a Part),
        values: &'a dyn Values,
        settings: &Settings,
    ) -> Result<Array<'a>> {
        let index = self.index(&part.path)?;
        let variable = self.source.model().variable(index)?;
        let place = |error: Error| error.at_variable(variable.name());
        let recode = self.source.recode(index, &engine.codecs)?;
        let recode = recode.ok_or_else(|| place(Error::internal("no chain has the codecs of the array")))?;
        part.region.check_inside(&part.shape).map_err(place)?;
        let spec = variable.chunk_spec(&recode.chunk);
        let encoder = |chain: &ChainSpec, fallback: Option<&ChainSpec>, bound| {
            let spec = spec.clone();
            ChunkEncoder::new(&engine.codecs, chain, fallback, spec, bound, settings.verify, Container::Codecs)
        };
        let promised = promise(&engine.codecs, coordinates, variable, &recode.chain, settings).map_err(place)?;
        let lossless = encoder(&recode.chain, None, None)?;
        let (encoder, exact) = match promised {
            None => (lossless, None),
            Some((bound, chain)) => (encoder(&chain, Some(&recode.chain), Some(bound))?, Some(lossless)),
        };
        let (source, shape, region) = (&self.source, part.shape.as_slice(), &part.region);
        Ok(Array { source, index, variable, recode, shape, region, values, number, encoder, exact })
    }
}

/// Writes `parts`, each of another array; `values` knows them by their places in that list. Objects are replaced one by
/// one: if that fails, some have their new values and others their old ones.
///
/// # Errors
/// `Usage` if `settings` contradict the store, or if others may write an object meanwhile and the store cannot be held:
/// nothing was written then. What reading, encoding and writing report.
pub fn write_part(
    engine: &Engine,
    target: &Target,
    parts: &[Part],
    values: &dyn Values,
    settings: &Settings,
    sharing: Sharing,
    progress: &dyn Progress,
) -> Result<Written> {
    let Target { store, source } = target;
    let place = |error: Error| error.at_once(&store.place());
    settings.check_names(source.model()).map_err(place)?;
    let coordinates = Coordinates::of(source.model());
    let arrays = parts.iter().enumerate().map(|part| target.array(engine, &coordinates, part, values, settings));
    let arrays = arrays.collect::<Result<Vec<_>>>().map_err(place)?;
    let mut objects = Vec::new();
    for array in &arrays {
        each_chunk(array.region, &array.recode.object_shape(), |position| {
            objects.push((array, array.object(position)?));
            Ok::<_, Error>(())
        })?;
    }
    let is_shared = |object: &Object| sharing == Sharing::StoreLock && !object.is_whole();
    if let Some((array, _)) = objects.iter().find(|(_, object)| is_shared(object)) {
        refuse_unheld(engine, store.as_ref(), array).map_err(place)?;
    }
    let size_of = |array: &Array<'_>| array.variable.dtype.size() as u64;
    let input_bytes = objects.iter().map(|(array, object)| object.elements() * size_of(array)).sum();
    progress.begin("write", input_bytes);
    values.limit_cache(usize::try_from(engine.cache()).unwrap_or(usize::MAX));
    let largest = arrays.iter().map(|array| array.recode.object_shape().iter().product::<u64>() * size_of(array)).max();
    // An object's values, what is there, and what is made of it.
    let engine = engine.fitting(largest.unwrap_or(0).saturating_mul(3));
    let waiting = Waiting::new(store.as_ref());
    let done = engine.parallel(objects.len(), |number| {
        let (array, object) = &objects[number];
        let write = || -> Result<(u64, Observed)> {
            let mut given = Vec::new();
            if !object.is_whole() {
                // Before the store is held: computing may take long, and wait for others who want to hold it.
                array.read(object.wanted(), &mut given)?;
            }
            let _held = if is_shared(object) { store.hold(&|| engine.check_cancelled())? } else { None };
            let given = (!object.is_whole()).then_some(given.as_slice());
            let (bytes, observed) = array.encoded(object, given)?;
            let (key, length) = (array.key(object)?, bytes.len() as u64);
            if object.is_whole() {
                waiting.put(key, bytes)?;
            } else {
                store.put(&key, &bytes)?;
            }
            Ok((length, observed))
        };
        let done = write().map_err(|error| place(error.at_variable_once(array.variable.name())))?;
        progress.advance(object.elements() * size_of(array));
        Ok(done)
    })?;
    waiting.end().map_err(place)?;
    let mut written = Written { input_bytes, objects: objects.len() as u64, ..Written::default() };
    for ((array, object), (bytes, observed)) in objects.iter().zip(done) {
        written.output_bytes += bytes;
        written.rewritten += u64::from(!object.is_whole());
        if array.exact.is_some() {
            let seen = written.observed.entry(array.variable.path.clone()).or_default();
            *seen = seen.merge(observed);
        }
    }
    Ok(written)
}

/// Objects that are put together with others.
struct Waiting<'a> {
    store: &'a dyn MutableStore,
    objects: Mutex<Vec<(String, Vec<u8>)>>,
}

impl<'a> Waiting<'a> {
    fn new(store: &'a dyn MutableStore) -> Self {
        Self { store, objects: Mutex::default() }
    }

    /// Puts an object, now or with later ones.
    fn put(&self, key: String, bytes: Vec<u8>) -> Result<()> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.push((key, bytes));
        let held: usize = objects.iter().map(|(_, bytes)| bytes.len()).sum();
        if objects.len() < self.store.at_once() && held < MOST_WAITING {
            return Ok(());
        }
        let now = std::mem::take(&mut *objects);
        drop(objects);
        self.store.put_all(&now)
    }

    /// Puts what is left.
    fn end(self) -> Result<()> {
        self.store.put_all(&self.objects.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Refuses objects that others may write at the same time where nobody can be kept from it.
fn refuse_unheld(engine: &Engine, store: &dyn MutableStore, array: &Array<'_>) -> Result<()> {
    if store.hold(&|| engine.check_cancelled())?.is_some() {
        return Ok(());
    }
    let shape = array.recode.object_shape();
    Err(Error::usage(format!(
        "the region covers objects of {shape:?} elements in part, which others may write at the same time, and this \
         store cannot be locked"
    ))
    .hint("let regions begin and end where such objects do, or say that nobody else writes them (safe_chunks=False)")
    .at_variable(array.variable.name()))
}
