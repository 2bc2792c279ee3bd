//! Files with chunks that went through filters: packed as their values where these lead back to the same bytes.

use std::path::Path;
use std::sync::Arc;

use knarr_array::array::{ArraySpec, ArrayView, DType, Endian};
use knarr_array::comm::Solo;
use knarr_array::filter::Hdf5Filter;
use knarr_array::{Error, ErrorKind};
use knarr_checkpoint::layout::{Extent, FileLayout, StoredVariable};
use knarr_checkpoint::manifest::Manifest;
use knarr_checkpoint::{PackOptions, Packed, Scheme, Set, extract, library, restore};
use knarr_codec::chain::{Chain, Scratch};
use knarr_codec::codec::CodecList;
use knarr_flow::engine::{Engine, Silent};
use knarr_testing::data::Random;

use crate::common::{Dir, Files, bytes, engine, restore_all};

fn filter(id: u32, cd_values: &[u32]) -> Hdf5Filter {
    Hdf5Filter { id, optional: false, cd_values: cd_values.to_vec() }
}

fn shuffle() -> Hdf5Filter {
    filter(2, &[8])
}

fn fletcher32() -> Hdf5Filter {
    filter(3, &[])
}

/// A variable of chunks of `rows` rows of 100 numbers, each with its own filters.
struct Field {
    path: &'static str,
    rows: u64,
    chunks: Vec<Vec<Hdf5Filter>>,
}

/// Numbers that are like those of the other ranks.
fn values(rank: u64, chunk: u64, rows: u64) -> Vec<u8> {
    #[expect(clippy::cast_precision_loss, reason = "test data")]
    let value = |i: u64| ((i + 7 * rank) as f64 / 300.0).sin() * 100.0;
    (0..rows * 100).map(|i| value(chunk * rows * 100 + i).round() / 8.0).flat_map(f64::to_le_bytes).collect()
}

/// A file with fields, whose chunks lie in turn and with something between them, and the values of the fields.
fn file(rank: u64, fields: &[Field]) -> (Vec<u8>, FileLayout, Vec<Vec<u8>>) {
    let codecs = CodecList::pure();
    let mut random = Random::new(rank);
    let mut bytes: Vec<u8> = (0..50 + 10 * rank).map(|i| i.to_le_bytes()[0]).collect();
    let (mut extents, mut all) = (vec![Vec::new(); fields.len()], vec![Vec::new(); fields.len()]);
    for chunk in 0..fields.iter().map(|field| field.chunks.len()).max().unwrap() {
        for (number, field) in fields.iter().enumerate() {
            let Some(filters) = field.chunks.get(chunk) else { continue };
            let values = values(rank, chunk as u64, field.rows);
            let spec = ArraySpec::new(DType::F64, [values.len() / 8]);
            let mut stored = Vec::new();
            let chain = Chain::from_hdf5(&codecs, filters, &spec).unwrap();
            chain.encode(&values, &mut Scratch::default(), &mut stored).unwrap();
            bytes.extend((0..random.below(30)).map(|_| 7));
            extents[number].push(Extent {
                offset: bytes.len() as u64,
                length: stored.len() as u64,
                shape: [field.rows, 100].into(),
                filters: filters.as_slice().into(),
            });
            bytes.extend_from_slice(&stored);
            all[number].extend(values);
        }
    }
    bytes.extend([9; 33]);
    let variables = fields.iter().zip(extents).map(|(field, extents)| StoredVariable {
        path: field.path.to_owned(),
        dtype: DType::F64,
        endian: Endian::Little,
        shape: vec![field.rows * extents.len() as u64, 100],
        extents,
    });
    let layout = FileLayout { format: "test".to_owned(), length: bytes.len() as u64, variables: variables.collect() };
    (bytes, layout, all)
}

