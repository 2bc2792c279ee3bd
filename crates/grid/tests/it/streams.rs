//! Streams: nothing lost, little taken, damage told, old streams decoded.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "tests report by panicking, and make numbers of small indices"
)]

use knarr_array::array::DType;
use knarr_codec::codec::GRID_LIBRARIES;
use knarr_grid::{BLOCK_ELEMENTS, BROTLI, Error, GRID, PCODEC, VERSION};
use proptest::prelude::*;

fn encode(dtype: DType, shape: &[usize], fills: &[u64], bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    knarr_grid::encode(dtype, shape, fills, bytes, GRID_LIBRARIES, out)
}

fn decode(dtype: DType, shape: &[usize], bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    knarr_grid::decode(dtype, shape, bytes, GRID_LIBRARIES, out)
}

const TYPES: [DType; 10] = [
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F32,
    DType::F64,
];

/// Kinds of fields, see [`field`].
const KINDS: u8 = 12;

/// Deterministic noise.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) ^ (self.0 >> 43)
    }
}

fn bytes_of(dtype: DType, bits: u64) -> Vec<u8> {
    bits.to_le_bytes()[..dtype.size()].to_vec()
}

/// Bits of a number in a type, rounded.
fn bits_in(dtype: DType, x: f64) -> u64 {
    match dtype {
        DType::F32 => u64::from((x as f32).to_bits()),
        DType::F64 => x.to_bits(),
        _ => x as i64 as u64,
    }
}

const SPECIAL32: [u32; 12] = [
    0,
    0x8000_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc0_0001,
    0x7f80_0001,
    1,
    0x8000_0001,
    0x7f7f_ffff,
    0x60ad_78ec,
    0x007f_ffff,
];

