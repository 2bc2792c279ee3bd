//! What the codecs of this crate share: block coders, output buffers for C, pools of contexts, file forms.

mod buffer;
mod coder;
mod cuts;
mod forms;
pub(crate) mod lz4_block;
mod matches;
mod pool;
mod values;
mod zstd_frame;

pub(crate) use buffer::{append, c_len, reserve, resize};
pub(crate) use coder::{Coder, Format, Method};
pub(crate) use forms::{bytes_to_bytes, cd_level, filter, level, level_option};
pub(crate) use pool::Pool;
pub(crate) use values::check_ordinary;
