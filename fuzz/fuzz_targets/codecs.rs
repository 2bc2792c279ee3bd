//! The codecs that the targets decode with.

use std::sync::LazyLock;

use knarr_codec::codec::CodecList;

/// All codecs of this project. Installed HDF5 plugins are other people's code, and differ from machine to machine.
pub fn codecs() -> &'static CodecList {
    static CODECS: LazyLock<CodecList> =
        LazyLock::new(|| knarr_native::codecs_with_plugins(&[]).expect("the list is in order"));
    &CODECS
}
