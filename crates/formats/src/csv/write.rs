//! Tables from variables: columns of one length under their names, or one matrix.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use half::f16;
use knarr_array::array::{DType, Endian, swap_bytes};
use knarr_array::model::Variable;
use knarr_array::region::Region;
use knarr_array::table;
use knarr_array::{Error, Result};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::store::Source;

use super::dialect::separator_of;
use super::number::Number;
use crate::fills;
use crate::plain::{self, Clocks};

/// Bytes of values held at once.
const BLOCK: u64 = 4 << 20;

/// Checks that the variables of `source` make a table.
///
/// # Errors
/// `Unsupported`.
pub fn check(source: &dyn Source) -> Result<()> {
    Table::of(source).map(drop)
}

/// Writes the variables of `source` to the empty file `file`, which will be called `output`, block by block.
///
/// # Errors
/// `Unsupported` if they make no table; what reading and writing report.
pub fn write(
    engine: &Engine,
    source: &dyn Source,
    (file, output): (&File, &Path),
    clocks: &Clocks,
    progress: &dyn Progress,
) -> Result<()> {
    let variables = &source.model().variables;
    let (table, separator) = (Table::of(source)?, separator_of(output));
    progress.begin("writing", variables.iter().map(Variable::raw_bytes).sum());
    let write_error = |error: std::io::Error| Error::write(output, &error);
    let mut out = BufWriter::with_capacity(1 << 20, file);
    if table.has_names {
        let mut names = csv::WriterBuilder::new().delimiter(separator).from_writer(&mut out);
        names
            .write_record(variables.iter().map(Variable::name))
            .and_then(|()| Ok(names.flush()?))
            .map_err(|error| write_error(std::io::Error::other(error)))?;
    }
    let row_bytes = variables.iter().map(|variable| table.columns * variable.dtype.size() as u64).sum::<u64>();
    let step = (BLOCK / row_bytes.max(1)).max(1);
    let mut first = 0;
    let mut blocks: Vec<Vec<u8>> = vec![Vec::new(); variables.len()];
    while first < table.rows {
        engine.check_cancelled()?;
        let rows = step.min(table.rows - first);
        for (index, (variable, block)) in variables.iter().zip(&mut blocks).enumerate() {
            let mut region = Region::whole(&variable.shape);
            if let (Some(start), Some(count)) = (region.start.first_mut(), region.count.first_mut()) {
                (*start, *count) = (first, rows);
            }
            clocks.read.time(|| source.read_region(index, &region, block))?;
            if variable.endian == Endian::Big {
                swap_bytes(block, variable.dtype.size());
            }
        }
        let written = clocks.write.time(|| table.put(&mut out, variables, &blocks, rows, separator));
        written.map_err(write_error)?;
        progress.advance(rows * row_bytes);
        first += rows;
    }
    out.flush().map_err(write_error)
}

/// How variables stand in a table.
struct Table {
    rows: u64,
    /// Columns of each variable.
    columns: u64,
    has_names: bool,
    /// Values of each variable that attributes say mean 'missing'. What a format gives to elements that were not
    /// written may be a value elsewhere: 0 in HDF5.
    missing: Vec<Vec<u64>>,
}

impl Table {
    fn of(source: &dyn Source) -> Result<Self> {
        let (variables, how) = (source.model().variables.as_slice(), plain::chosen_by(source));
        if let Some(other) = variables.iter().find(|variable| matches!(variable.dtype, DType::Opaque(_))) {
            let hint = match choice(variables, |variable| !matches!(variable.dtype, DType::Opaque(_))) {
                Some(others) => format!("leave it out: choose others {how}: {others}"),
                None => "write .nc, .h5 or .zarr instead".to_owned(),
            };
            return Err(Error::unsupported("a table holds numbers, not strings or compounds")
                .hint(hint)
                .at_variable(other.name()));
        }
        let missing =
            variables.iter().map(|variable| fills::collect(variable.dtype, &variable.attributes, None)).collect();
        if let [one] = variables
            && let [rows, columns] = one.shape.as_slice()
        {
            if *columns == 0 && *rows > 0 {
                return Err(Error::unsupported("a table without columns has no rows").at_variable(one.name()));
            }
            return Ok(Self { rows: *rows, columns: *columns, has_names: false, missing });
        }
        let shape = variables.first().map(|variable| variable.shape.as_slice());
        let (Some([_] | []), true) = (shape, variables.iter().all(|other| Some(other.shape.as_slice()) == shape))
        else {
            return Err(no_table(variables, how));
        };
        if variables.iter().all(|variable| !matches!(Number::parse(variable.name()), Ok(None))) {
            return Err(Error::unsupported("all names are numbers, which would be taken for data under no names")
                .hint("write netCDF-4 or HDF5 instead"));
        }
        let rows = shape.and_then(|shape| shape.first()).copied().unwrap_or(1);
        Ok(Self { rows, columns: 1, has_names: true, missing })
    }