/// Chunks of one and of many pieces, some with fewer filters than others, none, or all in another order.
fn fields() -> Vec<Field> {
    let both = vec![shuffle(), fletcher32()];
    vec![
        Field { path: "/large", rows: 400, chunks: vec![both.clone(); 3] },
        Field { path: "/mixed", rows: 50, chunks: vec![both.clone(), vec![], vec![shuffle()], vec![fletcher32()]] },
        Field { path: "/order", rows: 10, chunks: vec![vec![fletcher32(), shuffle()]; 5] },
        Field { path: "/bare", rows: 20, chunks: vec![vec![]; 2] },
    ]
}

/// The files of a program.
pub(crate) fn program(dir: &Dir, ranks: u64) -> Files {
    let mut files = Files::default();
    for rank in 0..ranks {
        let (bytes, layout, _) = file(rank, &fields());
        files.add(dir, &format!("restart_{rank}.h5"), &bytes, layout);
    }
    files
}

/// Options with a goal that has chunks taken as their values.
pub(crate) fn options() -> PackOptions {
    PackOptions { goal: "ratio".parse().unwrap(), ..PackOptions::default() }
}

/// Chunks that each rank of a set has as their values.
fn unfiltered(packed: &Packed) -> Vec<usize> {
    packed.manifest.ranks.iter().map(|rank| rank.layout.unfiltered().0).collect()
}

fn version(dir: &Dir, set: &str) -> u8 {
    std::fs::read(dir.join(set).join("manifest.knarr")).unwrap()[7]
}

#[test]
fn files_come_back_byte_for_byte_in_every_scheme() {
    let dir = Dir::new();
    let files = program(&dir, 5);
    let raw: u64 = files.inputs.iter().map(|input| input.path.metadata().unwrap().len()).sum();
    for scheme in
        [Scheme::Agnostic, Scheme::AgnosticBlock, Scheme::Aware, Scheme::AwareBlock, Scheme::Separate, Scheme::Auto]
    {
        let set = dir.join(&scheme.to_string());
        let packed = files.pack(&engine(2), &set, &PackOptions { scheme, group_size: 3, ..options() }).unwrap();
        // All but the two that are not filtered; whole files are taken as they are.
        let wanted = if scheme.is_aware() { 3 + 3 + 5 } else { 0 };
        assert_eq!(unfiltered(&packed), [wanted; 5], "{scheme}");
        assert_eq!(version(&dir, &scheme.to_string()), if wanted > 0 { 2 } else { 1 });
        assert_eq!(packed.raw_bytes, raw);
        assert_eq!(*Set::open(&set, &engine(1).codecs).unwrap().manifest(), packed.manifest);
        files.check(&engine(2), &set, &dir);
    }
}

#[test]
fn goals_that_want_speed_and_unfiltered_files_give_sets_of_version_1() {
    let dir = Dir::new();
    let files = program(&dir, 2);
    let packed = files.pack(&engine(2), &dir.join("fast"), &crate::common::quick()).unwrap();
    assert_eq!((unfiltered(&packed), version(&dir, "fast")), (vec![0, 0], 1));
    files.check(&engine(2), &dir.join("fast"), &dir);
    let mut bare = Files::default();
    let (bytes, layout, _) = file(0, &fields()[3..]);
    bare.add(&dir, "bare", &bytes, layout);
    bare.pack(&engine(2), &dir.join("bare"), &options()).unwrap();
    assert_eq!(version(&dir, "bare"), 1);
}

#[test]
fn like_values_are_merged_whatever_filters_they_went_through() {
    let dir = Dir::new();
    let mut files = Files::default();
    for (rank, filters) in [vec![], vec![shuffle()], vec![shuffle(), fletcher32()]].into_iter().enumerate() {
        let (bytes, layout, _) = file(0, &[Field { path: "/u", rows: 300, chunks: vec![filters; 4] }]);
        files.add(&dir, &rank.to_string(), &bytes, layout);
    }
    let packed = files.pack(&engine(2), &dir.join("set"), &options()).unwrap();
    let keys: Vec<&str> = packed.manifest.classes.iter().map(String::as_str).collect();
    assert!(keys.contains(&"u_f64le_2d") && !keys.contains(&"compressed"), "{keys:?}");
    // The values of the three files are the same, and stored once.
    assert!(packed.repeated_bytes >= 2 * 4 * 300 * 100 * 8, "{}", packed.repeated_bytes);
    files.check(&engine(2), &dir.join("set"), &dir);
}

