//! Headers of NumPy's file format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.
//!
//! A file is a magic string, a version, the length of a text, the text and the elements. The text is a dictionary of Python
//! with three keys: type, order and shape. Versions 1.0, 2.0 and 3.0 differ in the width of the length and in how the text is
//! encoded, which is of no account for numbers.

use crate::array::{DType, Endian};
use crate::error::{Error, Result};

/// What a file starts with.
pub const MAGIC: &[u8] = b"\x93NUMPY";
/// First bytes of a file, which tell how long its header is.
pub const PREFIX: usize = 12;
/// Longest header that is read. Those of numbers have about 100 bytes, those of version 1.0 can have no more.
const LONGEST: u64 = 1 << 16;
/// Most axes that NumPy gives an array.
const MOST_AXES: usize = 64;

/// What a header says of the elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Type of the elements; that of truth values is `I8`.
    pub dtype: DType,
    /// True for truth values, 0 or 1 in a byte.
    pub is_bool: bool,
    /// Byte order in the file.
    pub endian: Endian,
    /// True if elements follow each other along the first axis, false for row-major order.
    pub fortran_order: bool,
    /// Extent per axis, as the array is indexed; empty for a scalar.
    pub shape: Vec<u64>,
}

/// Number of bytes in front of the elements of a file that starts with `prefix`, its first [`PREFIX`] bytes.
///
/// # Errors
/// `Corrupt` if no header starts so; `Unsupported` for other versions, and headers longer than any of numbers.
pub fn header_len(prefix: &[u8]) -> Result<u64> {
    let truncated = || Error::corrupt("the header is truncated");
    let (start, length) = match prefix.strip_prefix(MAGIC).ok_or_else(truncated)? {
        [1, 0, a, b, ..] => (10, u64::from(u16::from_le_bytes([*a, *b]))),
        [2 | 3, 0, a, b, c, d, ..] => (12, u64::from(u32::from_le_bytes([*a, *b, *c, *d]))),
        [1..=3, 0, ..] | [] | [_] => return Err(truncated()),
        [major, minor, ..] => {
            return Err(Error::unsupported(format!("version {major}.{minor} of the format of NumPy is not known"))
                .hint("save it again as version 1.0, 2.0 or 3.0: numpy.save(file, array)"));
        }
    };
    let length = start + length;
    if length > LONGEST {
        return Err(Error::unsupported(format!(
            "the header has {length} bytes, which no array of numbers needs: it is damaged, or describes a structured type"
        ))
        .hint("save each field as an array of its own: numpy.save(file, array['field'])"));
    }
    Ok(length)
}

