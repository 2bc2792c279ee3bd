//! From one format to another.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::common::{Folder, open, region, writers};
use knarr_array::model::{AttributeValue, Variable};
use knarr_array::region::Region;
use knarr_flow::store::{Sink, Source};
use knarr_formats::hdf5::{Hdf5Sink, SinkOptions};
use knarr_formats::zarr::{ZarrOptions, ZarrSink};

/// Bytes of `_FillValue`: netCDF-4 knows no attributes of a single value, only arrays of one.
fn fill(variable: &Variable) -> Option<&[u8]> {
    match variable.attribute("_FillValue") {
        Some(AttributeValue::Numbers { bytes, .. }) => Some(bytes),
        _ => None,
    }
}

fn same(a: &dyn Source, b: &dyn Source, place: &str) {
    for (index, info) in a.model().variables.iter().enumerate() {
        let place = format!("{place} {}", info.path);
        let other = b.model().variables.iter().position(|variable| variable.path == info.path);
        let other = other.unwrap_or_else(|| panic!("{place} is missing"));
        let copy = &b.model().variables[other];
        assert_eq!((&copy.shape, &copy.dimensions), (&info.shape, &info.dimensions), "{place}");
        if info.dtype.is_number() {
            assert_eq!((copy.dtype, copy.padding), (info.dtype, info.padding), "{place}");
            let whole = Region::whole(&info.shape);
            assert!(region(a, index, &whole) == region(b, other, &whole), "{place}");
            assert_eq!(fill(copy), fill(info), "{place}");
            assert_eq!(copy.attribute("units"), info.attribute("units"), "{place}");
        }
    }
}

#[test]
fn values_and_names_survive_every_way() {
    let scratch = Folder::new();
    let dir = |name: &str| {
        let dir = scratch.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        dir
    };
    let (classic, zarr) = (dir("classic"), dir("zarr"));
    writers(&["classic", classic.to_str().unwrap()]);
    writers(&["zarr", zarr.to_str().unwrap()]);
    let inputs = [
        classic.join("all_NETCDF3_64BIT_DATA.nc"),
        classic.join("records.nc"),
        classic.join("empty_NETCDF3_CLASSIC.nc"),
        zarr.join("xarray_v2.zarr"),
        zarr.join("xarray_v3.zarr"),
    ];
    for (number, input) in inputs.iter().enumerate() {
        let place = input.display().to_string();
        let source = open(input).unwrap();
        let nc = scratch.path().join(format!("{number}.nc"));
        let mut sink = Hdf5Sink::create(&nc, source.model(), &[], SinkOptions::default()).unwrap();
        sink.copy_from(&*source).unwrap();
        Box::new(sink).commit().unwrap();
        let nc = open(&nc).unwrap();
        same(&*source, &*nc, &format!("{place} to netCDF-4"));
        let store = scratch.path().join(format!("{number}.zarr"));
        let mut sink = ZarrSink::create(&store, nc.model(), &[], ZarrOptions::default()).unwrap();
        sink.copy_from(&*nc).unwrap();
        Box::new(sink).commit().unwrap();
        same(&*nc, &*open(&store).unwrap(), &format!("{place} to netCDF-4 to Zarr"));
    }
}
