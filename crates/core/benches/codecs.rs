//! Speed of the pure Rust codecs: `cargo bench -p knarr-core --features testing --bench codecs [-- CHAIN...]`.

use knarr_core::codec::CodecList;
use knarr_core::testing::speed;

fn main() {
    speed::run(&CodecList::pure(), |line| println!("{line}"));
}