impl Header {
    /// Reads a header: all bytes in front of the elements, of which there are [`header_len`].
    ///
    /// # Errors
    /// `Corrupt` if it makes no sense, `Unsupported` for elements that are no numbers or truth values.
    pub fn parse(header: &[u8]) -> Result<Self> {
        let start = if header.get(MAGIC.len()) == Some(&1) { 10 } else { 12 };
        let text = String::from_utf8_lossy(header.get(start..).unwrap_or_default());
        let mut text = Literal(&text);
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.expect("{")?;
        while !text.take("}") {
            let key = text.string()?;
            text.expect(":")?;
            match key {
                "descr" if descr.is_none() => descr = Some(text.descr()?),
                "fortran_order" if fortran_order.is_none() => fortran_order = Some(text.truth()?),
                "shape" if shape.is_none() => shape = Some(text.extents()?),
                _ => return Err(wrong(&format!("there is a key '{}' too many", short(key)))),
            }
            if !text.take(",") {
                text.expect("}")?;
                break;
            }
        }
        if !text.0.trim().is_empty() {
            return Err(wrong(&format!("'{}' follows the dictionary", short(text.0.trim()))));
        }
        let missing = |key: &str| wrong(&format!("the key '{key}' is missing"));
        let (dtype, is_bool, endian) = element(descr.ok_or_else(|| missing("descr"))?)?;
        Ok(Self {
            dtype,
            is_bool,
            endian,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }
}

/// The header of a row-major array, version 1.0.
///
/// # Errors
/// `Unsupported` if the shape has more axes than the header has room for.
pub fn header(dtype: DType, endian: Endian, shape: &[u64]) -> Result<Vec<u8>> {
    let order = match (dtype, endian) {
        (DType::I8 | DType::U8 | DType::Opaque(_), _) => '|',
        (_, Endian::Little) => '<',
        (_, Endian::Big) => '>',
    };
    let kind = match dtype {
        DType::Opaque(_) => 'V',
        DType::F16 | DType::F32 | DType::F64 => 'f',
        signed if signed.is_signed() => 'i',
        _ => 'u',
    };
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    // A tuple of one needs its comma; others may do without.
    let tuple = extents.trim_end().trim_end_matches(if shape.len() == 1 { '\0' } else { ',' });
    let text = format!("{{'descr': '{order}{kind}{}', 'fortran_order': False, 'shape': ({tuple}), }}", dtype.size());
    // Magic, version, length, text and a line feed fill a multiple of 64 bytes.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let length = u16::try_from(length).map_err(|_| Error::unsupported("more axes than a NumPy file can have"))?;
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.resize(usize::from(length) + 9, b' ');
    out.push(b'\n');
    Ok(out)
}

/// The type of numbers that NumPy calls so, behind the byte order: `f8`.
pub fn number(kind: &str) -> Option<DType> {
    Some(match kind {
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        _ => return None,
    })
}

/// Type, whether it is that of truth values, and byte order: `<f8`, `|b1`.
fn element(descr: &str) -> Result<(DType, bool, Endian)> {
    let kind = descr.trim_start_matches(['<', '>', '|', '=']);
    let is_bool = kind == "b1";
    let dtype = if is_bool { DType::I8 } else { number(kind).ok_or_else(|| refused(kind, descr))? };
    let endian = match &descr[..descr.len() - kind.len()] {
        ">" => Endian::Big,
        "<" => Endian::Little,
        "|" | "=" | "" if dtype.size() == 1 => Endian::Little,
        _ => return Err(wrong(&format!("the type '{}' has no byte order", short(descr)))),
    };
    Ok((dtype, is_bool, endian))
}

/// What is wrong with elements that are not read.
fn refused(kind: &str, descr: &str) -> Error {
    let (what, hint) = match kind.chars().next() {
        Some('c') => ("complex numbers", "save array.real and array.imag as arrays of their own"),
        Some('O') => ("objects of Python", "save numbers: numpy.save(file, array.astype('float64'))"),
        Some('f' | 'g') => ("floats of a length of their own", "save array.astype('float64')"),
        Some('S' | 'a' | 'U') => ("strings", "write them with netCDF4-python, h5py or zarr-python"),
        Some('m' | 'M') => ("dates or times", "save array.astype('int64'), and note their unit"),
        Some('V') => ("bytes without a type", "say which it is: numpy.save(file, array.view('float32'))"),
        _ => return wrong(&format!("there is no type '{}'", short(descr))),
    };
    Error::unsupported(format!("it holds {what} ('{}'), not numbers", short(descr))).hint(hint)
}

fn wrong(what: &str) -> Error {
    Error::corrupt(format!("the header makes no sense: {what}"))
}

/// The beginning of what a file says, for messages.
fn short(text: &str) -> String {
    text.chars().take(40).collect::<String>().escape_debug().to_string()
}

/// What is left of the text of a dictionary.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    /// Goes past `token` and the blanks before it, if it comes next.
    fn take(&mut self, token: &str) -> bool {
        self.0 = self.0.trim_start();
        match self.0.strip_prefix(token) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.take(token) { Ok(()) } else { Err(wrong(&format!("no '{token}' before '{}'", short(self.0)))) }
    }

    fn string(&mut self) -> Result<&'a str> {
        let quote = if self.take("\"") { '"' } else { '\'' };
        if quote == '\'' {
            self.expect("'")?;
        }
        let (text, rest) = self.0.split_once(quote).ok_or_else(|| wrong("a string has no end"))?;
        self.0 = rest;
        Ok(text)
    }