/// Element of a symmetric irregular mesh: parts that repeat each other, mirrored, shifted and with the other sign.
fn mesh(i: usize, part: usize) -> f64 {
    let (node, octant, pass) = (i % part, i / part % 8, i / part / 8);
    let scattered = (node as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
    let x = scattered as f64 / (1u64 << 53) as f64 * 45.0;
    let x = if octant % 2 == 0 { octant as f64 * 45.0 + x } else { (octant + 1) as f64 * 45.0 - x };
    if pass % 2 == 0 { x } else { -x }
}

/// Fields of many kinds: smooth, noisy, constant, masked, decimal, special values sprinkled in, meshes, and
/// one that repeats along its first axis.
fn field(dtype: DType, shape: &[usize], kind: u8, seed: u64) -> Vec<u8> {
    let n: usize = shape.iter().product();
    let cols = shape.last().copied().unwrap_or(1).max(1);
    let mut r = Noise(seed);
    let mut out = Vec::with_capacity(n * dtype.size());
    for i in 0..n {
        let (x, y) = ((i % cols) as f64, (i / cols) as f64);
        let smooth = 40.0 * (x * 0.07).sin() + 30.0 * (y * 0.11).cos() + x * 0.3;
        let noise = (r.next() & 0xffff) as f64 / 65536.0;
        let i = if kind % KINDS == 11 { i % (n / shape.first().map_or(1, |&d| d)) } else { i };
        let bits = match kind % KINDS {
            0 => bits_in(dtype, smooth),
            1 => bits_in(dtype, smooth + noise),
            2 => r.next() << 20 ^ r.next(),
            3 => bits_in(dtype, ((smooth + noise) * 10.0).round() / 10.0),
            4 => {
                if (x * 0.2).sin() + (y * 0.15).cos() > 0.3 {
                    bits_in(dtype, 1e20)
                } else {
                    bits_in(dtype, smooth + 0.2 * noise)
                }
            }
            5 => bits_in(dtype, 273.15 + (smooth * 20.0).round() * 0.01),
            6 if dtype == DType::F64 => {
                let s = SPECIAL32[(r.next() % 12) as usize];
                if r.next().is_multiple_of(3) { u64::from(s) << 32 | r.next() & 1 } else { bits_in(dtype, smooth) }
            }
            6 => {
                if r.next().is_multiple_of(3) {
                    u64::from(SPECIAL32[(r.next() % 12) as usize])
                } else {
                    bits_in(dtype, smooth)
                }
            }
            7 => bits_in(dtype, (y * 0.3).floor()),
            8 => {
                if r.next().is_multiple_of(50) {
                    bits_in(dtype, -0.0)
                } else {
                    bits_in(dtype, (smooth * 4.0).round() * 0.25)
                }
            }
            9 => bits_in(dtype, f64::from((smooth + noise) as f32)),
            10 => bits_in(dtype, mesh(i, 500)),
            _ => bits_in(dtype, mesh(i * i + i / 3, 500)),
        };
        out.extend(bytes_of(dtype, bits));
    }
    out
}

fn round_trip(dtype: DType, shape: &[usize], fills: &[u64], data: &[u8]) -> Vec<u8> {
    let mut enc = Vec::new();
    encode(dtype, shape, fills, data, &mut enc).unwrap();
    assert!(enc.len() <= data.len() + 16 + data.len() / 1_000_000, "{} > {}", enc.len(), data.len());
    let mut dec = vec![7u8];
    decode(dtype, shape, &enc, &mut dec).unwrap();
    assert!(dec[0] == 7 && dec[1..] == *data, "{dtype:?} {shape:?}");
    enc
}

#[test]
fn every_type_and_kind_of_field_round_trips() {
    let shapes: [&[usize]; 16] = [
        &[],
        &[1],
        &[0],
        &[3, 0, 2],
        &[1, 1, 1],
        &[7],
        &[1000],
        &[40, 50],
        &[3, 20, 30],
        &[2, 3, 12, 17],
        &[50, 1, 40],
        &[60, 40, 4],
        &[300, 3],
        &[5000, 2],
        &[2, 2, 2, 2, 2, 2],
        &[9, 4, 33, 8],
    ];
    for dtype in TYPES {
        for shape in shapes {
            for kind in 0..KINDS {
                let data = field(dtype, shape, kind, u64::from(kind) + 3);
                round_trip(dtype, shape, &[bits_in(dtype, 1e20)], &data);
            }
        }
    }
}

#[test]
fn large_arrays_are_cut_into_blocks() {
    let shape = [3, 1700, 1000];
    let data = field(DType::F32, &shape, 5, 1);
    assert!(shape.iter().product::<usize>() > BLOCK_ELEMENTS);
    round_trip(DType::F32, &shape, &[], &data);
    let shape = [BLOCK_ELEMENTS + 5];
    let data = field(DType::I8, &shape, 0, 1);
    round_trip(DType::I8, &shape, &[], &data);
}

#[test]
fn wrong_length_is_an_error() {
    assert_eq!(encode(DType::F32, &[3], &[], &[0; 11], &mut Vec::new()), Err(Error::Length));
    assert_eq!(encode(DType::F64, &[usize::MAX, 2], &[], &[], &mut Vec::new()), Err(Error::TooLarge));
}

#[test]
fn lattices_cost_only_their_steps() {
    // Noise of 8 bits on a lattice inside 32-bit floats cannot be coded in less than 1 byte, nor should it take much more.
    let mut r = Noise(9);
    let data: Vec<u8> =
        (0..65536).flat_map(|_| ((250.0 + (r.next() & 255) as f64 * 0.013) as f32).to_le_bytes()).collect();
    let enc = round_trip(DType::F32, &[256, 256], &[], &data);
    assert!(enc.len() < 65536 * 103 / 100, "{}", enc.len());
}

/// A stream of one block.
fn stream_of(block: &[u8]) -> Vec<u8> {
    let mut stream = vec![VERSION];
    let mut length = block.len();
    while length >= 0x80 {
        stream.push(length as u8 | 0x80);
        length >>= 7;
    }
    stream.push(length as u8);
    stream.extend_from_slice(block);
    stream
}

#[test]
fn blocks_of_other_codecs_are_chosen_where_they_are_smaller() {
    let mut r = Noise(1);
    let mut noise = || r.next() & 0x7fff_ffff;
    // A sum of uniform numbers is nearly normal; the factor leaves no lattice. No neighbour tells anything.
    let normal: Vec<u8> = (0..40000)
        .flat_map(|_| {
            let sum: f32 = (0..12).map(|_| noise() as f32 / 2f32.powi(31)).sum();
            ((sum - 6.0) * (1.0 + noise() as f32 / 2f32.powi(31))).to_le_bytes()
        })
        .collect();
    let words = ["fjord ", "knarr ", "sail ", "north ", "stave ", "mast "];
    let text: String = (0..9000).map(|_| words[noise() as usize % words.len()]).collect();
    let text = &text.as_bytes()[..36000];
    let short = &text[..800];
    for (dtype, bytes, mode) in
        [(DType::F32, &normal[..], PCODEC), (DType::U8, text, BROTLI), (DType::U8, short, BROTLI)]
    {
        let shape = [bytes.len() / dtype.size()];
        let stream = round_trip(dtype, &shape, &[], bytes);
        let start = 1 + stream[1..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let best = &stream[start..];
        assert_eq!(best[0], mode);
        assert!(stream_of(best) == stream);
        for cut in (1..best.len()).step_by(97) {
            assert!(decode(dtype, &shape, &stream_of(&best[..cut]), &mut Vec::new()).is_err());
        }
        for _ in 0..2000 {
            let mut bad = best.to_vec();
            let at = 1 + noise() as usize % (bad.len() - 1);
            bad[at] ^= 1 << (noise() & 7);
            let mut out = Vec::new();
            if decode(dtype, &shape, &stream_of(&bad), &mut out).is_ok() {
                assert_eq!(out.len(), bytes.len());
            }
        }
    }
}

#[test]
fn symmetric_meshes_cost_less_than_their_distinct_numbers() {
    // 500 random numbers in eight octants with both signs, twice: 4000 magnitudes of as many random bits.
    for (dtype, bits) in [(DType::F64, 52), (DType::F32, 23)] {
        let n = 16 * 1000;
        let enc = round_trip(dtype, &[n], &[], &field(dtype, &[n], 10, 1));
        assert!(enc.len() < 4000 * bits / 8, "{dtype:?}: {}", enc.len());
    }
}

#[test]
fn damage_is_an_error_or_other_data_but_never_a_panic() {
    for (dtype, kind, shape) in [
        (DType::F32, 4, vec![12usize, 20]),
        (DType::F32, 5, vec![2, 9, 11]),
        (DType::F64, 6, vec![15, 8]),
        (DType::F64, 1, vec![10, 12]),
        (DType::I16, 1, vec![11, 13]),
        (DType::F32, 3, vec![20, 10, 4]),
        (DType::I32, 7, vec![200]),
        (DType::F32, 8, vec![30, 30]),
        (DType::F64, 10, vec![9000]),
        (DType::F32, 11, vec![5, 2, 30]),
    ] {
        let data = field(dtype, &shape, kind, 5);
        let mut enc = Vec::new();
        encode(dtype, &shape, &[bits_in(dtype, 1e20)], &data, &mut enc).unwrap();
        for cut in (0..enc.len()).step_by(1 + enc.len() / 2000) {
            let mut out = Vec::new();
            assert!(decode(dtype, &shape, &enc[..cut], &mut out).is_err(), "cut at {cut} of {}", enc.len());
            assert!(out.is_empty());
        }
        let mut r = Noise(77);
        for _ in 0..3000 {
            let mut bad = enc.clone();
            for _ in 0..1 + r.next() % 3 {
                let at = (r.next() % bad.len() as u64) as usize;
                bad[at] = if r.next().is_multiple_of(2) { r.next() as u8 } else { bad[at] ^ 1 << (r.next() % 8) };
            }
            let mut out = Vec::new();
            if decode(dtype, &shape, &bad, &mut out).is_ok() {
                assert_eq!(out.len(), data.len());
            }
            // The same bytes under other shapes and types.
            let _ = decode(dtype, &[3, 5, 7], &bad, &mut out);
            let _ = decode(TYPES[(r.next() % 10) as usize], &shape, &bad, &mut out);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_fields_round_trip(t in 0usize..10, shape in prop::collection::vec(0usize..14, 0..5), kind in 0..KINDS, seed: u64) {
        let data = field(TYPES[t], &shape, kind, seed);
        round_trip(TYPES[t], &shape, &[bits_in(TYPES[t], 1e20)], &data);
    }

    #[test]
    fn arbitrary_bytes_round_trip(t in 0usize..10, rows in 1usize..40, cols in 1usize..40, pool in prop::collection::vec(any::<u64>(), 1..20), seed: u64) {
        let mut r = Noise(seed);
        let data: Vec<u8> = (0..rows * cols).flat_map(|_| bytes_of(TYPES[t], pool[(r.next() % pool.len() as u64) as usize])).collect();
        round_trip(TYPES[t], &[rows, cols], &[], &data);
    }

    #[test]
    fn arbitrary_streams_never_panic(t in 0usize..10, shape in prop::collection::vec(1usize..30, 0..4), mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Some(b) = bytes.first_mut() { *b = VERSION; }
        let _ = decode(TYPES[t], &shape, &bytes, &mut Vec::new());
        // Straight into the grid body.
        let length = bytes.len() as u64 + 1;
        let mut stream = vec![VERSION, 0x80 | (length & 0x7F) as u8, (length >> 7) as u8, GRID];
        stream.extend_from_slice(&bytes);
        let _ = decode(TYPES[t], &shape, &stream, &mut Vec::new());
    }
}

/// Data of the golden streams: whole-number arithmetic only, so that it is the same everywhere.
fn golden_field(name: &str) -> (DType, Vec<usize>, Vec<u8>) {
    let values = |shape: &[usize], f: &dyn Fn(i64, i64) -> f32| -> Vec<u8> {
        let cols = *shape.last().unwrap_or(&1) as i64;
        (0..shape.iter().product::<usize>() as i64).flat_map(|i| f(i / cols, i % cols).to_le_bytes()).collect()
    };
    match name {
        "decimal" => {
            (DType::F32, vec![12, 16], values(&[12, 16], &|y, x| ((y * y * 3 + x * 5 - x * y) % 97) as f32 / 10.0))
        }
        "masked" => (
            DType::F32,
            vec![12, 16],
            values(&[12, 16], &|y, x| if (x - 8).abs() + (y - 6).abs() < 5 { 1e20 } else { (x * y) as f32 * 0.7 }),
        ),
        "planes" => {
            (DType::F32, vec![3, 8, 10], values(&[3, 8, 10], &|y, x| (y / 8 + 1) as f32 * 0.37 * (x * x + y) as f32))
        }
        "vertices" => (
            DType::F32,
            vec![6, 8, 4],
            values(&[6, 8, 4], &|y, x| (y / 8 * 7 + y % 8 + [0, 1, 8, 7][x as usize]) as f32 * 0.3),
        ),
        "integers" => (
            DType::I16,
            vec![10, 12],
            (0..120i16).flat_map(|i| (i / 12 * 40 + (i % 12) * (i % 5)).to_le_bytes()).collect(),
        ),
        "symmetric" => (DType::F64, vec![544], (0..544).flat_map(|i| mesh(i, 34).to_le_bytes()).collect()),
        "repeated" => {
            let slice = values(&[12, 16], &|y, x| ((y * y * 3 + x * 5 - x * y) % 97) as f32 / 10.0);
            (DType::F32, vec![5, 12, 16], slice.repeat(5))
        }
        // Multiples of a step, and a few numbers beside them.
        "exceptions" => (
            DType::F32,
            vec![20, 20],
            values(&[20, 20], &|y, x| if y * 20 + x == 133 { 0.1234 } else { (y * 7 + x * 3) as f32 * 0.013 + 250.0 }),
        ),
        "constant" => (DType::U8, vec![3, 3], vec![9; 9]),
        "pcodec" => {
            // Scattered numbers of many magnitudes.
            let bits = |i: u32| (i.wrapping_mul(0x9e37_79b9) >> 9) | (i * i % 7 + 120) << 23 | i << 31;
            (DType::F32, vec![260], (0..260).flat_map(|i| bits(i).to_le_bytes()).collect())
        }
        "brotli" => {
            let words = [&b"fjord"[..], b"knarr", b"sail", b"north", b"stave", b"mast"];
            let text: Vec<u8> = (0..600usize).flat_map(|i| words[i * i % 11 % 6]).copied().collect();
            (DType::U8, vec![2000], text[..2000].to_vec())
        }
        "stored" => (DType::U8, vec![5], vec![1, 200, 3, 90, 17]),
        _ => (
            DType::F64,
            vec![4, 6],
            (0..24u64)
                .flat_map(|i| {
                    [0x7ff8_0000_0000_0000 | i, 0x4000_0000_0000_0000 + i * 12345][usize::from(i % 3 > 0)].to_le_bytes()
                })
                .collect(),
        ),
    }
}

/// Streams written by version 1. They must decode forever; regenerate only with a new version.
const GOLDEN: [(&str, &str); 14] = [
    // A grid body, which the encoder no longer chooses here.
    (
        "doubles",
        "019b01022202393000000000004000e4c02c008004ab15da0401fe02ff01000000000000264000000000000000000000000000003640e200036e060740000000000000f87f030000000000f87f060000000000f87f090000000000f87f0c0000000000f87f0f0000000000f87f120000000000f87f150000000000f87f13fffffbeb42120d60704b4971af86f892b099610cf6b3970092660100804e8083",
    ),
    (
        "pcodec",
        "01a8030370636f2103000841040105030100200820010020000000009016000000001608000000800f040000000031000343e43007df802172781f2070881cde6725e8dd78f8010586c8617e0180de8da71fd060881cee1718e4dd78fc051386c8617fc144de8de75f50c01039fc1740182287ff050fe6ddf87fc14386c80160109177e3011814ccbbf100061286c86180c143de8d27605060881c0e1838e4dd7804060479379e81818321727860709077e321180c18228709060081362c000000bc0006a7e557c893847e46916dc7a8fdb2ca05682568254f3bde8fa9740cda1851ff18f3f4e4cb399cfed393080b1718ae3507aecb021d6ef86164166f395ce963931f150a31a4133ed2a5888e7f4be744935c9b03141cb32f4055b84a283edf54393ddbd6a6675a66dbb12acf4de76b899a38a4471f2f5b3e906cdd9b8cd452178f013b8f21bf40f571812f54d993224507b0fb5e0b32fa4ae7bc31dafb4440e76c0ad2d987eafae3df05000000006545566aca9a58932b7245aee266aacd2e6b645353de4cb5d93553b9e5dd78656d33d566572e79377eade4ddf8356533d5665f0100002a01800000",
    ),
    ("brotli", "012b04b1783e40247aabc7ebbd42a2a3665d0f22cc448669c6062492a396d603f284efb3543e9c1011a857bd00"),
    (
        "decimal",
        "019b0102020100000000bb3b909b9999b93fd6020602ff000000a0aafa464000000000000000000000000000005840ea004fffffb06919b4531736ffffd9df27bd083324570f975a0d5119956d4a8c384ea5c763fd14e8e897563025a8d7ea9a9c8380e4eff78df328d702e249278ce27a96f0df809124e17a7bf4eae7a1e5f1741cea1b440094be1300b9c87d5ff76ce3b9472f68c73869782995105b27",
    ),
    (
        "masked",
        "01950102220500000000666666666666e63f01ecf1b5850602d6020602ff0000006067b5434000000000000000000000000000a06440ea000d08ab3c588ce890d46768b501320026ffffd3909e6b2401ed65f8de547bb13716338c09a5efc1531545f6e478aeb5e0c8a0ce3f1d5a20fed7010027630300e74c620488519fe803caa70c4631b2fe6a24ec81a4fc2495ed1041196b58ca1a8b",
    ),
    (
        "planes",
        "016602020300000000a470bd3eb4069e0102fffe01019ab00501ff0101ffff01000000605555554000000000000000000000000000807340ed0017fffda69040062d909ef93ab9fc76f268cef68e75598c3a10ff671400d293df04681bcedecdb8a76c89b1659f14",
    ),
    (
        "vertices",
        "01920102228055555555b9e056bee7b7c3403333d33fe8ff0080010000000000000100010000000101000000000100ff000000019e0102fffe01010602ff02015002ff000000000000394000000000000000000000000000004940e9000e04c6a4463b63a6e9357694b1ab56001affffdd1d1dadd8993bf8d313ab43c126f1d8025a1b570b8af4440cfe071a17aca21900b7925b23",
    ),
    (
        "integers",
        "019801020180800201a3041a01ff010000000000e0674000000000000000000000000000407940ed002afffebdbcd72101e51e576e42479c4ec822722a53512aea5a87afd49ba7a70ae1a07f33e88780ec52be1334e2d39c0015d0010062777e16b3fa8557874449aeb4a51856039462346b6988847970181a92578860afe65262031695042ec88bc2fdc0e9c475ae39172aa8f0719d6bce850a02",
    ),
    (
        "symmetric",
        "019e0c0260008018790602ff0000000000902c3d236558d4aff1e23fcdd31528877676404c01100000111d9256000000000000000000000002bf7967ffeca91dc187809fffffff2f89e719209feb1887681a431774dad7b7d5776c117553419412280743859b8e4e17abcf8ffb5fee4270b5647dac49da8710d9aee09f5196f7214a431c8d46eaf3e1a0e97ad75803a85c6ae7a2c106965f241863b147152f0c70e64578f7e595184d0bab21e5753736074681a1a1b3fb1e6843a3cbf58085f78217cb7f78c7c4f3f54f2c9b074d231b581b46ab2067306f637b958fef79b5a6d7bef4e44dae4092845622c17552615687cef280df4d72a5a0562eac866cb2619d0dda16153944b96200bb5cf538a840ad204a55eca9860c5cb18f84e8f5852221bc31ec77cbb32fa401ac4210c317c1dbef96675fa8b16d2f354ab3f3834790ea4d3de0d9a8108e6a9260372752ad45005bf1d39227f870bf5b9e7d218d0ab7896eb59a566fc08eb8eca1cd4d41ac2986086d2f08af72a2dfd575f8f9e11ef1e37ec027a6eb85432bda8969e7c43797c1b1fd0d7877aae52f64ebed888a007df52a8c6bdeef0b1e41aa37f5b061a467af958ee70dd81197fdd0e2ec2ab452f4784e7c73199c8956cfc67f33e1354f57a01c1a4320d230416f4104220d13f4d61188344cd05bfc70df2a6405e9026cb30cf8d5273276ab941e7f90d62ea276a306b3931c6efc14f4e758c80559a8067d110bf7026cb30cf8e525a1efa11ad37008a2e2d11a95856ad017b1960ff7ad4256388390d62ea2b63a029186097a009c141277754b4f64ec56293de2c37dab9095af8a670a2e239285fc893b9af07d01b65906fc82522c96ceae9635989de470b317609b65c047f7bbe5d91732cf3fc9347fe00200000000005a7d01e3f44611f44f32cd1f58cb67621b8f6cfcffffffffffbcfd6e79f685400000000000d0d2ab7c4177da44ff24d3fc01ec3c5d81726808000000000068e2c7fd804f2c824790ea4dfde4bda544772500000000000074ed9c9eb0b135ffffffffff9f555fc038bd51411d667d3477b6f42a5fd09d0a0000000000d09d13df5c0627b42cf4e8d1b052f37405caa1f1ffffffffff2706d86619f0b3ffffffffff9f2ae8cfb1902bffffffffff7fda607692c34dffffffffffff8904220d13f4e2ffffffffff2717aa415fc4a20100000000a06c58d4aff132f7ffffffff7fc28123f0073bdeffffffffffc90769ed226ac30000000000504e8c853d3949ffffffffff3f4d417f8e85dcfdffffffffff94856ad017b1fcffffffffff93183bc8683ebe35989de470331916f56bbc2c0000000000d0ffffffffff9f000000000040ffffffffff7f020000000000fdffffffffff090000000000f4ffffffffff270000000000d00000000000a0040000000040070000000080f2ffffffffffdcffffffffffc9ffffffffff73ffffffffff270100000000d00100000000a0000000000040ffffffffff7f020000000000fdffffffffff090000000000f4ffffffffffa7ca67621b8fec99a72b500e8d09441a26e8ad0000000000804e20d230416f0b0000000000bd00db2c037e0900000000003484b47611b50b0000000000d015f4e758c84518aa415fc48231c036cb80df080000000080d61044c5a335e0ffffffffffb9c37dab901596ffffffffff671288344cd0230200000000a04d64ec5629bd50d09f632137a778a6e03222faffffffffffec026cb30cf8010000000000940d662739dc1cc3a27e8d97f5ffffffffffecffffffffff1400000000000d00000000001500000000000d0000000000f5ffffffffffecffffffffffd4be80717aa30e00000000001500000000000d0000000000f5ffffffffffecfffffffffff4ffffffffffecffffffffff1400000000000d000000000065dd9c48b516edfffffffffff4ffffffffffecffffffffff1400000000000d00000000005559e8d1a361f1f92799e60f84ae17d9d9ebfaffffffff7faebe80717aa3050000000040630f8e6b9d790400000000407397c2b76dd5fcffffffff3f871ff7033e310200000000a0c967621b8fec0200000000a0d1ab7c41771afeffffffff9fd783e35a676efeffffffff9fe1c7fd804f9c0200000000a0e90b18a7374affffffffffcff7713fe0130fffffffffffcffc934cf30726010000000050",
    ),
    (
        "repeated",
        "019c010502020100000000bb3b909b9999b93fd6020602ff000000a0aafa464000000000000000000000000000005840ea004fffffb06919b4531736ffffd9df27bd083324570f975a0d5119956d4a8c384ea5c763fd14e8e897563025a8d7ea9a9c8380e4eff78df328d702e249278ce27a96f0df809124e17a7bf4eae7a1e5f1741cea1b440094be1300b9c87d5ff76ce3b9472f68c73869782995105b27",
    ),
    (
        "exceptions",
        "015e02821b000000000000803fa4019e0102fffe01010000004017ab0e410000000080840e4100000000b0d10e41f20006850124b9fc3d0dfffffba111971b6452f4ea306912f9af3300f8f70100ccc568c924fb9670e803a5e973d9d2bc7d3b",
    ),
    ("constant", "01020109"),
    ("stored", "01060001c8035a11"),
    (
        "doubles",
        "016004a1f805002013d7fc4e8c3a2f8a024d7fe0f0dd801a6c24d1a2e9b3819607548b1510ff6ac1d9906dc8d0a3bf3a60fe7f1679cb2b87be837fbcf768bf605d54a0f7b991889f1d25288c9fe1a6be13be4b18f6116612922dd3396abf2ea2d101",
    ),
];

#[test]
fn golden_streams_decode() {
    for (name, hex) in GOLDEN {
        let (dtype, shape, data) = golden_field(name);
        let bytes: Vec<u8> =
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
        let mut out = Vec::new();
        decode(dtype, &shape, &bytes, &mut out).unwrap();
        assert_eq!(out, data, "{name}");
    }
}

/// With `KNARR_WRITE_GOLDEN=1`, prints the streams for the table above.
#[test]
fn golden_streams_can_be_printed() {
    if std::env::var_os("KNARR_WRITE_GOLDEN").is_none() {
        return;
    }
    for (name, _) in GOLDEN {
        let (dtype, shape, data) = golden_field(name);
        let mut out = Vec::new();
        encode(dtype, &shape, &[0x60ad_78ec], &data, &mut out).unwrap();
        println!("GOLD {name} {}", out.iter().map(|b| format!("{b:02x}")).collect::<String>());
    }
}
