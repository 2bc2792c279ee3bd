//! Layouts and recipes as manifests hold them: tables of texts, and columns of numbers.

use std::sync::Arc;

use crate::files::layout::{Extent, FileLayout, StoredVariable};
use crate::files::rank_file::RankLayout;
use crate::files::recipe::Recipe;
use knarr_array::array::Endian;
use knarr_array::error::{Error, Result};
use knarr_array::filter::Hdf5Filter;
use knarr_array::wire::{Reader, put_bytes, put_column, put_number};
use knarr_codec::frame::{self, numbered_dtype};

/// Different pipelines of filters, in the order in which they are met.
#[derive(Default)]
struct Pipelines {
    texts: Vec<Vec<u8>>,
}

impl Pipelines {
    /// The number of a pipeline.
    fn number(&mut self, filters: &[Hdf5Filter]) -> Result<u64> {
        let text = match filters {
            [] => Vec::new(),
            _ => serde_json::to_vec(filters).map_err(|error| Error::internal(error.to_string()))?,
        };
        let place = self.texts.iter().position(|other| *other == text).unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        });
        Ok(place as u64)
    }
}

fn put_texts<T: AsRef<[u8]>>(out: &mut Vec<u8>, texts: &[T]) {
    put_number(out, texts.len() as u64);
    texts.iter().for_each(|text| put_bytes(out, text.as_ref()));
}

/// Appends where the variables of files lie.
pub(crate) fn put_layouts(out: &mut Vec<u8>, layouts: &[&Arc<RankLayout>]) -> Result<()> {
    let layouts: Vec<&FileLayout> = layouts.iter().map(|layout| &layout.layout).collect();
    put_number(out, layouts.len() as u64);
    let variables = || layouts.iter().flat_map(|layout| &layout.variables);
    let extents = || variables().flat_map(|variable| &variable.extents);
    let mut texts: Vec<&[u8]> = Vec::new();
    let mut known = std::collections::HashMap::new();
    let mut paths = Vec::new();
    for variable in variables() {
        paths.push(*known.entry(variable.path.as_str()).or_insert_with(|| {
            texts.push(variable.path.as_bytes());
            texts.len() as u64 - 1
        }));
    }
    let mut pipelines = Pipelines::default();
    let filtered = extents().map(|extent| pipelines.number(&extent.filters)).collect::<Result<Vec<_>>>()?;
    put_texts(out, &texts);
    put_texts(out, &pipelines.texts);
    for layout in &layouts {
        put_bytes(out, layout.format.as_bytes());
        put_number(out, layout.length);
    }
    put_column(out, &layouts.iter().map(|layout| layout.variables.len() as u64).collect::<Vec<_>>());
    put_column(out, &paths);
    put_column(out, &variables().map(|variable| u64::from(frame::dtype_number(variable.dtype))).collect::<Vec<_>>());
    put_column(out, &variables().map(|variable| variable.dtype.size() as u64).collect::<Vec<_>>());
    put_column(out, &variables().map(|variable| u64::from(variable.endian == Endian::Big)).collect::<Vec<_>>());
    put_column(out, &variables().map(|variable| variable.shape.len() as u64).collect::<Vec<_>>());
    put_column(out, &variables().flat_map(|variable| &variable.shape).copied().collect::<Vec<_>>());
    put_column(out, &variables().map(|variable| variable.extents.len() as u64).collect::<Vec<_>>());
    put_column(out, &extents().map(|extent| extent.offset).collect::<Vec<_>>());
    put_column(out, &extents().map(|extent| extent.length).collect::<Vec<_>>());
    put_column(out, &filtered);
    put_column(out, &extents().map(|extent| extent.shape.len() as u64).collect::<Vec<_>>());
    put_column(out, &extents().flat_map(|extent| extent.shape.iter()).copied().collect::<Vec<_>>());
    Ok(())
}

/// A column that is taken from number by number.
pub(crate) struct Column(pub(crate) std::vec::IntoIter<u64>);

impl Column {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self(reader.column()?.into_iter()))
    }

    pub(crate) fn next(&mut self) -> Result<u64> {
        self.0.next().ok_or_else(|| Error::corrupt("a column of the manifest ends early"))
    }

    pub(crate) fn index(&mut self) -> Result<usize> {
        usize::try_from(self.next()?).map_err(|_| Error::corrupt("manifest with an impossible number"))
    }

    /// As many numbers as the next one of `counts` says.
    pub(crate) fn several(&mut self, counts: &mut Self) -> Result<Vec<u64>> {
        let count = counts.index()?;
        if count > self.0.len() {
            return Err(Error::corrupt("a column of the manifest ends early"));
        }
        Ok(self.0.by_ref().take(count).collect())
    }
}

fn texts<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a [u8]>> {
    let mut texts = Vec::new();
    for _ in 0..reader.number()? {
        texts.push(reader.bytes()?);
    }
    Ok(texts)
}

