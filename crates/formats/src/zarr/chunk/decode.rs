//! From the stored bytes of one chunk to its elements, by Knarr's own codecs.

use crate::zarr::metadata::codecs::{Undo, undo_v2, undo_v3};
use crate::zarr::metadata::scaled::Scale;
use knarr_array::array::{ArraySpec, DType, Endian, swap_bytes};
use knarr_array::region::row_major;
use knarr_array::{Error, Result};
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_codec::codec::{CodecList, Kind};
use serde_json::{Map, Value};

/// Decodes the chunks of one array. Made once, shared by threads.
pub(in crate::zarr) struct Decoder {
    /// In the order of writing: each takes elements of its own type.
    parts: Vec<Part>,
    /// Axis of the array that is axis `i` of what is stored; empty if the order is the same.
    order: Vec<usize>,
    shape: Vec<usize>,
    dtype: DType,
    endian: Endian,
    /// Bytes of the numbers that an element consists of: they have the byte order.
    part: usize,
    /// How many CRC-32C checksums follow each other at the end.
    checksums: usize,
}

/// A chain, and the elements that it was given.
struct Part {
    chain: Chain,
    /// Elements were brought to the type of this part from those of the part before,
    dtype: DType,
    /// by scaling them, or else by cutting whole numbers.
    scale: Option<Scale>,
}

/// Buffers of one thread.
#[derive(Default)]
pub(in crate::zarr) struct DecodeBuffers {
    scratch: Scratch,
    a: Vec<u8>,
    b: Vec<u8>,
}

/// Byte order of decoded elements.
pub(in crate::zarr) const NATIVE: Endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };
/// Bytes of a CRC-32C.
const CHECKSUM: usize = 4;
/// No codec makes a chunk longer than this many times its size, and some bytes.
const WORST: usize = 2;
const SOME: usize = 1 << 20;

impl Decoder {
    /// A decoder for chunks of `shape` that were written through `codecs` of version 3 metadata. `None` if Knarr has
    /// no codec for one of them.
    pub(in crate::zarr) fn v3(list: &CodecList, codecs: &[Value], dtype: DType, shape: &[u64]) -> Option<Self> {
        let mut plan = Plan::new(list, dtype, shape)?;
        for codec in codecs {
            let name = codec.as_str().or_else(|| codec.get("name").and_then(Value::as_str))?;
            let empty = Map::new();
            let configuration = codec.get("configuration").and_then(Value::as_object).unwrap_or(&empty);
            match name {
                "transpose" => plan.transpose(configuration.get("order")?)?,
                "bytes" => plan.bytes(configuration.get("endian"))?,
                "crc32c" => plan.checksum()?,
                _ => {
                    let undo = undo_v3(name, configuration, &plan.array())?;
                    plan.push(undo)?;
                }
            }
        }
        if plan.is_array {
            return None;
        }
        plan.finish()
    }

    /// As [`Decoder::v3`] for the metadata of an array of version 2.
    pub(in crate::zarr) fn v2(
        list: &CodecList,
        metadata: &Map<String, Value>,
        dtype: DType,
        shape: &[u64],
    ) -> Option<Self> {
        let mut plan = Plan::new(list, dtype, shape)?;
        plan.endian = match metadata.get("dtype")?.as_str()?.as_bytes().first()? {
            b'<' => Endian::Little,
            b'>' => Endian::Big,
            b'|' if dtype.size() == 1 || matches!(dtype, DType::Opaque(_)) => Endian::Little,
            _ => return None,
        };
        match metadata.get("order")?.as_str()? {
            "C" => {}
            "F" => plan.order = (0..shape.len()).rev().collect(),
            _ => return None,
        }
        let filters = match metadata.get("filters") {
            None | Some(Value::Null) => &[],
            Some(filters) => filters.as_array()?.as_slice(),
        };
        let compressor = metadata.get("compressor").filter(|compressor| !compressor.is_null());
        for codec in filters.iter().chain(compressor) {
            let undo = undo_v2(codec.as_object()?, &plan.array())?;
            plan.push(undo)?;
        }
        plan.finish()
    }

    /// The same decoder, for elements that consist of numbers of `part` bytes.
    pub(in crate::zarr) fn in_parts(self, part: usize) -> Self {
        Self { part, ..self }
    }

