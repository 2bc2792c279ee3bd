//! What the codecs of this crate share: output buffers for C, pools of contexts, metadata forms.

mod buffer;
mod forms;
mod pool;

pub(crate) use buffer::{append, c_len, reserve, resize};
pub(crate) use forms::{bytes_to_bytes, cd_level, filter, level, level_option};
pub(crate) use pool::Pool;
