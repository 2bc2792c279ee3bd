//! Writes classic netCDF: header and values, uncompressed and big-endian, as netCDF-C and PnetCDF write it.

use super::header::{Dim, Header, NcType, Var, Version, encode_header, vsize};
use super::layout;
use crate::Clocks;
use knarr_array::array::swap_bytes;
use knarr_array::error::{Error, Result};
use knarr_array::model::{Attribute, AttributeValue, Model, Variable};
use knarr_array::region::{Region, chunk_count, chunk_position, chunk_region};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::store::Source;
use knarr_flow::strided::StridedLayout;
use knarr_hdf5::Hdf5Source;
use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of values that are read and written at once.
const BLOCK: u64 = 8 << 20;

/// Writes all of `source` to an empty file that will be called `name`, as a classic file of this version.
///
/// # Errors
/// As for [`check`]; what reading reports; `Write`.
pub fn write(
    engine: &Engine,
    source: &dyn Source,
    (file, name): (&File, &Path),
    version: Version,
    clocks: &Clocks,
    progress: &dyn Progress,
) -> Result<()> {
    let place = |error: Error| error.at_once(&name.display().to_string());
    let (header, places) = whole_text(source).and_then(|model| header(&model, version)).map_err(place)?;
    let bytes = encode_header(&header);
    let write_error = |error: std::io::Error| Error::write(name, &error);
    progress.begin("writing", source.model().variables.iter().map(Variable::raw_bytes).sum());
    file.write_all_at(&bytes, 0).map_err(write_error)?;
    for (index, (variable, place)) in source.model().variables.iter().zip(&places).enumerate() {
        write_values(engine, source, (index, variable), (file, place), clocks, progress)
            .map_err(|error| error.at_variable_once(variable.name()).at_once(&name.display().to_string()))?;
    }
    let end = places.iter().zip(&header.vars).map(|(place, var)| end(place, var)).max().unwrap_or(0);
    let whole = end.max(bytes.len() as u64).next_multiple_of(4);
    if file.metadata().map_err(write_error)?.len() < whole {
        file.set_len(whole).map_err(write_error)?;
    }
    Ok(())
}

/// The model of a source, with all characters of its attributes.
fn whole_text(source: &dyn Source) -> Result<Cow<'_, Model>> {
    match source.as_any().downcast_ref::<Hdf5Source>() {
        Some(hdf5) => hdf5.with_all_characters().map(Cow::Owned),
        None => Ok(Cow::Borrowed(source.model())),
    }
}

/// Whether such files can hold what the model says.
///
/// # Errors
/// `Unsupported` for what they do not hold: groups, strings, several unlimited dimensions, types that the version lacks.
pub fn check(model: &Model, version: Version) -> Result<()> {
    header(model, version).map(drop)
}

/// First byte behind the last element.
fn end(place: &StridedLayout, var: &Var) -> u64 {
    if place.shape.contains(&0) {
        return place.begin;
    }
    let last: u64 = place.shape.iter().zip(&place.strides).map(|(n, stride)| (n - 1) * stride).sum();
    place.begin + last + var.nc_type.dtype().size() as u64
}

fn write_values(
    engine: &Engine,
    source: &dyn Source,
    (index, variable): (usize, &Variable),
    (file, place): (&File, &StridedLayout),
    clocks: &Clocks,
    progress: &dyn Progress,
) -> Result<()> {
    if variable.is_empty() {
        return Ok(());
    }
    let size = variable.dtype.size();
    let block = block(&variable.shape, size as u64);
    let count = usize::try_from(chunk_count(&variable.shape, &block)).unwrap_or(usize::MAX);
    engine.parallel(count, |number| {
        let position = chunk_position(&variable.shape, &block, number as u64);
        let region = chunk_region(&variable.shape, &block, &position);
        let mut values = Vec::new();
        clocks.read.time(|| source.read_region(index, &region, &mut values))?;
        // Regions come in stored byte order.
        if variable.endian == knarr_array::array::Endian::Little {
            swap_bytes(&mut values, size);
        }
        clocks.write.time(|| put(file, place, size, &region, &values))?;
        progress.advance(values.len() as u64);
        Ok(())
    })?;
    Ok(())
}

/// As many whole rows of the first axis as make a block, or one row; of rows that are larger, parts along the next axis.
fn block(shape: &[u64], size: u64) -> Vec<u64> {
    let mut block = shape.to_vec();
    let mut bytes = shape.iter().product::<u64>().saturating_mul(size);
    for extent in &mut block {
        let row = bytes / (*extent).max(1);
        let rows = (BLOCK / row.max(1)).clamp(1, (*extent).max(1));
        bytes = row;
        *extent = rows;
        if rows > 1 || row <= BLOCK {
            break;
        }
    }
    block
}

