//! Sources and sinks: HDF5/netCDF-4, classic netCDF, Zarr.

pub mod hdf5;
