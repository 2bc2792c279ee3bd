//! Headers of NumPy's file format (version 1.0): <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use knarr_array::array::{DType, Endian};
use knarr_array::error::{Error, Result};

/// The bytes before the elements of an array, row-major.
///
/// # Errors
/// `Unsupported` if the shape has more axes than the header has room for.
pub(super) fn header(dtype: DType, endian: Endian, shape: &[u64]) -> Result<Vec<u8>> {
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
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.resize(usize::from(length) + 9, b' ');
    out.push(b'\n');
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_what_numpy_writes() {
        let text = |dtype, endian, shape: &[u64]| {
            let header = header(dtype, endian, shape).unwrap();
            assert_eq!(header.len() % 64, 0);
            assert_eq!(header.last(), Some(&b'\n'));
            String::from_utf8(header[10..].to_vec()).unwrap().trim_end().to_owned()
        };
        let wanted = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }";
        assert_eq!(text(DType::F64, Endian::Little, &[3, 4]), wanted);
        let wanted = "{'descr': '>u2', 'fortran_order': False, 'shape': (3,), }";
        assert_eq!(text(DType::U16, Endian::Big, &[3]), wanted);
        let wanted = "{'descr': '|V5', 'fortran_order': False, 'shape': (), }";
        assert_eq!(text(DType::Opaque(5), Endian::Big, &[]), wanted);
    }
}
