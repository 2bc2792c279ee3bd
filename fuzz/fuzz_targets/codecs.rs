//! The codecs that the targets decode with.

use std::sync::LazyLock;

use knarr_core::codec::CodecList;

/// All codecs, without installed HDF5 plugins.
pub fn codecs() -> &'static CodecList {
    static CODECS: LazyLock<CodecList> = LazyLock::new(|| knarr_native::codecs().expect("the list is in order"));
    &CODECS
}
