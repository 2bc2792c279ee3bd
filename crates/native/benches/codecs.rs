//! Speed of every codec, those of plugins included: `cargo bench -p knarr-native --bench codecs [-- CHAIN...]`.

use knarr_testing::speed;

fn main() -> knarr_array::Result<()> {
    speed::run(&knarr_native::codecs()?, |line| println!("{line}"));
    Ok(())
}