/// Writes a region whose rows of the inner axes follow each other in the file: only records lie apart.
fn put(file: &File, place: &StridedLayout, size: usize, region: &Region, values: &[u8]) -> Result<()> {
    let write_error = |error: std::io::Error| Error::new(knarr_array::ErrorKind::Write, error.to_string());
    let at: u64 = region.start.iter().zip(&place.strides).map(|(start, stride)| start * stride).sum();
    let rows = region.count.first().copied().unwrap_or(1).max(1);
    let row = values.len() / usize::try_from(rows).unwrap_or(1);
    let is_dense = place.strides.first().is_none_or(|&stride| stride == row as u64) || rows == 1;
    if is_dense {
        return file.write_all_at(values, place.begin + at).map_err(write_error);
    }
    let stride = place.strides.first().copied().unwrap_or(size as u64);
    for (number, row) in values.chunks_exact(row.max(1)).enumerate() {
        file.write_all_at(row, place.begin + at + number as u64 * stride).map_err(write_error)?;
    }
    Ok(())
}

/// The header of a file that holds what the model says, and where values lie.
fn header(model: &Model, version: Version) -> Result<(Header, Vec<StridedLayout>)> {
    let [root] = model.groups.as_slice() else {
        return Err(Error::unsupported("groups, which classic netCDF does not have"));
    };
    let unlimited: Vec<&str> =
        root.dimensions.iter().filter(|dim| dim.unlimited).map(|dim| dim.name.as_str()).collect();
    if unlimited.len() > 1 {
        return Err(Error::unsupported(format!("unlimited dimensions {unlimited:?}: classic netCDF has one")));
    }
    let records = root.dimensions.iter().find(|dim| dim.unlimited).map_or(0, |dim| dim.len);
    let dims: Vec<Dim> = root
        .dimensions
        .iter()
        .map(|dim| Dim { name: dim.name.clone(), len: if dim.unlimited { 0 } else { dim.len } })
        .collect();
    let vars = model.variables.iter().map(|variable| var(variable, &dims, version)).collect::<Result<Vec<_>>>()?;
    let attributes = attributes(&root.attributes, version)?;
    let mut header = Header { version, records: Some(records), dims, attributes, vars };
    // Offsets take the same room whatever they are.
    let mut next = encode_header(&header).len() as u64;
    let is_record = |header: &Header, var: &Var| var.dims.first().is_some_and(|&dim| header.dims[dim].len == 0);
    for wants_records in [false, true] {
        for index in 0..header.vars.len() {
            if is_record(&header, &header.vars[index]) != wants_records {
                continue;
            }
            next = next.next_multiple_of(4);
            header.vars[index].begin = next;
            next = next.saturating_add(vsize(&header, &header.vars[index]));
        }
    }
    let (_, places) = layout::layout(&header, u64::MAX)?;
    let too_far = |begin: u64| version == Version::Cdf1 && begin > i32::MAX as u64;
    if header.vars.iter().any(|var| too_far(var.begin)) {
        return Err(Error::unsupported("more than 2 GiB before a variable, which CDF-1 does not hold"));
    }
    Ok((header, places))
}

fn var(variable: &Variable, dims: &[Dim], version: Version) -> Result<Var> {
    let of = |error: Error| error.at_variable(variable.name());
    let name = variable.path.trim_start_matches('/');
    if name.contains('/') {
        return Err(of(Error::unsupported("a variable in a group, which classic netCDF does not have")));
    }
    let nc_type = NcType::of(variable.dtype, version).ok_or_else(|| {
        of(Error::unsupported(format!("type {}, which this classic format does not have", variable.dtype)))
    })?;
    let index = |name: &Option<String>| {
        let found = name.as_ref().and_then(|name| dims.iter().position(|dim| dim.name == *name));
        found.ok_or_else(|| of(Error::unsupported("an axis without a dimension, which classic netCDF does not have")))
    };
    let indices = variable.dimensions.iter().map(index).collect::<Result<Vec<usize>>>()?;
    if indices.iter().skip(1).any(|&dim| dims[dim].len == 0) {
        return Err(of(Error::unsupported("the unlimited dimension is not the first, as classic netCDF wants it")));
    }
    let attributes = attributes(&variable.attributes, version).map_err(of)?;
    Ok(Var { name: name.to_owned(), dims: indices, attributes, nc_type, begin: 0 })
}