    /// Bytes of a decoded chunk.
    pub(in crate::zarr) fn byte_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size()
    }

    /// More stored bytes than this are no chunk of the array.
    pub(in crate::zarr) fn largest(&self) -> u64 {
        (self.byte_len().saturating_mul(WORST)).saturating_add(SOME) as u64
    }

    /// The chain that undoes what is stored, as text.
    #[cfg(test)]
    pub(in crate::zarr) fn words(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| part.chain.spec().to_string()).collect();
        parts.join(" > ")
    }

    /// Replaces the contents of `out` by the elements of a whole chunk: numbers in the byte order of the machine, others in
    /// little-endian order.
    pub(in crate::zarr) fn decode(&self, stored: &[u8], buffers: &mut DecodeBuffers, out: &mut Vec<u8>) -> Result<()> {
        let mut stored = stored;
        for _ in 0..self.checksums {
            stored = without_checksum(stored)?;
        }
        let DecodeBuffers { scratch, a, b } = buffers;
        let mut first = true;
        for (number, part) in self.parts.iter().enumerate().rev() {
            part.chain.decode(if first { stored } else { b.as_slice() }, scratch, a)?;
            if let Some(before) = number.checked_sub(1).and_then(|before| self.parts.get(before)) {
                match &part.scale {
                    Some(scale) => scale.undo(a, part.dtype, before.dtype, self.endian, b)?,
                    None => resize_integers(a, part.dtype, before.dtype, self.endian, b),
                }
            }
            first = false;
        }
        if self.order.is_empty() {
            std::mem::swap(a, out);
        } else {
            row_major(a, &self.order, &self.shape, self.dtype.size(), out);
        }
        let wanted = if matches!(self.dtype, DType::Opaque(_)) { Endian::Little } else { NATIVE };
        if self.endian != wanted {
            swap_bytes(out, self.part);
        }
        Ok(())
    }
}

fn without_checksum(stored: &[u8]) -> Result<&[u8]> {
    let (data, checksum) = stored
        .split_last_chunk::<CHECKSUM>()
        .ok_or_else(|| Error::corrupt(format!("{} bytes are too few for a checksum", stored.len())))?;
    let (stated, computed) = (u32::from_le_bytes(*checksum), crc32c::crc32c(data));
    if stated != computed {
        return Err(Error::corrupt(format!("checksum {computed:08x}, {stated:08x} is stored (CRC-32C)")));
    }
    Ok(data)
}

/// What codecs have added up to so far.
struct Plan<'a> {
    list: &'a CodecList,
    dtype: DType,
    /// Type of what the next codec is given.
    now: DType,
    shape: Vec<usize>,
    order: Vec<usize>,
    endian: Endian,
    parts: Vec<(DType, Option<Scale>, ChainSpec)>,
    is_array: bool,
    checksums: usize,
}

impl<'a> Plan<'a> {
    fn new(list: &'a CodecList, dtype: DType, shape: &[u64]) -> Option<Self> {
        let shape = shape.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<Vec<_>>>()?;
        Some(Self {
            list,
            dtype,
            now: dtype,
            shape,
            order: Vec::new(),
            endian: Endian::Little,
            parts: vec![(dtype, None, ChainSpec::raw())],
            is_array: true,
            checksums: 0,
        })
    }

    /// The array that the next codec is given.
    fn array(&self) -> ArraySpec {
        let shape: Vec<usize> = match self.order.as_slice() {
            [] => self.shape.clone(),
            order => order.iter().filter_map(|&axis| self.shape.get(axis).copied()).collect(),
        };
        ArraySpec { endian: self.endian, ..ArraySpec::new(self.now, shape) }
    }

    fn is_untouched(&self) -> bool {
        self.is_array && matches!(self.parts.as_slice(), [(_, _, chain)] if chain.is_raw())
    }

    fn transpose(&mut self, order: &Value) -> Option<()> {
        // Behind a filter the elements would have to be put back before it is undone.
        if !self.is_untouched() || !self.order.is_empty() {
            return None;
        }
        let order: Vec<usize> = order
            .as_array()?
            .iter()
            .map(|axis| axis.as_u64().and_then(|axis| usize::try_from(axis).ok()))
            .collect::<Option<_>>()?;
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..self.shape.len()) {
            return None;
        }
        self.order = order;
        Some(())
    }

    fn bytes(&mut self, endian: Option<&Value>) -> Option<()> {
        let endian = match endian.map(Value::as_str) {
            Some(Some("little")) => Endian::Little,
            Some(Some("big")) => Endian::Big,
            _ if matches!(self.now, DType::Opaque(_)) => Endian::Little,
            None if self.now.size() == 1 => Endian::Little,
            _ => return None,
        };
        // Behind an array-to-bytes codec there is no array left.
        if !self.is_array {
            return None;
        }
        self.endian = endian;
        self.is_array = false;
        Some(())
    }

    fn checksum(&mut self) -> Option<()> {
        self.checksums += 1;
        (!self.is_array).then_some(())
    }

    fn push(&mut self, undo: Undo) -> Option<()> {
        if self.checksums > 0 {
            return None;
        }
        let (step, narrowed) = match undo {
            Undo::Nothing => return Some(()),
            Undo::Step(step) => (step, None),
            Undo::Narrowed(step, dtype) => (step, Some(dtype)),
            Undo::Scaled(scale, dtype) => {
                self.now = dtype;
                self.parts.push((dtype, Some(scale), ChainSpec::raw()));
                return self.is_array.then_some(());
            }
        };
        match self.list.named(&step.name).ok()?.kind() {
            Kind::Compressor => {}
            Kind::ArrayToBytes if self.is_array => self.is_array = false,
            Kind::Filter if self.is_array => {}
            _ => return None,
        }
        self.parts.last_mut()?.2.0.push(step);
        if let Some(dtype) = narrowed {
            self.now = dtype;
            self.parts.push((dtype, None, ChainSpec::raw()));
        }
        Some(())
    }

    fn finish(self) -> Option<Decoder> {
        let stored = self.array();
        stored.checked_len().ok()?;
        let parts = self
            .parts
            .iter()
            .map(|(dtype, scale, spec)| {
                let input = ArraySpec { dtype: *dtype, ..stored.clone() };
                Chain::prepare(self.list, spec, &input).ok().map(|chain| Part { chain, dtype: *dtype, scale: *scale })
            })
            .collect::<Option<Vec<_>>>()?;
        let keeps_order = self.order.iter().copied().eq(0..self.order.len());
        Some(Decoder {
            parts,
            order: if keeps_order { Vec::new() } else { self.order },
            shape: self.shape,
            dtype: self.dtype,
            endian: self.endian,
            part: if matches!(self.dtype, DType::Opaque(_)) { 1 } else { self.dtype.size() },
            checksums: self.checksums,
        })
    }
}