/// What [`put_layouts`] wrote.
pub(crate) fn read_layouts(reader: &mut Reader<'_>) -> Result<Vec<FileLayout>> {
    let count = reader.number()?;
    let paths = texts(reader)?;
    let filters = read_pipelines(reader)?;
    let mut heads = Vec::new();
    for _ in 0..count {
        let format = str::from_utf8(reader.bytes()?).map_err(|_| reader.impossible("format"))?.to_owned();
        heads.push((format, reader.number()?));
    }
    let mut columns = [const { None }; 13];
    for column in &mut columns {
        *column = Some(Column::read(reader)?);
    }
    let [
        Some(mut variables),
        Some(mut path),
        Some(mut kind),
        Some(mut size),
        Some(mut big),
        Some(mut rank),
        Some(mut shape),
        Some(mut extents),
        Some(mut offset),
        Some(mut length),
        Some(mut filter),
        Some(mut extent_rank),
        Some(mut extent_shape),
    ] = columns
    else {
        return Err(Error::internal("columns of a manifest"));
    };
    let mut layouts = Vec::new();
    for (format, file_length) in heads {
        let mut layout = FileLayout { format, length: file_length, variables: Vec::new() };
        for _ in 0..variables.next()? {
            let name = paths.get(path.index()?).and_then(|path| str::from_utf8(path).ok());
            let bytes = u32::try_from(size.next()?).map_err(|_| reader.impossible("element size"))?;
            let kind = u8::try_from(kind.next()?).map_err(|_| reader.impossible("type"))?;
            let dtype = numbered_dtype(kind, || Ok(bytes))?.ok_or_else(|| reader.impossible("type"))?;
            let endian = if big.next()? == 0 { Endian::Little } else { Endian::Big };
            let mut variable = StoredVariable {
                path: name.ok_or_else(|| reader.impossible("path"))?.to_owned(),
                dtype,
                endian,
                shape: shape.several(&mut rank)?,
                extents: Vec::new(),
            };
            for _ in 0..extents.next()? {
                let filters = filters.get(filter.index()?).ok_or_else(|| reader.impossible("filter"))?;
                let filters = Arc::clone(filters);
                let shape = extent_shape.several(&mut extent_rank)?;
                // Pieces of one variable share what is alike, as there may be millions.
                let before = variable.extents.last().map(|extent: &Extent| &extent.shape);
                let shape =
                    before.filter(|before| ***before == *shape).map_or_else(|| shape.as_slice().into(), Arc::clone);
                variable.extents.push(Extent { offset: offset.next()?, length: length.next()?, shape, filters });
            }
            layout.variables.push(variable);
        }
        layouts.push(layout);
    }
    Ok(layouts)
}

/// Pipelines of HDF5 filters, as [`put_layouts`] and [`put_recipes`] write them.
fn read_pipelines(reader: &mut Reader<'_>) -> Result<Vec<Arc<[Hdf5Filter]>>> {
    let read = |text: &[u8]| match text {
        [] => Ok(Arc::default()),
        _ => serde_json::from_slice::<Vec<Hdf5Filter>>(text).map(Arc::from),
    };
    let read: Result<_, _> = texts(reader)?.into_iter().map(read).collect();
    read.map_err(|_| reader.impossible("filter"))
}

/// Appends which chunks are there as their values.
pub(crate) fn put_recipes(out: &mut Vec<u8>, layouts: &[&Arc<RankLayout>]) -> Result<()> {
    let chunks = || layouts.iter().flat_map(|layout| layout.recipe.chunks());
    let mut pipelines = Pipelines::default();
    let numbers = chunks().map(|chunk| pipelines.number(&chunk.filters)).collect::<Result<Vec<_>>>()?;
    put_texts(out, &pipelines.texts);
    put_column(out, &layouts.iter().map(|layout| layout.recipe.chunks().len() as u64).collect::<Vec<_>>());
    put_column(out, &numbers);
    put_column(out, &chunks().map(|chunk| chunk.offset).collect::<Vec<_>>());
    put_column(out, &chunks().map(|chunk| chunk.length).collect::<Vec<_>>());
    put_column(out, &chunks().map(|chunk| chunk.stored_length).collect::<Vec<_>>());
    Ok(())
}

/// What [`put_recipes`] wrote for so many layouts.
pub(crate) fn read_recipes(reader: &mut Reader<'_>, layouts: usize) -> Result<Vec<Recipe>> {
    let pipelines = read_pipelines(reader)?;
    let counts = Column::read(reader)?;
    let [mut pipeline, mut offset, mut length, mut stored_length] =
        [Column::read(reader)?, Column::read(reader)?, Column::read(reader)?, Column::read(reader)?];
    if counts.0.len() != layouts {
        return Err(reader.impossible("number of recipes"));
    }
    let mut recipes = Vec::with_capacity(layouts);
    for count in counts.0 {
        let mut recipe = Recipe::default();
        for _ in 0..count {
            let filters = pipelines.get(pipeline.index()?).ok_or_else(|| reader.impossible("filter"))?;
            recipe.push(offset.next()?, length.next()?, stored_length.next()?, Arc::clone(filters))?;
        }
        recipes.push(recipe);
    }
    Ok(recipes)
}
