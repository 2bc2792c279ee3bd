//! Sets that released versions wrote: every later version restores them.
//!
//! `KNARR_WRITE_GOLDEN=1 cargo one -p knarr-checkpoint golden` writes the set of
//! this version once; what is there is never rewritten.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use knarr_array::array::{ArraySpec, ArrayView, DType, Endian};
use knarr_array::comm::Solo;
use knarr_array::region::Region;
use knarr_array::request::Share;
use knarr_checkpoint::library::{Options, Session, layout};
use knarr_checkpoint::{PackOptions, Scheme, Set, Similarity, Tree, restore};
use knarr_flow::engine::Silent;
use knarr_testing::data::Random;

use crate::common::{Dir, Files, engine, quick, random_file};
use crate::filtered;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/checkpoint-v1").join(name)
}

/// Lanes in blocks, content that repeats, more than one group.
#[test]
fn sets_of_version_1_are_restored() {
    let dir = Dir::new();
    let mut files = Files::default();
    for rank in 0..4 {
        let mut random = Random::new(21 + rank / 3);
        let (bytes, layout) = random_file(&mut random, &["Grid1/u", "Grid2/u", "time", "p"], 1000);
        files.add(&dir, &format!("restart_{rank}.h5"), &bytes, layout);
    }
    let similarity = Similarity::new(&["Grid[0-9]+/(.*)".to_owned()], 100).unwrap();
    let first = PackOptions { scheme: Scheme::AwareBlock, block_size: 16, group_size: 3, similarity, ..quick() };
    let second = PackOptions { base: Some(golden("first")), group_size: 2, ..quick() };
    for (name, options) in [("first", first), ("second", second)] {
        if std::env::var_os("KNARR_WRITE_GOLDEN").is_some() && !golden(name).exists() {
            std::fs::create_dir_all(golden("")).unwrap();
            files.pack(&engine(1), &golden(name), &options).unwrap();
        }
        files.check(&engine(2), &golden(name), &dir);
    }
}

/// Chunks as values: of one and of many pieces, with filters in either order, beside others that are taken as they are.
#[test]
fn sets_of_version_2_are_restored() {
    let dir = Dir::new();
    let files = filtered::program(&dir, 2);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/checkpoint-v2/filtered");
    if std::env::var_os("KNARR_WRITE_GOLDEN").is_some() && !golden.exists() {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        files.pack(&engine(1), &golden, &PackOptions { group_size: 1, ..filtered::options() }).unwrap();
    }
    assert_eq!(std::fs::read(golden.join("manifest.knarr")).unwrap()[7], 2);
    files.check(&engine(2), &golden, &dir);
}

/// Permissions and times, numbers of ranks, links and directories, beside chunks as values.
#[test]
fn sets_of_version_3_are_restored() {
    let dir = Dir::new();
    let mut files = filtered::program(&dir, 2);
    for (input, (number, mode)) in files.inputs.iter_mut().zip([(7, 0o640), (9, 0o755)]) {
        input.number = number;
        std::fs::set_permissions(&input.path, std::fs::Permissions::from_mode(mode)).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000 + number, 123_456_789);
        std::fs::File::options().write(true).open(&input.path).unwrap().set_modified(modified).unwrap();
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/checkpoint-v3/tree");
    let tree = Tree {
        links: vec![(b"latest".to_vec(), b"../elsewhere".to_vec()), (b"sub/up".to_vec(), b"/".to_vec())],
        directories: vec![(b"empty".to_vec(), 0o750), (b"sub".to_vec(), 0o755)],
    };
    if std::env::var_os("KNARR_WRITE_GOLDEN").is_some() && !golden.exists() {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        let options = PackOptions { group_size: 1, attributes: true, ..filtered::options() };
        files.pack_with(&engine(1), &golden, &options, tree.clone()).unwrap();
    }
    assert_eq!(std::fs::read(golden.join("manifest.knarr")).unwrap()[7], 3);
    files.check(&engine(2), &golden, &dir);
    let (engine, out) = (engine(2), dir.join("out"));
    let set = Set::open(&golden, &engine.codecs).unwrap();
    assert_eq!(set.manifest().tree, tree);
    let growing = set.manifest().tree.begin(&out, false).unwrap();
    let restored = restore(&engine, &set, &[0, 1], &out, false, &Silent).unwrap();
    growing.finish().unwrap();
    for ((_, path), (number, mode)) in restored.files.iter().zip([(7, 0o640), (9, 0o755)]) {
        let found = path.metadata().unwrap();
        assert_eq!((found.mtime(), found.mtime_nsec()), (1_700_000_000 + number, 123_456_789));
        assert_eq!(found.permissions().mode() & 0o777, mode);
    }
    assert_eq!(set.manifest().ranks.iter().map(|rank| rank.number).collect::<Vec<_>>(), [7, 9]);
    assert_eq!(std::fs::read_link(out.join("sub/up")).unwrap(), Path::new("/"));
    assert_eq!(out.join("empty").metadata().unwrap().permissions().mode() & 0o777, 0o750);
}

