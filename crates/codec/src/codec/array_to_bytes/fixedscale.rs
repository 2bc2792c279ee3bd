//! `fixedscale`: numbers that are whole multiples of a step, stored as those whole numbers.

use std::marker::PhantomData;

use crate::codec::array_to_bytes::lattice::{Codes, Lattice, MAX_EXCEPTIONS, detect};
use crate::codec::filters::lorenzo::Rows;
use crate::codec::order::{Order, Word, with_word};
use crate::codec::{Codec, Kind, OptionDoc, OptionKind, Options, Stage, Step, check_limit, sized};
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};

/// Codes on the lattice that was found for the chunk and proven exact for every element, as integers of the width
/// of the elements, so that shuffles and compressors see what they expect; their upper bytes are mostly zero.
/// Chunks without a lattice are treated as `lorenzo` does. A trailer says which.
pub(in crate::codec) struct FixedScale;

impl Codec for FixedScale {
    fn name(&self) -> &'static str {
        "fixedscale"
    }

    fn wire_id(&self) -> u16 {
        7
    }

    fn kind(&self) -> Kind {
        Kind::ArrayToBytes
    }

    fn summary(&self) -> &'static str {
        "finds scale and offset of packed or decimal numbers and stores whole numbers, exact for every element"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["fixedscale", "fixedscale:0", "fixedscale:1 | shuffle | snappy", "quantize:0.1,step=decimal | fixedscale:2"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc {
            name: "dims",
            kind: OptionKind::Int { min: 0, max: 4, default: Some(3) },
            doc: "axes of the Lorenzo prediction of the whole numbers, counted from the last one; 0 for none",
        }]
    }

    fn keeps_size(&self, _options: &Options) -> bool {
        true
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype.is_number()
    }

    fn needs_values(&self) -> bool {
        true
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let dims = usize::try_from(options.int("dims")?).map_err(|_| Error::internal("fixedscale: dims"))?;
        let rows = (dims > 0).then(|| Rows::new(&input.spec.shape, dims, false));
        let dtype = input.spec.dtype;
        with_word!("fixedscale", dtype, W => Box::new(Prepared::<W> { dtype, rows, word: PhantomData }))
    }
}

/// Last byte of a stream: what the words stand for.
const ELEMENTS: u8 = 0;
const INTEGER: u8 = 1;
const FLOAT: u8 = 2;

/// Bytes before the count of exceptions: first, stride, span, numerator, denominator, offset.
const FIELDS: usize = 6 * 8;

struct Prepared<W> {
    dtype: DType,
    rows: Option<Rows>,
    word: PhantomData<fn() -> W>,
}

impl<W: Word> Step for Prepared<W> {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len.saturating_add(MAX_EXCEPTIONS * 8 + FIELDS + 2)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let Some(codes) = detect::<W>(self.dtype, W::words(input)) else {
            self.predict(Order::of(self.dtype), input, out);
            out.push(ELEMENTS);
            return Ok(());
        };
        let mut whole = vec![0; input.len()];
        for (code, element) in W::words_mut(&mut whole).iter_mut().zip(W::words(input)) {
            *code = W::from_u64(codes.code(W::from_le(*element))).to_le();
        }
        self.predict(Order::Integer, &whole, out);
        write_trailer(&codes, out);
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let short = || Error::corrupt("fixedscale: stream ends early");
        let (&kind, rest) = input.split_last().ok_or_else(short)?;
        if kind == ELEMENTS {
            return self.unpredict(Order::of(self.dtype), rest, limit, out);
        }
        let (codes, residuals) = read_trailer::<W>(kind, rest)?;
        self.unpredict(Order::Integer, residuals, limit, out)?;
        for element in W::words_mut(out) {
            let code = W::from_le(*element).to_u64();
            let word = codes.element(code).ok_or_else(|| Error::corrupt(format!("fixedscale: no code {code}")))?;
            *element = word.to_le();
        }
        Ok(())
    }
}

impl<W: Word> Prepared<W> {
    fn predict(&self, order: Order, words: &[u8], out: &mut Vec<u8>) {
        match &self.rows {
            Some(rows) => rows.encode::<W>(order, W::words(words), W::words_mut(sized(out, words.len()))),
            None => sized(out, words.len()).copy_from_slice(words),
        }
    }

    fn unpredict(&self, order: Order, residuals: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        check_limit(residuals.len(), limit)?;
        let out = sized(out, residuals.len());
        match &self.rows {
            Some(rows) => rows.decode::<W>(order, W::words(residuals), W::words_mut(out)),
            None => out.copy_from_slice(residuals),
        }
        Ok(())
    }
}

fn write_trailer<W: Word>(codes: &Codes<W>, out: &mut Vec<u8>) {
    let (kind, [numerator, denominator, offset]) = match codes.lattice {
        Lattice::Integer { .. } => (INTEGER, [0.0; 3]),
        Lattice::Float { numerator, denominator, offset } => (FLOAT, [numerator, denominator, offset]),
    };
    for exception in &codes.exceptions {
        out.extend_from_slice(&exception.to_u64().to_le_bytes());
    }
    for field in [codes.first.cast_unsigned(), codes.stride, codes.span] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    for field in [numerator, denominator, offset] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    out.extend([u8::try_from(codes.exceptions.len()).unwrap_or_default(), kind]);
}

/// Reads the trailer that ends `bytes`, without its last byte `kind`, and returns what stands before it.
fn read_trailer<W: Word>(kind: u8, bytes: &[u8]) -> Result<(Codes<W>, &[u8])> {
    let short = || Error::corrupt("fixedscale: stream ends early");
    let (&count, bytes) = bytes.split_last().ok_or_else(short)?;
    let (bytes, fields) = bytes.split_last_chunk::<FIELDS>().ok_or_else(short)?;
    let (fields, _) = fields.as_chunks::<8>();
    let &[first, stride, span, numerator, denominator, offset] = fields else { return Err(short()) };
    let at = bytes.len().checked_sub(usize::from(count) * 8).ok_or_else(short)?;
    let (residuals, exceptions) = bytes.split_at_checked(at).ok_or_else(short)?;
    let lattice = match kind {
        INTEGER => Lattice::Integer { signed: true },
        FLOAT => Lattice::Float {
            numerator: f64::from_le_bytes(numerator),
            denominator: f64::from_le_bytes(denominator),
            offset: f64::from_le_bytes(offset),
        },
        other => return Err(Error::corrupt(format!("fixedscale: no stream of kind {other}"))),
    };
    let exceptions = exceptions.as_chunks::<8>().0.iter().map(|bits| W::from_u64(u64::from_le_bytes(*bits))).collect();
    let codes = Codes {
        lattice,
        first: i64::from_le_bytes(first),
        stride: u64::from_le_bytes(stride),
        span: u64::from_le_bytes(span),
        exceptions,
    };
    Ok((codes, residuals))
}
