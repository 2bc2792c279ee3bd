//! A table as a source. It is read twice: once to learn its size and types, once to hold its values.

use std::any::Any;
use std::path::{Path, PathBuf};

use knarr_array::array::DType;
use knarr_array::model::{Attribute, AttributeValue, Dimension, Group, Model, Variable};
use knarr_array::region::{Placed, Region, copy_region};
use knarr_array::{Error, Result};
use knarr_flow::store::Source;

use super::dialect::{Separator, is_named_as_table, is_table, separator};
use super::number::{Kind, Number, append};
use super::records::{Record, Records};
use knarr_input::format::Format;

/// Names of the dimensions of tables, and of a table without names of its own.
const ROW: &str = "row";
const COLUMN: &str = "column";
const DATA: &str = "data";
/// First bytes in which the separator is looked for.
const HEAD: usize = 64 << 10;

/// Bytes that must be text for a file to be a table.
const TEXT: u64 = 4096;

/// Tables of numbers.
pub(crate) const FORMAT: Format = Format {
    name: "CSV (.csv, .tsv, .txt, .dat, .asc)",
    sniff: |probe| Ok(probe.length().is_some() && is_table(probe.path, &probe.bytes_at(0, TEXT)?)),
    open: |probe, _, inputs| Ok(Box::new(CsvSource::open(probe.path, inputs.max_mem)?)),
    layout: None,
};

/// A table in memory.
#[derive(Debug)]
pub struct CsvSource {
    path: PathBuf,
    model: Model,
    /// Values of each variable, row-major, little-endian.
    values: Vec<Vec<u8>>,
}

/// What the first reading learns.
#[derive(Debug)]
struct Survey {
    separator: Separator,
    /// Names of the columns, if the first row has them.
    names: Option<Vec<String>>,
    kinds: Vec<Kind>,
    rows: u64,
}

impl CsvSource {
    /// Reads the table at `path`, which may take `max_mem` bytes of memory.
    ///
    /// # Errors
    /// `NotFound` or `Read` if it cannot be read, `Corrupt` with line and column for what is no number or a row of
    /// another length, `Usage` if it takes more memory, `Unsupported` for numbers that no type holds.
    pub fn open(path: &Path, max_mem: u64) -> Result<Self> {
        Self::read(path, max_mem).map_err(|error| error.at_once(&path.display().to_string()))
    }

    fn read(path: &Path, max_mem: u64) -> Result<Self> {
        let survey = Survey::of(path)?;
        let cells = survey.rows.saturating_mul(survey.kinds.len() as u64);
        let needed = cells.saturating_mul(size_of::<u64>() as u64);
        if needed > max_mem {
            return Err(Error::usage(format!(
                "the table takes {} MiB of memory, as all of it is held",
                needed.div_ceil(1 << 20)
            ))
            .hint(format!("raise --max-mem to {}M", needed.saturating_mul(2).div_ceil(1 << 20))));
        }
        let columns = survey.columns()?;
        let mut values = vec![Vec::new(); columns.iter().map(|column| column.variable + 1).max().unwrap_or(0)];
        // All variables have as many values.
        let each = usize::try_from(needed / (values.len() as u64).max(1)).unwrap_or(usize::MAX);
        for values in &mut values {
            values.try_reserve_exact(each).map_err(|_| Error::unsupported("the table is too large for memory"))?;
        }
        let mut rows = 0;
        survey.each_row(path, |record| {
            rows += 1;
            if record.fields.len() != columns.len() {
                return Err(changed());
            }
            for (column, text) in columns.iter().zip(&record.fields) {
                let number = Number::parse(text)?.filter(|number| column.holds(*number)).ok_or_else(changed)?;
                if let Some(values) = values.get_mut(column.variable) {
                    append(number, column.dtype, values);
                }
            }
            Ok(())
        })?;
        if rows != survey.rows {
            return Err(changed());
        }
        Ok(Self { path: path.to_owned(), model: survey.model(&columns), values })
    }
}