/// Attributes as such files hold them: lists of strings become lines.
fn attributes(all: &[Attribute], version: Version) -> Result<Vec<Attribute>> {
    let plain = |attribute: &Attribute| {
        let value = match &attribute.value {
            AttributeValue::Strings(lines) => AttributeValue::Text(lines.join("\n")),
            AttributeValue::Numbers { dtype, .. } if NcType::of(*dtype, version).is_none() => {
                let what =
                    format!("attribute '{}' of type {dtype}, which this classic format does not have", attribute.name);
                return Err(Error::unsupported(what));
            }
            AttributeValue::Other { what, .. } => {
                let what = format!("attribute '{}' of type {what}, which classic netCDF does not have", attribute.name);
                return Err(Error::unsupported(what));
            }
            value => value.clone(),
        };
        Ok(Attribute { name: attribute.name.clone(), value })
    };
    all.iter().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::super::ClassicSource;
    use super::*;
    use knarr_array::array::DType;
    use knarr_array::model::{Dimension, Group};
    use knarr_codec::codec::CodecList;
    use knarr_flow::engine::Silent;

    /// Values that are a function of variable and place.
    struct Made(Model);

    impl Source for Made {
        fn model(&self) -> &Model {
            &self.0
        }
        fn path(&self) -> &Path {
            Path::new("made")
        }
        fn format(&self) -> &str {
            "made"
        }
        fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
            let info = &self.0.variables[variable];
            out.clear();
            let whole = region.count.iter().product::<u64>();
            for number in 0..whole {
                let mut rest = number;
                let mut place = 0u64;
                let mut stride = 1;
                for axis in (0..region.count.len()).rev() {
                    place += (region.start[axis] + rest % region.count[axis]) * stride;
                    stride *= info.shape[axis];
                    rest /= region.count[axis];
                }
                let bytes = (place * 3 + variable as u64).to_le_bytes();
                out.extend_from_slice(&bytes[..info.dtype.size()]);
            }
            Ok(())
        }
        fn is_written(&self, _: usize, _: &Region) -> bool {
            true
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    fn made(version: Version) -> Made {
        let dimension = |name: &str, len, unlimited| Dimension { name: name.to_owned(), len, unlimited };
        let dimensions = vec![dimension("t", 5, true), dimension("y", 3, false), dimension("x", 7, false)];
        let text = |text: &str| AttributeValue::Text(text.to_owned());
        let attribute = |name: &str, value| Attribute { name: name.to_owned(), value };
        let variable = |name: &str, dtype: DType, dims: &[usize]| Variable {
            dimensions: dims.iter().map(|&dim| Some(dimensions[dim].name.clone())).collect(),
            attributes: vec![
                attribute("units", text("K, or \u{b0}C")),
                attribute("empty", text("")),
                attribute(
                    "limits",
                    AttributeValue::Numbers { dtype: DType::I16, bytes: vec![1, 2, 3, 4, 5, 6], scalar: false },
                ),
            ],
            ..Variable::plain(format!("/{name}"), dtype, dims.iter().map(|&dim| dimensions[dim].len).collect())
        };
        let mut variables = vec![
            variable("bytes", DType::I8, &[0, 2]),
            variable("fixed", DType::F64, &[1, 2]),
            variable("T", DType::F32, &[0, 1, 2]),
            variable("text", DType::Opaque(1), &[2]),
            variable("scalar", DType::I32, &[]),
        ];
        if version == Version::Cdf5 {
            variables.push(variable("big", DType::U64, &[0]));
        }
        let attributes = vec![attribute("title", text("a title"))];
        let root = Group { path: "/".to_owned(), dimensions, attributes, ..Group::default() };
        Made(Model { groups: vec![root], variables })
    }

    #[test]
    fn what_is_written_is_read() {
        let engine = Engine { jobs: 2, ..Engine::new(CodecList::pure()) };
        for version in [Version::Cdf1, Version::Cdf2, Version::Cdf5] {
            let path = std::env::temp_dir().join(format!("knarr-classic-{version:?}-{}.nc", std::process::id()));
            let made = made(version);
            let file = File::create(&path).unwrap();
            write(&engine, &made, (&file, &path), version, &Clocks::default(), &Silent).unwrap();
            let read = ClassicSource::open(&path).unwrap();
            assert_eq!(read.model().groups, made.0.groups);
            for (index, variable) in made.0.variables.iter().enumerate() {
                let found = &read.model().variables[index];
                assert_eq!((&found.shape, &found.attributes), (&variable.shape, &variable.attributes));
                let whole = Region::whole(&variable.shape);
                let (mut a, mut b) = (Vec::new(), Vec::new());
                made.read_region(index, &whole, &mut a).unwrap();
                read.read_region(index, &whole, &mut b).unwrap();
                assert_eq!(a, b, "{}", variable.path);
            }
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn what_such_files_lack_is_refused() {
        let refuse = |change: fn(&mut Model), why: &str| {
            let mut made = made(Version::Cdf2);
            change(&mut made.0);
            let error = header(&made.0, Version::Cdf2).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refuse(|model| model.variables[0].dtype = DType::U16, "type");
        refuse(|model| model.variables[0].path = "/g/v".to_owned(), "group");
        refuse(|model| model.groups[0].dimensions[1].unlimited = true, "unlimited");
        refuse(|model| model.variables[0].dimensions[1] = None, "without a dimension");
        refuse(|model| model.variables[2].dimensions.swap(0, 1), "not the first");
    }

    #[test]
    fn blocks_are_rows() {
        assert_eq!(block(&[10, 4], 4), [10, 4]);
        assert_eq!(block(&[100, 1 << 20], 4), [2, 1 << 20]);
        assert_eq!(block(&[100, 1 << 20, 64], 4), [1, 32768, 64]);
        assert_eq!(block(&[], 4), [0; 0]);
    }
}