/// Replaces the contents of `out` by the same whole numbers in another integer type, modulo its size.
fn resize_integers(input: &[u8], from: DType, to: DType, endian: Endian, out: &mut Vec<u8>) {
    let (narrow, wide) = (from.size().max(1), to.size());
    out.clear();
    out.reserve(input.len() / narrow * wide);
    for element in input.chunks_exact(narrow) {
        let top = if endian == Endian::Big { element.first() } else { element.last() };
        let sign = if from.is_signed() && top.is_some_and(|byte| byte & 0x80 != 0) { 0xFF } else { 0 };
        let kept = narrow.min(wide);
        match endian {
            Endian::Little => {
                out.extend_from_slice(&element[..kept]);
                out.extend(std::iter::repeat_n(sign, wide - kept));
            }
            Endian::Big => {
                out.extend(std::iter::repeat_n(sign, wide - kept));
                out.extend_from_slice(&element[narrow - kept..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn v3(codecs: Value, dtype: DType) -> Option<Decoder> {
        Decoder::v3(&CodecList::pure(), codecs.as_array().unwrap(), dtype, &[2, 3])
    }

    #[test]
    fn chains_are_those_of_the_metadata() {
        let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
        let shuffle = json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": 2}});
        let delta = json!({"name": "numcodecs.delta", "configuration": {"dtype": "<i2"}});
        let transpose = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
        let words = |codecs| v3(codecs, DType::I16).map(|decoder| decoder.words());
        assert_eq!(words(json!([delta, little, shuffle, "crc32c"])), Some("delta | shuffle:2".to_owned()));
        assert_eq!(words(json!([transpose, little])), Some("raw".to_owned()));
        for refused in [
            json!([delta]),
            json!([little, delta]),
            json!([little, little]),
            json!([delta, transpose, little]),
            json!([transpose, transpose, little]),
            json!([little, "crc32c", shuffle]),
            json!([little, "unknown"]),
            json!([little, 7]),
            json!([{"name": "transpose", "configuration": {"order": [1, 1]}}, little]),
            json!([{"name": "transpose", "configuration": {"order": [0, -1]}}, little]),
            json!(["bytes"]),
        ] {
            assert_eq!(words(refused.clone()), None, "{refused}");
        }
    }

    #[test]
    fn axes_byte_order_and_checksums_are_put_right() {
        let codecs = json!([
            {"name": "transpose", "configuration": {"order": [1, 0]}},
            {"name": "bytes", "configuration": {"endian": "big"}},
            {"name": "crc32c"},
        ]);
        let decoder = v3(codecs, DType::I16).unwrap();
        let mut stored: Vec<u8> = [0i16, 3, 1, 4, 2, 5].iter().flat_map(|value| value.to_be_bytes()).collect();
        stored.extend(crc32c::crc32c(&stored).to_le_bytes());
        let mut out = Vec::new();
        decoder.decode(&stored, &mut DecodeBuffers::default(), &mut out).unwrap();
        let expected: Vec<u8> = (0i16..6).flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(out, expected);
        stored[3] ^= 1;
        assert!(decoder.decode(&stored, &mut DecodeBuffers::default(), &mut out).is_err());
        for cut in 0..stored.len() {
            assert!(decoder.decode(&stored[..cut], &mut DecodeBuffers::default(), &mut out).is_err());
        }
    }

    #[test]
    fn integers_keep_their_values_in_wider_types() {
        let mut out = Vec::new();
        resize_integers(&[0xFE, 2], DType::I8, DType::I16, Endian::Little, &mut out);
        assert_eq!(out, [0xFE, 0xFF, 2, 0]);
        resize_integers(&[0xFE, 2], DType::U8, DType::U16, Endian::Big, &mut out);
        assert_eq!(out, [0, 0xFE, 0, 2]);
        resize_integers(&[1, 2], DType::I16, DType::I8, Endian::Little, &mut out);
        assert_eq!(out, [1]);
    }
}
