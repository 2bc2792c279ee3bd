//! A test for the references of HDF5 1.12, which h5py cannot write.

use hdf5_metno_sys::h5d::H5Dwrite;
use hdf5_metno_sys::h5p::H5P_DEFAULT;
use hdf5_metno_sys::h5r::{
    H5R_ref_t, H5R_type_t, H5Rcreate_attr, H5Rcreate_object, H5Rcreate_region, H5Rdestroy, H5Rget_attr_name,
    H5Rget_obj_name, H5Rget_type, H5Ropen_region,
};
use hdf5_metno_sys::h5s::{H5S_ALL, H5Sget_select_npoints};

use crate::sys::*;
use crate::{Hdf5Sink, Hdf5Source, SinkOptions};
use knarr_array::array::{DType, Endian};
use knarr_array::libver::{LibverBounds, Release};
use knarr_array::region::Region;
use knarr_flow::store::{Sink, Source};

/// A file with references to a dataset, a region of it, and an attribute of it, and one null reference.
fn write(path: &std::path::Path) {
    let lcpl = Plist::for_link(false).unwrap();
    let dcpl = Plist::for_dataset().unwrap();
    let file = File::create(
        path,
        &Plist::for_file().unwrap(),
        LibverBounds::default().with(Some(Release::V18), None).unwrap(),
        0,
    )
    .unwrap();
    let root = file.root().unwrap();
    let number = Datatype::of(DType::I32, Endian::Little).unwrap();
    let space = Space::simple(&[10], &[]).unwrap();
    // Something in front, so that addresses differ from those of the copy.
    root.create_dataset(b"aaa", &number, &space, &lcpl, &dcpl).unwrap().0.set_comment(b"first").unwrap();
    let target = root.create_dataset(b"target", &number, &space, &lcpl, &dcpl).unwrap();
    target.0.create_attribute(b"note", &number, &Space::scalar().unwrap(), None).unwrap();
    let datatype = Datatype::reference(ReferenceKind::Modern).unwrap();
    let references = Space::simple(&[4], &[]).unwrap();
    let dataset = root.create_dataset(b"references", &datatype, &references, &lcpl, &dcpl).unwrap();
    let mut values = [H5R_ref_t::default(); 4];
    let part = space.select(&Region::new([2], [5])).unwrap();
    let (id, name) = (file.0.raw(), c"/target".as_ptr());
    call("make references", || {
        // SAFETY: the file is open, names are NUL-terminated, `values` has room for the references.
        unsafe {
            H5Rcreate_object(id, name, H5P_DEFAULT, &raw mut values[0])
                .min(H5Rcreate_region(id, name, part.0.raw(), H5P_DEFAULT, &raw mut values[1]))
                .min(H5Rcreate_attr(id, name, c"note".as_ptr(), H5P_DEFAULT, &raw mut values[2]))
        }
    })
    .unwrap();
    // SAFETY: `values` holds the four elements of the dataset.
    call("write references", || unsafe {
        H5Dwrite(dataset.0.0.raw(), datatype.0.raw(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.as_ptr().cast())
    })
    .unwrap();
    for value in values.iter_mut().take(3) {
        // SAFETY: each reference was made above and is released once; until then it keeps the file open.
        locked(|| unsafe { H5Rdestroy(value) });
    }
    drop((target, dataset, root));
    file.close().unwrap();
}

#[test]
fn modern_references_are_translated() {
    let folder = std::env::temp_dir().join(format!("knarr-references-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (input, output) = (folder.join("in.h5"), folder.join("out.h5"));
    std::fs::write(&input, "").unwrap();
    write(&input);
    let source = Hdf5Source::open(&input, Box::new(|_: &[_], _: &_| None)).unwrap();
    let mut sink = Hdf5Sink::create(&output, source.model(), &[], SinkOptions::default()).unwrap();
    sink.copy_from(&source).unwrap();
    Box::new(sink).commit().unwrap();
    drop(source);
    std::fs::remove_file(&input).unwrap();
    let file = File::open(&output, true).unwrap();
    let dataset = file.object_at_path(b"/references").unwrap().into_dataset().unwrap();
    let memory = dataset.read_memory(&Region::new([0], [4])).unwrap();
    let element = |n: usize| memory.bytes()[n * 64..].as_ptr().cast::<H5R_ref_t>();
    for (n, kind) in
        [H5R_type_t::H5R_OBJECT2, H5R_type_t::H5R_DATASET_REGION2, H5R_type_t::H5R_ATTR].into_iter().enumerate()
    {
        // SAFETY: the element is a reference read from the open file, here and below.
        assert_eq!(locked(|| unsafe { H5Rget_type(element(n)) }), kind);
        // SAFETY: as above.
        let name =
            read_string("read", |buffer, size| unsafe { H5Rget_obj_name(element(n), H5P_DEFAULT, buffer, size) });
        assert_eq!(name.unwrap(), b"/target");
    }
    // SAFETY: as above.
    let region = made("read", || unsafe { H5Ropen_region(element(1), H5P_DEFAULT, H5P_DEFAULT) }).unwrap();
    // SAFETY: the space is open.
    assert_eq!(locked(|| unsafe { H5Sget_select_npoints(region.raw()) }), 5);
    // SAFETY: as above.
    let name = read_string("read", |buffer, size| unsafe { H5Rget_attr_name(element(2), buffer, size) });
    assert_eq!(name.unwrap(), b"note");
    drop((region, memory, dataset, file));
    std::fs::remove_dir_all(&folder).unwrap();
}
