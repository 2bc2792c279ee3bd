//! Describes what is in a file: the model, and where the values lie.

use crate::model::names::DimensionNames;
use crate::model::paths::Paths;
use crate::model::values::{Visible, bits_as, describe, visible_attributes};
use crate::model::walk::{Visitor, shown_path, walk};
use crate::sys::{self, Address, Class, Dataset, DatasetLayout, Datatype, Extent, File, LinkTarget};
use crate::text::element::{bits, text};
use crate::text::filters::pipeline_words;
use crate::text::words::element_type;
use knarr_array::array::{DType, Endian};
use knarr_array::error::{Error, Result};
use knarr_array::model::{self, Attribute, AttributeValue, ElementType, Group, Link, Model, StorageLayout, Variable};
use knarr_array::region::volume;
use knarr_flow::store::Strings;

/// Where the values of a variable lie.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) address: Address,
    /// Absolute path as stored.
    pub(crate) path: Vec<u8>,
    pub(crate) place: ValueLocation,
    /// What unwritten elements hold, in stored byte order.
    pub(crate) padding: Vec<u8>,
    /// What the elements are if they are not plain numbers.
    pub(crate) element: Option<ElementType>,
    /// What its elements are if they are strings.
    pub(crate) strings: Option<Strings>,
}

/// How to get at the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueLocation {
    /// In one run at this offset; `None` if nothing was written.
    Run(Option<u64>),
    /// In chunks.
    Chunks { shape: Vec<u64>, edges_unfiltered: bool },
    /// Not in the file, but among the values that come beside it, under this number.
    External(usize),
    /// Through the library.
    Library,
    /// Values with pointers: not as bytes.
    Pointers(String),
}

/// The result of a scan.
#[derive(Default)]
pub(crate) struct Scan {
    pub(crate) model: Model,
    pub(crate) stored: Vec<Stored>,
    pub(crate) is_netcdf: bool,
    /// Attributes of several dimensions, in words.
    pub(crate) tables: Vec<String>,
    /// Paths of types with a name that netCDF does not have.
    pub(crate) odd_types: Vec<String>,
}

/// Describes everything in `file`.
pub(crate) fn scan(file: &File) -> Result<Scan> {
    let mut scanner = Scanner { paths: Paths::of(file), names: DimensionNames::default(), found: Scan::default() };
    walk(file, &mut scanner)?;
    let Scanner { names, mut found, .. } = scanner;
    found.is_netcdf |= names.are_netcdf();
    names.resolve(&mut found.model);
    Ok(found)
}

struct Scanner<'a> {
    paths: Paths<'a>,
    names: DimensionNames,
    found: Scan,
}

impl Visitor for Scanner<'_> {
    fn group(&mut self, path: &[u8], group: &sys::Group) -> Result<()> {
        self.found.is_netcdf |= path == b"/" && is_marked_netcdf(group)?;
        let Visible { attributes, tables } = visible_attributes(&group.0, &self.paths)?;
        let path = text(path);
        self.found.tables.extend(tables.iter().map(|name| format!("'{name}' of group '{path}'")));
        self.found.model.groups.push(Group { path, attributes, ..Group::default() });
        Ok(())
    }

    fn dataset(&mut self, group: usize, path: &[u8], address: Address, dataset: &Dataset) -> Result<()> {
        if self.names.add(group, path, address, dataset, &self.paths)? {
            let (variable, stored, tables) = variable(path, address, dataset, &self.paths)?;
            self.found.tables.extend(tables.iter().map(|name| format!("'{name}' of '{}'", variable.name())));
            self.names.belongs_to(self.found.model.variables.len());
            self.found.model.variables.push(variable);
            self.found.stored.push(stored);
        }
        Ok(())
    }

    fn named_type(&mut self, path: &[u8], datatype: &Datatype) -> Result<()> {
        if !is_netcdf_type(datatype)? {
            self.found.odd_types.push(shown_path(path));
        }
        Ok(())
    }

    /// The model has one name for each.
    fn again(&mut self, path: &[u8], _address: Address, first: &[u8]) {
        self.add_link(path, model::LinkTarget::Hard(shown_path(first)));
    }

    fn link(&mut self, path: &[u8], target: &LinkTarget) {
        match target {
            LinkTarget::Soft(to) => self.add_link(path, model::LinkTarget::Soft(text(to))),
            LinkTarget::External { file, path: to } => {
                self.add_link(path, model::LinkTarget::External { file: text(file), path: text(to) });
            }
            LinkTarget::User { class, value } => {
                self.add_link(path, model::LinkTarget::User { class: *class, value: value.clone() });
            }
            LinkTarget::Hard(_) => {}
        }
    }
}

impl Scanner<'_> {
    /// Adds a link to the group that is being walked, which is the last one.
    fn add_link(&mut self, path: &[u8], target: model::LinkTarget) {
        if let Some(group) = self.found.model.groups.last_mut() {
            group.links.push(Link { path: shown_path(path), target });
        }
    }
}

/// True if the root group carries the mark of netCDF-4. The first releases did not leave one.
pub(crate) fn is_marked_netcdf(root: &sys::Group) -> Result<bool> {
    Ok(root.0.attribute(b"_NCProperties")?.is_some())
}

/// Element type for the model, and why its bytes cannot be moved as they are. Enumerations count as the integers they
/// are stored as: codecs serve them so, and the file keeps its type.
pub(crate) fn element(datatype: &Datatype) -> Result<(DType, Endian, Option<String>)> {
    let number = if datatype.class()? == Class::Enum { datatype.base()?.number()? } else { datatype.number()? };
    if let Some((dtype, endian)) = number {
        return Ok((dtype, endian, None));
    }
    let size = u32::try_from(datatype.size()?).map_err(|_| Error::unsupported("elements of 4 GiB and more"))?;
    let pointers = match datatype.indirections()? {
        (false, false) => None,
        _ if datatype.class()? == Class::String => Some("strings of variable length live in a heap".to_owned()),
        (true, _) => Some("values of variable length live in a heap".to_owned()),
        (false, true) => Some("references must be translated to the new file".to_owned()),
    };
    Ok((DType::Opaque(size), Endian::Little, pointers))
}

