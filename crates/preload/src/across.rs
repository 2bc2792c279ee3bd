//! Datasets that the program writes in thin slices across their chunks: columns of a matrix that is stored by rows, say.
//! Once their chunks do not fit the cache, each such write decodes and encodes all of them.
//!
//! The chunks of a dataset cannot be changed any more when that is seen. It is told, and datasets like it that are
//! created later get chunks that suit.

use std::sync::Mutex;

use knarr_array::array::DType;
use knarr_array::model::Variable;
use knarr_capture::{Event, met, suited};

use crate::host::CallerHdf5;
use crate::lists::{Close, Owned, chunk_shape, element, file_name, object_name};
use crate::whole::{Write, select, whole};
use crate::{files, given};
use knarr_capture::program::{patient, run};

/// A slice is thin if it has less than this part of the chunks it meets.
const THIN: u64 = 8;
/// Kinds of datasets that are remembered.
const MOST_KINDS: usize = 256;

/// Datasets like one that was seen, and the shape of what was written at once.
struct Kind {
    path: String,
    dtype: DType,
    count: Vec<u64>,
}

static SEEN: Mutex<Vec<Kind>> = Mutex::new(Vec::new());

/// The shape of what is written at once to datasets like this one, if that is across their chunks.
pub(crate) fn seen(variable: &Variable) -> Option<Vec<u64>> {
    let seen = patient(&SEEN)?;
    let is_like = |kind: &&Kind| {
        kind.path == variable.path && kind.dtype == variable.dtype && kind.count.len() == variable.shape.len()
    };
    seen.iter().find(is_like).map(|kind| kind.count.clone())
}

/// Looks at one of the first writes of a dataset that was given filters.
pub(crate) fn look(host: &CallerHdf5, write: &Write) {
    if let Some(gift) = given::first_writes(host, write.dataset) {
        host.quietly(|host| examine(host, write, gift.cache));
    }
}

fn examine(host: &CallerHdf5, write: &Write, cache: u64) -> Option<()> {
    let dataset = write.dataset;
    // SAFETY: the dataset is the program's own, here and below; what is made is closed when dropped.
    let space = Owned::new(host, unsafe { host.space_of?(dataset) }, Close::Reference)?;
    let selected = if write.file == 0 { whole(host, space.id)? } else { select(host, write.file)? };
    // SAFETY: as above.
    let list = Owned::new(host, unsafe { host.creation_of?(dataset) }, Close::List)?;
    // SAFETY: as above.
    let datatype = Owned::new(host, unsafe { host.type_of?(dataset) }, Close::Reference)?;
    let (dtype, _) = element(host, datatype.id).ok()?;
    let size = dtype.size() as u64;
    let chunk = chunk_shape(host, list.id, selected.shape.len())?;
    let met = met(&selected.region, &chunk, size);
    let written = selected.region.count.iter().fold(size, |bytes, &count| bytes.saturating_mul(count));
    if met <= cache || met / THIN < written || !given::is_across(host, dataset) {
        return None;
    }
    let (path, _) = files::compressed(&file_name(host, dataset)?)?;
    let variable = object_name(host, dataset)?;
    let suited = suited(&selected.region.count, &selected.shape, size);
    remember(Kind { path: variable.clone(), dtype, count: selected.region.count });
    run()?.tell(Event::Across { path, variable, chunk: suited });
    Some(())
}

fn remember(kind: Kind) {
    if let Some(mut seen) = patient(&SEEN)
        && seen.len() < MOST_KINDS
    {
        seen.retain(|old| (&old.path, old.dtype) != (&kind.path, kind.dtype));
        seen.push(kind);
    }
}
