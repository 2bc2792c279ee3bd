//! Speed of every codec, those of plugins included: `cargo bench -p knarr-native --bench codecs [-- CHAIN...]`.

use knarr_core::testing::speed;

fn main() -> knarr_core::Result<()> {
    speed::run(&knarr_native::codecs()?, |line| println!("{line}"));
    Ok(())
}