/// True for types that netCDF has a name for in a file.
fn is_netcdf_type(datatype: &Datatype) -> Result<bool> {
    Ok(matches!(datatype.class()?, Class::Compound | Class::Enum | Class::Vlen | Class::Opaque | Class::String))
}

fn strings(datatype: &Datatype) -> Result<Option<Strings>> {
    Ok(match datatype.class()? {
        Class::String if datatype.is_variable_string()? => Some(Strings::Variable),
        Class::String => Some(Strings::Fixed),
        _ => None,
    })
}

/// With the names of its attributes of several dimensions.
fn variable(
    path: &[u8],
    address: Address,
    dataset: &Dataset,
    paths: &Paths<'_>,
) -> Result<(Variable, Stored, Vec<String>)> {
    let datatype = dataset.datatype()?;
    let (dtype, endian, pointers) = element(&datatype)?;
    let extent = dataset.space()?.extent()?;
    let creation = dataset.0.creation()?;
    let stored_layout = creation.layout()?;
    let filters = creation.filters()?;
    let Visible { attributes, tables } = visible_attributes(&dataset.0, paths)?;
    let (shape, max_shape) = match &extent {
        Extent::Simple { shape, max } => (shape.clone(), max.clone()),
        Extent::Scalar | Extent::Null => (Vec::new(), Vec::new()),
    };
    let bytes = volume(&shape).and_then(|len| len.checked_mul(dtype.size() as u64));
    if bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
        return Err(Error::unsupported(format!("shape {shape:?} of {dtype} is larger than 2^63 bytes")));
    }
    let stored_fill = if pointers.is_none() { creation.fill_value(&datatype)? } else { None };
    let padding = stored_fill.clone().unwrap_or_else(|| vec![0; dtype.size()]);
    let fills = fills(dtype, endian, stored_fill.as_deref(), &attributes);
    let (layout, place, mut copied_because) = match (&extent, stored_layout) {
        (Extent::Null, _) => {
            (StorageLayout::Null, ValueLocation::Library, Some("it has no values (null dataspace)".to_owned()))
        }
        (_, DatasetLayout::Compact) => (
            StorageLayout::Compact,
            ValueLocation::Library,
            Some("it is so small that it is stored in its header".to_owned()),
        ),
        (_, DatasetLayout::Contiguous) => (StorageLayout::Contiguous, ValueLocation::Run(dataset.offset()), None),
        (_, DatasetLayout::External) => {
            (StorageLayout::Elsewhere, ValueLocation::Library, Some("its values are in external raw files".to_owned()))
        }
        (_, DatasetLayout::Virtual) => (
            StorageLayout::Elsewhere,
            ValueLocation::Library,
            Some("it is a view of other datasets (virtual)".to_owned()),
        ),
        (_, DatasetLayout::Chunked(chunk)) => {
            check_chunk(&chunk, &shape)?;
            let edges_unfiltered = creation.edge_chunks_unfiltered()?;
            (StorageLayout::Chunked(chunk.clone()), ValueLocation::Chunks { shape: chunk, edges_unfiltered }, None)
        }
    };
    if copied_because.is_none() {
        copied_because = match &pointers {
            Some(reason) => Some(reason.clone()),
            None if extent == Extent::Scalar => Some("it is a single value".to_owned()),
            None if shape.contains(&0) => Some("it has no elements yet".to_owned()),
            None => None,
        };
    }
    let place = match &pointers {
        Some(_) => ValueLocation::Pointers(describe(&datatype, &extent)?),
        None => place,
    };
    let variable = Variable {
        path: shown_path(path),
        dtype,
        endian,
        dimensions: vec![None; shape.len()],
        shape,
        max_shape,
        attributes,
        fills,
        padding: bits(&padding, endian).unwrap_or(0),
        layout,
        chain: pipeline_words(&filters),
        filters,
        stored_bytes: Some(dataset.storage_size()),
        block: None,
        copied_because,
    };
    let element = element_type(&datatype)?;
    let strings = strings(&datatype)?;
    Ok((variable, Stored { address, path: path.to_vec(), place, padding, element, strings }, tables))
}

/// Refuses chunks that cannot belong to a dataset of this shape.
pub(crate) fn check_chunk(chunk: &[u64], shape: &[u64]) -> Result<()> {
    if chunk.len() != shape.len() || chunk.contains(&0) {
        return Err(Error::corrupt(format!("chunks of shape {chunk:?} in a dataset of shape {shape:?}")));
    }
    Ok(())
}

/// Values that mean 'missing': the fill value of the dataset, `_FillValue` and `missing_value`.
fn fills(dtype: DType, endian: Endian, stored: Option<&[u8]>, attributes: &[Attribute]) -> Vec<u64> {
    if !dtype.is_number() {
        return Vec::new();
    }
    let named = |name: &str| -> Vec<u64> {
        let value: Option<&AttributeValue> =
            attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value);
        value.map(|value| bits_as(value, dtype)).unwrap_or_default()
    };
    let mut fills: Vec<u64> = stored.and_then(|value| bits(value, endian)).into_iter().collect();
    for pattern in named("_FillValue").into_iter().chain(named("missing_value")) {
        if !fills.contains(&pattern) {
            fills.push(pattern);
        }
    }
    fills
}
