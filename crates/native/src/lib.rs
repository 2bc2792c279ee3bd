//! Codecs that wrap C libraries, and the loader of installed HDF5 filter plugins: unsafe code lives here.