#[test]
fn chunks_that_do_not_come_out_the_same_are_taken_as_they_are() {
    let dir = Dir::new();
    let mut files = Files::default();
    let add = |files: &mut Files, name: &str, change: &dyn Fn(&mut [u8], &mut FileLayout)| {
        let (mut bytes, mut layout, _) = file(1, &fields());
        change(&mut bytes, &mut layout);
        files.add(&dir, name, &bytes, layout);
    };
    let inside = |layout: &FileLayout, variable: usize, chunk: usize| {
        let extent = &layout.variables[variable].extents[chunk];
        usize::try_from(extent.offset + extent.length / 2).unwrap()
    };
    // A damaged value: the checksum is not its own.
    add(&mut files, "damaged", &|bytes, layout| bytes[inside(layout, 0, 2)] ^= 1);
    // A checksum as old versions of HDF5 wrote it, which reads and is not written any more.
    add(&mut files, "old", &|bytes, layout| {
        let extent = &layout.variables[0].extents[0];
        let end = usize::try_from(extent.offset + extent.length).unwrap();
        bytes.swap(end - 4, end - 3);
        bytes.swap(end - 2, end - 1);
    });
    // Filters that nobody knows, or that do not have the same result each time.
    add(&mut files, "unknown", &|_, layout| {
        layout.variables[0].extents.iter_mut().for_each(|extent| extent.filters = [filter(32015, &[3])].into());
    });
    // A chunk of another length than its shape says.
    add(&mut files, "shape", &|_, layout| {
        layout.variables[0].extents.iter_mut().for_each(|extent| extent.shape = [401, 100].into());
    });
    let packed = files.pack(&engine(2), &dir.join("set"), &options()).unwrap();
    // Those of the other variables are taken as their values.
    assert_eq!(unfiltered(&packed), [3 + 5; 4]);
    files.check(&engine(2), &dir.join("set"), &dir);
}

#[test]
fn threads_and_memory_do_not_change_what_comes_back() {
    let dir = Dir::new();
    let files = program(&dir, 6);
    let mut first: Option<Vec<(String, Vec<u8>)>> = None;
    for jobs in [1, 2, 5] {
        let set = format!("set{jobs}");
        files.pack(&engine(jobs), &dir.join(&set), &PackOptions { group_size: 4, ..options() }).unwrap();
        let found = bytes(&dir, &set);
        assert!(*first.get_or_insert_with(|| found.clone()) == found, "{jobs} threads");
    }
    // As little memory as there may be: nothing is kept of decoded chunks that are longer than it allows.
    let small = Engine { max_mem: 96 << 20, ..engine(3) };
    files.pack(&small, &dir.join("small"), &options()).unwrap();
    files.check(&small, &dir.join("small"), &dir);
}

#[test]
fn what_an_earlier_set_holds_is_found_again() {
    let dir = Dir::new();
    let files = program(&dir, 4);
    let first = files.pack(&engine(2), &dir.join("one"), &options()).unwrap();
    let again = PackOptions { base: Some(dir.join("one")), ..options() };
    let second = files.pack(&engine(2), &dir.join("two"), &again).unwrap();
    assert!(second.packed_bytes < first.packed_bytes / 2, "{} of {}", second.packed_bytes, first.packed_bytes);
    std::fs::remove_dir_all(dir.join("one")).unwrap();
    files.check(&engine(2), &dir.join("two"), &dir);
}

