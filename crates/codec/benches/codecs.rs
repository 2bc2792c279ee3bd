//! Speed of the pure Rust codecs: `cargo bench -p knarr-codec --bench codecs [-- CHAIN...]`.

use knarr_codec::codec::CodecList;
use knarr_testing::speed;

fn main() {
    speed::run(&CodecList::pure(), |line| println!("{line}"));
}