    /// Writes rows whose values are in `blocks`.
    fn put(
        &self,
        out: &mut impl Write,
        variables: &[Variable],
        blocks: &[Vec<u8>],
        rows: u64,
        separator: u8,
    ) -> std::io::Result<()> {
        let columns = usize::try_from(self.columns).unwrap_or(usize::MAX);
        // A lone empty field would be an empty line, which is no row.
        let empty: &[u8] = if columns == 1 && variables.len() == 1 { b"\"\"" } else { b"" };
        for row in 0..usize::try_from(rows).unwrap_or(0) {
            let mut is_first = true;
            for ((variable, block), missing) in variables.iter().zip(blocks).zip(&self.missing) {
                let size = variable.dtype.size();
                let begin = row * columns * size;
                let values = block.get(begin..begin + columns * size).unwrap_or_default();
                for element in values.chunks_exact(size) {
                    if !std::mem::take(&mut is_first) {
                        out.write_all(&[separator])?;
                    }
                    let bits = element.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
                    if missing.contains(&bits) {
                        out.write_all(empty)?;
                    } else {
                        put_value(out, variable.dtype, bits)?;
                    }
                }
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Why variables make no table, and what would.
fn no_table(variables: &[Variable], how: &str) -> Error {
    let deep = |variable: &Variable| variable.shape.len() > 2;
    let fitting = choice(variables, |variable| !deep(variable));
    let what = match variables {
        [] => return Error::unsupported("these variables make no table: there is none").hint("name another input"),
        [one] => format!("{} dimensions make no table, which has two", one.shape.len()),
        _ => "these variables make no table".to_owned(),
    };
    let hint = match fitting {
        Some(names) => {
            format!("choose variables of one dimension and length, or one of two dimensions, {how}: {names}")
        }
        None => "write .bin (the values of one variable) or .nc, .h5 or .zarr instead".to_owned(),
    };
    let error = Error::unsupported(what).hint(hint);
    if let [one] = variables { error.at_variable(one.name()) } else { error }
}

/// Names and shapes of the variables to choose from, if there are any.
fn choice(variables: &[Variable], fits: impl Fn(&Variable) -> bool) -> Option<String> {
    const NAMED: usize = 12;
    let fitting: Vec<&Variable> = variables.iter().filter(|variable| fits(variable)).collect();
    let named =
        fitting.iter().take(NAMED).map(|variable| format!("{} ({})", variable.name(), table::shape(&variable.shape)));
    let mut named = named.collect::<Vec<_>>().join(", ");
    if fitting.len() > NAMED {
        named.push_str(&format!(" and {} more", fitting.len() - NAMED));
    }
    (!named.is_empty()).then_some(named)
}

/// One value. Debug forms of floats are the shortest that lead back to the same bits, and keep a point or an exponent,
/// so that they are not taken for integers.
fn put_value(out: &mut impl Write, dtype: DType, bits: u64) -> std::io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "bits are cut to the width of their type")]
    match dtype {
        DType::I8 => write!(out, "{}", bits as u8 as i8),
        DType::I16 => write!(out, "{}", bits as u16 as i16),
        DType::I32 => write!(out, "{}", bits as u32 as i32),
        DType::I64 => write!(out, "{}", bits.cast_signed()),
        DType::F16 => write!(out, "{:?}", f32::from(f16::from_bits(bits as u16))),
        DType::F32 => write!(out, "{:?}", f32::from_bits(bits as u32)),
        DType::F64 => write!(out, "{:?}", f64::from_bits(bits)),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Opaque(_) => write!(out, "{bits}"),
    }
}