#[test]
fn single_ranks_and_variables_are_restored() {
    let dir = Dir::new();
    let files = program(&dir, 4);
    files.pack(&engine(2), &dir.join("set"), &options()).unwrap();
    let set = Set::open(&dir.join("set"), &engine(1).codecs).unwrap();
    let restored = restore(&engine(2), &set, &[2], &dir.join("one"), false, &Silent).unwrap();
    assert!(restored.damage.is_empty() && dir.names("one") == ["restart_2.h5"]);
    let names = ["large".to_owned(), "mixed".to_owned()];
    let found = extract(&engine(2), &set, &[1, 3], &names, &dir.join("values"), false, &Silent).unwrap();
    assert!(found.damage.is_empty() && found.files.len() == 4);
    for (rank, path, npy) in found.files {
        let (_, layout, values) = file(rank as u64, &fields());
        let number = layout.variables.iter().position(|variable| variable.path == path).unwrap();
        assert!(std::fs::read(npy).unwrap().ends_with(&values[number]), "{path} of {rank}");
    }
}

#[test]
fn every_flipped_byte_is_noticed_or_harmless() {
    let dir = Dir::new();
    let mut files = Files::default();
    let one = [Field { path: "/u", rows: 1, chunks: vec![vec![shuffle(), fletcher32()]; 2] }];
    for rank in 0..2 {
        let (bytes, layout, _) = file(rank, &one);
        files.add(&dir, &format!("r{rank}"), &bytes, layout);
    }
    let set = dir.join("set");
    files.pack(&engine(1), &set, &PackOptions { group_size: 1, ..options() }).unwrap();
    for name in dir.names("set") {
        let path = set.join(&name);
        let good = std::fs::read(&path).unwrap();
        for place in 0..good.len() {
            let mut bad = good.clone();
            // Version 2 of the manifest becomes 1.
            bad[place] ^= 3;
            std::fs::write(&path, &bad).unwrap();
            let out = dir.join("out");
            let restored = match restore_all(&engine(1), &set, &out) {
                Ok(restored) => restored,
                // The version of the frame is not that of the manifest.
                Err(error) => {
                    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("version"), "{error}");
                    continue;
                }
            };
            assert!(restored.damage.is_empty() || name.starts_with("group-"), "byte {place} of {name}");
            assert_eq!(restored.files.len() + restored.damage.len(), 2, "byte {place}");
            for (rank, path) in restored.files {
                let original = std::fs::read(&files.inputs[rank].path).unwrap();
                assert!(std::fs::read(path).unwrap() == original, "byte {place}");
            }
            std::fs::remove_dir_all(&out).unwrap();
        }
        std::fs::write(&path, &good).unwrap();
    }
    files.check(&engine(1), &set, &dir);
}

#[test]
fn forged_manifests_are_refused() {
    let dir = Dir::new();
    let good = program(&dir, 2).pack(&engine(1), &dir.join("set"), &options()).unwrap().manifest;
    let whole = Manifest::body(&good).unwrap();
    assert!(whole[0] == 2 && Manifest::read_body(&whole).unwrap() == good);
    let mut later = whole.clone();
    for version in [0, 1, 3] {
        later[0] = version;
        assert_eq!(Manifest::read_body(&later).unwrap_err().kind(), ErrorKind::Corrupt, "version {version}");
    }
    for place in 1..whole.len() {
        assert!(Manifest::read_body(&whole[..place]).is_err(), "cut at {place}");
        for change in [1, 0x40, 0xFF] {
            let mut changed = whole.clone();
            changed[place] ^= change;
            // An error or another manifest, which can be written and read: never a panic.
            if let Ok(other) = Manifest::read_body(&changed) {
                let again = Manifest::read_body(&Manifest::body(&other).unwrap()).unwrap();
                assert!(again.ranks == other.ranks && again.stores == other.stores, "byte {place}");
            }
        }
    }
}

