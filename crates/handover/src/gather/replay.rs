//! The puts of one rank with their values, in the order in which they were made: for a file that is handed back to the library
//! of the program.

use knarr_array::error::{Error, Result};
use knarr_array::region::Region;

use crate::gather::rank_values::{Rank, RankValues, read_error};
use crate::log::put::Put;
use crate::log::records::parse_puts;

/// Bytes of values that are read at once.
const AT_ONCE: u64 = 8 << 20;

/// Calls `take` with pieces of the puts of one rank, in their order: the put, elements of it (the first one, and how many along each
/// axis, as far apart as the put says), and their values.
///
/// # Errors
/// Those of `take`; `Read`, and `Corrupt` for a log that makes no sense or values that are not there.
pub fn replay(held: &RankValues, mut take: impl FnMut(&Put, &Region, &[u8]) -> Result<()>) -> Result<()> {
    let (log, found) = held.read()?;
    let puts = parse_puts(&log).map_err(|error| error.at(held.place()))?;
    let rank = Rank::open(found, puts.first, [0, 0])?;
    let mut values = Vec::new();
    for put in &puts.puts {
        let mut offset = put.offset;
        for (start, count) in put.boxes.iter() {
            let whole = Region::new(start.to_vec(), count.to_vec());
            each_piece(&whole, put, &mut |piece| {
                let bytes = piece.volume().and_then(|elements| elements.checked_mul(put.width()));
                let bytes = bytes.ok_or_else(|| Error::corrupt("a put with too many elements"))?;
                values.resize(usize::try_from(bytes).map_err(|_| Error::unsupported("too many values"))?, 0);
                let (file, at) = rank.place(offset);
                let missing = || Error::corrupt("a put whose values are not all there");
                let stored = rank.values(file).ok_or_else(missing)?;
                stored.read_exact_at(&mut values, at).map_err(|error| read_error(&error))?;
                offset += bytes;
                take(put, piece, &values)
            })?;
        }
    }
    Ok(())
}

/// Calls `take` with pieces of a box whose values lie one behind the other, each of at most [`AT_ONCE`] bytes or one element.
fn each_piece(whole: &Region, put: &Put, take: &mut dyn FnMut(&Region) -> Result<()>) -> Result<()> {
    let bytes = whole.volume().and_then(|elements| elements.checked_mul(put.width())).unwrap_or(u64::MAX);
    let Some(axis) = whole.count.iter().position(|&count| count > 1).filter(|_| bytes > AT_ONCE) else {
        return if bytes > 0 { take(whole) } else { Ok(()) };
    };
    let many = whole.count[axis];
    let stride = put.stride.get(axis).copied().unwrap_or(1);
    let each = (AT_ONCE / (bytes / many).max(1)).max(1);
    let mut piece = whole.clone();
    for first in (0..many).step_by(usize::try_from(each).unwrap_or(usize::MAX)) {
        piece.start[axis] = whole.start[axis] + first * stride;
        piece.count[axis] = each.min(many - first);
        each_piece(&piece, put, take)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::puts::{PutLog, Room};
    use knarr_array::array::DType;
    use knarr_array::region::Regions;

    #[test]
    fn puts_come_back_in_their_order_with_their_values() {
        let folder = std::env::temp_dir().join(format!("knarr-replay-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let room = Room::of_process(&folder, 1 << 16, folder.join("more"));
        let mut log = PutLog::create(room, "values", "log").unwrap();
        // The second one goes to the disk, and is read in pieces; so is one with strides and a single row.
        let shapes: [(&[u64], &[u64]); 4] =
            [(&[2, 3], &[]), (&[4, 1 << 20], &[]), (&[1, 3 << 20], &[2, 3]), (&[2, 2], &[5, 7])];
        let mut all = Vec::new();
        for (order, (count, stride)) in shapes.iter().enumerate() {
            let region = Region::new(vec![order as u64, 4], count.to_vec());
            let (boxes, stride, offset) = (Regions::from(&region), stride.to_vec(), 0);
            let mut put =
                Put { variable: 7, dtype: DType::U32, boxes, stride, parts: Vec::new(), order: order as u64, offset };
            put.offset = log.reserve(put.byte_len()).unwrap();
            let values: Vec<u8> =
                (0..put.byte_len()).map(|at| (at / 4 + at % 4 + order as u64).to_le_bytes()[0]).collect();
            log.write(put.offset, put.dtype, &values).unwrap();
            log.push(std::slice::from_ref(&put)).unwrap();
            all.push((put, values));
        }
        let held = RankValues::Here { values: folder.join("values"), log: folder.join("log") };
        let mut got: Vec<Vec<u8>> = vec![Vec::new(); all.len()];
        let mut next = vec![0u64; all.len()];
        replay(&held, |put, piece, values| {
            let number = usize::try_from(put.order).unwrap();
            assert_eq!(*put, all[number].0);
            assert!(values.len() as u64 <= AT_ONCE && got[number + 1..].iter().all(Vec::is_empty));
            assert_eq!(values.len() as u64, piece.volume().unwrap() * 4);
            // The first element is the one behind those before.
            let stride = |axis: usize| put.stride.get(axis).copied().unwrap_or(1);
            let at: Vec<u64> =
                [0, 1].map(|axis| (piece.start[axis] - put.boxes.get(0).0[axis]) / stride(axis)).to_vec();
            assert_eq!(at[0] * put.boxes.get(0).1[1] + at[1], next[number]);
            next[number] += piece.volume().unwrap();
            got[number].extend_from_slice(values);
            Ok(())
        })
        .unwrap();
        assert!(all.iter().zip(&got).all(|((_, values), got)| values == got));
        let stop = replay(&held, |_, _, _| Err(Error::unsupported("no")));
        assert!(stop.is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