/// A global array in two regions, one of its own in the other byte order, and an empty one.
#[test]
fn array_files_of_version_1_are_as_they_were() {
    let dir = Dir::new();
    let mut options = Options { pack: quick(), ..Options::default() };
    options.resources.spool = Some(dir.join(""));
    let mut session = Session::open(Solo, &dir.join("sets"), Ok((engine(1), options))).unwrap();
    session.begin(300).unwrap();
    let mut put = |name: &str, dtype, endian, shape: &[usize], bytes: &[u8], share| {
        let spec = ArraySpec { endian, ..ArraySpec::new(dtype, shape) };
        session.put(name, &ArrayView::new(&spec, bytes).unwrap(), share).unwrap();
    };
    let (low, high): (Vec<u8>, Vec<u8>) = ((0..24).collect(), (24..48).collect());
    let part = |row: u64| Share::Global { shape: vec![400, 3], region: Region::new([row, 0], [2, 3]) };
    put("grid/T", DType::F32, Endian::Little, &[2, 3], &low, part(10));
    put("own", DType::U16, Endian::Big, &[3], &[0, 1, 0, 2, 0, 3], Share::Own(vec![3]));
    put("none", DType::I64, Endian::Little, &[0, 7], &[], Share::Own(vec![0, 7]));
    put("grid/T", DType::F32, Endian::Little, &[2, 3], &high, part(398));
    session.commit().unwrap();
    let spool = std::fs::read_dir(dir.join("")).unwrap().map(|entry| entry.unwrap().path());
    let mut spools =
        spool.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".knarr-spool.knarr-"));
    let made = spools.next().unwrap().join("arrays");
    let golden = golden("arrays");
    if std::env::var_os("KNARR_WRITE_GOLDEN").is_some() && !golden.exists() {
        std::fs::copy(&made, &golden).unwrap();
    }
    assert!(std::fs::read(&made).unwrap() == std::fs::read(&golden).unwrap());
    let variables = layout(&golden).unwrap().unwrap().variables;
    let found: Vec<_> = variables.iter().map(|v| (v.path.as_str(), v.dtype, v.endian, v.extents.len())).collect();
    let wanted = [("/grid/T", DType::F32, Endian::Little, 2), ("/own", DType::U16, Endian::Big, 1)];
    assert_eq!(found, wanted);
    // The byte order of this machine comes back, whichever was handed over.
    let restart = session.restart(None, true).unwrap().unwrap();
    let mut own = [0; 6];
    restart.read_own("own", 0, &mut own).unwrap();
    let wanted = if cfg!(target_endian = "big") { [0, 1, 0, 2, 0, 3] } else { [1, 0, 2, 0, 3, 0] };
    assert_eq!(own, wanted);
    session.close().unwrap();
}