/// What another checksum or another zlib would do: the file is not written, and the variable is named.
#[test]
fn chunks_that_come_out_otherwise_are_damage() {
    let dir = Dir::new();
    let mut files = Files::default();
    let (bytes, layout, _) = file(0, &fields());
    files.add(&dir, "r0", &bytes, layout);
    let packed = files.pack(&engine(1), &dir.join("set"), &options()).unwrap();
    let whole = Manifest::body(&packed.manifest).unwrap();
    let one = br#"{"id":2,"optional":false,"cd_values":[8]}"#;
    let place = whole.windows(one.len()).position(|window| window == one).unwrap();
    let outcome = |from: &[u8], to: &[u8]| {
        let mut changed = whole.clone();
        let at = place + one.windows(from.len()).position(|window| window == from).unwrap();
        changed[at..at + to.len()].copy_from_slice(to);
        let manifest = Manifest::read_body(&changed).unwrap();
        let set = dir.join(&format!("changed-{}", u8::from(to == b"4")));
        write(&dir, &set, &manifest);
        let restored = restore_all(&engine(1), &set, &dir.join("out")).unwrap();
        assert!(restored.files.is_empty() && dir.names("out").is_empty());
        let [damage] = restored.damage.try_into().unwrap();
        let text = Error::to_string(&damage.error);
        (damage.variables, text)
    };
    // Chunks as long as before are found by the hash of the file.
    let (variables, error) = outcome(b"8", b"4");
    assert!(variables.contains(&"/large".to_owned()) && error.contains("the hash of the original"), "{error}");
    // A filter that is not known here, as without the codecs of foreign libraries.
    let (variables, error) = outcome(b"2", b"1");
    assert!(!variables.is_empty() && error.contains("filters of a chunk are not known"), "{error}");
}

/// The set `set` again, with another manifest.
fn write(dir: &Dir, target: &Path, manifest: &knarr_checkpoint::manifest::Manifest) {
    std::fs::create_dir_all(target).unwrap();
    for name in dir.names("set") {
        std::fs::copy(dir.join("set").join(&name), target.join(&name)).unwrap();
    }
    let file = manifest.write(&CodecList::pure()).unwrap();
    std::fs::write(target.join("manifest.knarr"), file).unwrap();
}

#[test]
fn files_may_share_a_layout() {
    let dir = Dir::new();
    let mut files = Files::default();
    let (bytes, layout, _) = file(3, &fields());
    for rank in 0..3 {
        files.add(&dir, &rank.to_string(), &bytes, layout.clone());
    }
    let packed = files.pack(&engine(2), &dir.join("set"), &options()).unwrap();
    let [first, others @ ..] = packed.manifest.ranks.as_slice() else { unreachable!() };
    assert!(others.iter().all(|rank| Arc::ptr_eq(&rank.layout, &first.layout)));
    files.check(&engine(2), &dir.join("set"), &dir);
}

/// Files that a program adds are packed like those that a command is given.
#[test]
fn added_files_come_back() {
    let dir = Dir::new();
    let (bytes, ..) = file(0, &fields());
    std::fs::write(dir.join("extra.h5"), &bytes).unwrap();
    let find = |path: &Path| match library::layout(path)? {
        Some(layout) => Ok(layout),
        None => Ok(file(0, &fields()).1),
    };
    let mut how = library::Options { pack: options(), find, ..library::Options::default() };
    how.resources.spool = Some(dir.join(""));
    let mut session = library::Session::open(Solo, &dir.join("sets"), Ok((engine(1), how))).unwrap();
    session.begin(7).unwrap();
    let spec = ArraySpec::new(DType::F64, [100]);
    let own = values(0, 0, 1);
    session.put("T", &ArrayView::new(&spec, &own).unwrap(), knarr_array::request::Share::Own(vec![100])).unwrap();
    session.add_file(&dir.join("extra.h5"), "extra.h5").unwrap();
    session.commit().unwrap();
    session.wait().unwrap();
    let set = Set::open(&dir.join("sets/step_7"), &engine(1).codecs).unwrap();
    assert_eq!(set.manifest().ranks.iter().map(|rank| rank.layout.unfiltered().0).sum::<usize>(), 3 + 3 + 5);
    let restart = session.restart(None, true).unwrap().unwrap();
    let [restored] = restart.restore_files(&dir.join("out"), (0, 1), false).unwrap().try_into().unwrap();
    assert!(std::fs::read(restored).unwrap() == bytes);
    session.close().unwrap();
}