fn changed() -> Error {
    Error::corrupt("the file changed while it was read").hint("try again when no one writes to it")
}

/// A column: the variable its values belong to, and their type.
#[derive(Debug, Clone, Copy)]
struct Column {
    variable: usize,
    dtype: DType,
    fill: Option<u64>,
}

impl Column {
    /// False for what the first reading cannot have seen.
    fn holds(self, number: Number) -> bool {
        match number {
            Number::Decimal(_) => self.dtype == DType::F64,
            Number::Missing => self.dtype == DType::F64 || self.fill.is_some(),
            Number::Integer(value) => match self.dtype {
                DType::I64 => i64::try_from(value).is_ok(),
                DType::U64 => u64::try_from(value).is_ok(),
                _ => true,
            },
        }
    }
}

impl Survey {
    fn of(path: &Path) -> Result<Self> {
        let (head, is_whole) = head(path)?;
        let separator = separator(&head, is_whole)?;
        let mut survey = Self { separator, names: None, kinds: Vec::new(), rows: 0 };
        let mut records = Records::open(path, separator)?;
        let mut record = Record::default();
        if !records.next(&mut record)? {
            return Err(Error::corrupt("the table has no rows").hint("give a file with numbers"));
        }
        survey.kinds = vec![Kind::default(); record.fields.len()];
        let mut is_data = true;
        for (at, text) in record.fields.iter().enumerate() {
            let place = |error: Error| error.at(format!("line {}, column {}", record.line, at + 1));
            is_data &= Number::parse(text).map_err(place)?.is_some();
        }
        if is_data {
            survey.count(&record)?;
        } else {
            survey.names = Some(names(&record)?);
        }
        while records.next(&mut record)? {
            survey.count(&record)?;
        }
        // A table may be empty; a text that begins with words and has no numbers is none.
        if survey.rows == 0 && !is_named_as_table(path) {
            return Err(Error::corrupt("it holds words and no numbers: this is no table")
                .hint("give a file with numbers; a table of columns without rows ends in .csv or .tsv"));
        }
        Ok(survey)
    }

    fn count(&mut self, record: &Record) -> Result<()> {
        if record.fields.len() != self.kinds.len() {
            return Err(Error::corrupt(format!(
                "{} values, where the first row has {}",
                record.fields.len(),
                self.kinds.len()
            ))
            .hint("complete the row; a missing value is written as nothing between two separators")
            .at(format!("line {}", record.line)));
        }
        self.rows += 1;
        for (at, (kind, text)) in self.kinds.iter_mut().zip(&record.fields).enumerate() {
            let place = |error: Error| {
                let name = self.names.as_ref().and_then(|names| names.get(at));
                let name = name.map_or(String::new(), |name| format!(" ('{name}')"));
                error.at(format!("line {}, column {}{name}", record.line, at + 1))
            };
            let number = Number::parse(text).map_err(place)?;
            kind.see(number.ok_or_else(|| place(no_number(text)))?);
        }
        Ok(())
    }

    /// Where the values of each column go.
    fn columns(&self) -> Result<Vec<Column>> {
        let column = |variable: usize, kind: Kind, place: &str| {
            let dtype = kind.dtype().map_err(|error| error.at(place.to_owned()))?;
            Ok(Column { variable, dtype, fill: kind.fill(dtype) })
        };
        match &self.names {
            Some(names) => self
                .kinds
                .iter()
                .zip(names)
                .enumerate()
                .map(|(at, (kind, name))| column(at, *kind, &format!("column {} ('{name}')", at + 1)))
                .collect(),
            None => {
                let all = self.kinds.iter().fold(Kind::default(), |all, kind| all.merge(*kind));
                Ok(vec![column(0, all, "the table")?; self.kinds.len()])
            }
        }
    }