    /// A type in quotes. Structured ones are lists.
    fn descr(&mut self) -> Result<&'a str> {
        if self.take("[") || self.take("(") {
            return Err(Error::unsupported(format!("it holds a structured type ('{}'), not numbers", short(self.0)))
                .hint("save each field as an array of its own: numpy.save(file, array['field'])"));
        }
        self.string()
    }

    fn truth(&mut self) -> Result<bool> {
        if self.take("True") {
            return Ok(true);
        }
        self.expect("False")?;
        Ok(false)
    }

    /// A tuple of whole numbers.
    fn extents(&mut self) -> Result<Vec<u64>> {
        let mut extents = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            let digits = self.0.len() - self.0.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, rest) = self.0.split_at(digits);
            extents.push(number.parse().map_err(|_| wrong(&format!("'{}' is no extent", short(self.0))))?);
            if extents.len() > MOST_AXES {
                return Err(wrong(&format!("there are more than {MOST_AXES} axes")));
            }
            self.0 = rest;
            // Python 2 wrote long integers so.
            self.take("L");
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn text(header: &[u8]) -> String {
        String::from_utf8(header[10..].to_vec()).unwrap().trim_end().to_owned()
    }

    /// A file's header with this text.
    fn file(version: u8, text: &str) -> Vec<u8> {
        let mut bytes = [MAGIC, &[version, 0]].concat();
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        bytes.extend_from_slice(&length[..if version == 1 { 2 } else { 4 }]);
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    fn parsed(text: &str) -> Result<Header> {
        Header::parse(&file(1, text))
    }

    #[test]
    fn headers_are_what_numpy_writes() {
        let text = |dtype, endian, shape: &[u64]| {
            let header = header(dtype, endian, shape).unwrap();
            assert_eq!(header.len() % 64, 0);
            assert_eq!(header.last(), Some(&b'\n'));
            text(&header)
        };
        let wanted = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }";
        assert_eq!(text(DType::F64, Endian::Little, &[3, 4]), wanted);
        let wanted = "{'descr': '>u2', 'fortran_order': False, 'shape': (3,), }";
        assert_eq!(text(DType::U16, Endian::Big, &[3]), wanted);
        let wanted = "{'descr': '|V5', 'fortran_order': False, 'shape': (), }";
        assert_eq!(text(DType::Opaque(5), Endian::Big, &[]), wanted);
    }

    #[test]
    fn headers_are_read_as_they_are_written() {
        for dtype in DType::NUMBERS {
            for shape in [&[][..], &[7], &[3, 0], &[2, 3, 4, 5]] {
                let endian = if dtype.size() == 1 { Endian::Little } else { Endian::Big };
                let written = header(dtype, endian, shape).unwrap();
                assert_eq!(header_len(&written[..PREFIX]).unwrap(), written.len() as u64);
                let wanted = Header { dtype, is_bool: false, endian, fortran_order: false, shape: shape.to_vec() };
                assert_eq!(Header::parse(&written).unwrap(), wanted);
            }
        }
    }

    #[test]
    fn other_writers_may_write_otherwise() {
        let odd = "{\"shape\":(3L,4L,),'fortran_order':True , \"descr\": '|b1'}";
        for version in [1, 2, 3] {
            let bytes = file(version, odd);
            assert_eq!(header_len(&bytes[..PREFIX]).unwrap(), bytes.len() as u64);
            let header = Header::parse(&bytes).unwrap();
            let wanted = (DType::I8, true, true, &[3, 4][..]);
            assert_eq!((header.dtype, header.is_bool, header.fortran_order, header.shape.as_slice()), wanted);
        }
        let of = |descr: &str| parsed(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ()}}"));
        assert_eq!(of("<u1").unwrap().dtype, DType::U8);
        assert!(of("=f8").unwrap_err().message().contains("byte order"));
        assert!(of("f8").unwrap_err().message().contains("byte order"));
        assert!(of("<>f8").unwrap_err().message().contains("byte order"));
    }

    #[test]
    fn what_is_no_number_is_refused_in_words() {
        for (descr, words) in [
            ("'<c16'", "complex"),
            ("'|O'", "objects"),
            ("'<f16'", "floats of a length"),
            ("'<U5'", "strings"),
            ("'|S3'", "strings"),
            ("'<M8[ns]'", "dates"),
            ("'|V4'", "bytes"),
            ("[('a', '<f4'), ('b', '<i2')]", "structured"),
            ("('<f4', (2,))", "structured"),
        ] {
            let error = parsed(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,), }}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.message().contains(words) && error.advice().is_some(), "{error}");
        }
        let error = header_len(b"\x93NUMPY\x04\x00\x00\x00\x00\x00").unwrap_err();
        assert!(error.message().contains("version 4.0"), "{error}");
        let error = header_len(b"\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF").unwrap_err();
        assert!(error.message().contains("structured"), "{error}");
    }

    #[test]
    fn nonsense_is_corrupt() {
        let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
        assert!(parsed(good).is_ok());
        for len in 0..good.len() {
            assert_eq!(parsed(&good[..len]).unwrap_err().kind(), ErrorKind::Corrupt, "{len}");
        }
        for (from, to) in [
            ("<f4", "<x4"),
            ("<f4", "<f3"),
            ("False", "0"),
            ("(2, 3)", "(2 3)"),
            ("(2, 3)", "(-2, 3)"),
            ("(2, 3)", "(2, 18446744073709551616)"),
            ("(2, 3)", "[2, 3]"),
            ("(2, 3), ", "(2, 3), 'shape': (2, 3)"),
            ("'shape'", "'shapes'"),
            ("}", "} x"),
        ] {
            let error = parsed(&good.replace(from, to));
            let wanted = if to == "<f3" { ErrorKind::Unsupported } else { ErrorKind::Corrupt };
            assert_eq!(error.unwrap_err().kind(), wanted, "{to}");
        }
        let axes = "1, ".repeat(65);
        assert!(parsed(&good.replace("2, 3", &axes)).unwrap_err().message().contains("axes"));
        for len in 0..PREFIX {
            assert_eq!(header_len(&file(1, good)[..len]).is_ok(), len >= 10, "{len}");
        }
    }
}