    fn model(&self, columns: &[Column]) -> Model {
        let dimension = |name: &str, len| Dimension { name: name.to_owned(), len, unlimited: false };
        let mut dimensions = vec![dimension(ROW, self.rows)];
        let mut shape = vec![self.rows];
        if self.names.is_none() && self.kinds.len() > 1 {
            dimensions.push(dimension(COLUMN, self.kinds.len() as u64));
            shape.push(self.kinds.len() as u64);
        }
        let alone = [DATA.to_owned()];
        let names = self.names.as_deref().unwrap_or(&alone);
        let variables = names.iter().zip(columns).map(|(name, column)| {
            let mut variable = Variable::plain(format!("/{name}"), column.dtype, shape.clone());
            variable.dimensions = dimensions.iter().map(|dimension| Some(dimension.name.clone())).collect();
            if let Some(fill) = column.fill {
                variable.fills.push(fill);
                variable.padding = fill;
                let value =
                    AttributeValue::Numbers { dtype: column.dtype, bytes: fill.to_le_bytes().to_vec(), scalar: true };
                variable.attributes.push(Attribute { name: "_FillValue".to_owned(), value });
            }
            variable
        });
        let variables = variables.collect();
        Model { groups: vec![Group { path: "/".to_owned(), dimensions, ..Group::default() }], variables }
    }

    /// Calls `f` with each row of values.
    fn each_row(&self, path: &Path, mut f: impl FnMut(&Record) -> Result<()>) -> Result<()> {
        let mut records = Records::open(path, self.separator)?;
        let mut record = Record::default();
        let mut is_names = self.names.is_some();
        while records.next(&mut record)? {
            if !std::mem::take(&mut is_names) {
                f(&record)?;
            }
        }
        Ok(())
    }
}

/// The first bytes of the file, and whether they are all of it.
fn head(path: &Path) -> Result<(Vec<u8>, bool)> {
    use std::io::Read;
    let read_error = |error: std::io::Error| Error::read(path, &error);
    let mut head = Vec::new();
    let file = std::fs::File::open(path).map_err(read_error)?;
    file.take(HEAD as u64).read_to_end(&mut head).map_err(read_error)?;
    let is_whole = head.len() < HEAD;
    Ok((head, is_whole))
}

/// Names of variables from a row of texts.
fn names(record: &Record) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for (at, text) in record.fields.iter().enumerate() {
        let place = || format!("line {}, column {}", record.line, at + 1);
        // A slash would name a group.
        let name = match text.trim().replace('/', "_") {
            name if name.is_empty() => format!("column_{}", at + 1),
            name => name,
        };
        if let Some(other) = names.iter().position(|known| *known == name) {
            return Err(Error::corrupt(format!("'{name}' is the name of column {}, too", other + 1))
                .hint("give each column a name of its own")
                .at(place()));
        }
        names.push(name);
    }
    Ok(names)
}

fn no_number(text: &str) -> Error {
    let shown: String = text.chars().take(40).collect();
    let error = Error::corrupt(format!("'{shown}' is not a number"));
    let with_point = text.replacen(',', ".", 1);
    if with_point != text && with_point.parse::<f64>().is_ok() {
        return error.hint("write decimals with a point");
    }
    error.hint("tables of numbers are read: leave columns of text out; missing values are empty or NaN")
}

impl Source for CsvSource {
    fn model(&self) -> &Model {
        &self.model
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn format(&self) -> &str {
        "CSV"
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let (info, values) = self.model.variable_with(variable, &self.values)?;
        region
            .check_inside(&info.shape)
            .map_err(|error| error.at_variable(info.name()).at(self.path.display().to_string()))?;
        // The region is no longer than the values, which are in memory.
        let Region { start, count } = region;
        let bytes = count.iter().product::<u64>() * info.dtype.size() as u64;
        out.clear();
        out.resize(usize::try_from(bytes).unwrap_or(0), 0);
        let origin = vec![0; count.len()];
        let (from, to) = (Placed { shape: &info.shape, start }, Placed { shape: count, start: &origin });
        copy_region(values, from, out, to, count, info.dtype.size());
        Ok(())
    }

    fn is_written(&self, _variable: usize, _region: &Region) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
