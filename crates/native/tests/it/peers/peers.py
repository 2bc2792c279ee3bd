"""The Python side of the exchange test: other implementations write and read chunks.

    peers.py write DIR     files that hold Knarr's chunks: HDF5 (without any filter plugin) and Zarr v3
    peers.py read DIR      reads those files with hdf5plugin and zarr-python, and writes chunks of its own

DIR/cases.json lists the cases. Per case: ID.raw (elements), ID.enc (Knarr's chunk), ID.dec (what Knarr decodes from
it). `read` adds ID.h5chunk and ID.h5values, ID.zchunk and ID.zvalues: a chunk of the peer and what the peer decodes
from it, and DIR/results.json: per case the cd_values in the peer's file and a list of complaints.
"""

import json
import sys
from pathlib import Path

import h5py
import numpy as np

OPTIONAL = h5py.h5z.FLAG_OPTIONAL


def create(file, case, name, pipeline):
    """A dataset of one chunk with exactly this filter pipeline."""
    space = h5py.h5s.create_simple(tuple(case["shape"]))
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(tuple(case["shape"]))
    for entry in pipeline:
        # Optional, so that the library lets a file be made without having the filter.
        plist.set_filter(entry["id"], OPTIONAL, tuple(entry["cd_values"]))
    kind = h5py.h5t.py_create(np.dtype(case["numpy"]), logical=False)
    return h5py.h5d.create(file.id, name.encode(), kind, space, plist)


def write(folder, cases):
    with h5py.File(folder / "knarr.h5", "w") as file:
        for case in cases:
            if case["hdf5"] is not None:
                dataset = create(file, case, case["id"], case["hdf5"])
                chunk = (folder / f"{case['id']}.enc").read_bytes()
                dataset.write_direct_chunk((0,) * len(case["shape"]), chunk)
    for case in cases:
        if case["zarr"] is not None:
            array = zarr_array(folder, case, "knarr")
            chunk = array.joinpath("c", *["0"] * len(case["shape"]))
            chunk.parent.mkdir(parents=True)
            chunk.write_bytes((folder / f"{case['id']}.enc").read_bytes())


def zarr_array(folder, case, who):
    array = folder / "zarr" / who / case["id"]
    array.mkdir(parents=True)
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": case["shape"],
        "data_type": np.dtype(case["numpy"]).name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": case["shape"]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": case["zarr"],
        "attributes": {},
    }
    (array / "zarr.json").write_text(json.dumps(metadata))
    return array


def read(folder, cases):
    import hdf5plugin
    import zarr

    results = {}
    with h5py.File(folder / "knarr.h5") as ours, h5py.File(folder / "peer.h5", "w") as theirs:
        for case in cases:
            name = case["id"]
            complaints = []
            result = {"cd_values": None, "complaints": complaints}
            results[name] = result
            raw = np.frombuffer((folder / f"{name}.raw").read_bytes(), case["numpy"]).reshape(case["shape"])
            decoded = (folder / f"{name}.dec").read_bytes()
            if case["hdf5"] is not None:
                try:
                    if ours[name][()].tobytes() != decoded:
                        complaints.append("HDF5 reads other values")
                except OSError as error:
                    complaints.append(f"HDF5 cannot read Knarr's chunk: {error}")
                try:
                    result["cd_values"] = peer_chunk(folder, theirs, case, raw, hdf5plugin)
                except (OSError, ValueError, RuntimeError) as error:
                    complaints.append(f"HDF5 cannot write with these settings: {error}")
            if case["zarr"] is not None:
                try:
                    path = folder / "zarr" / "knarr" / name
                    if zarr.open_array(path, mode="r")[...].tobytes() != decoded:
                        complaints.append("zarr-python reads other values")
                    path = zarr_array(folder, case, "peer")
                    array = zarr.open_array(path, mode="r+")
                    array[...] = raw
                    chunk = path.joinpath("c", *["0"] * len(case["shape"]))
                    (folder / f"{name}.zchunk").write_bytes(chunk.read_bytes())
                    (folder / f"{name}.zvalues").write_bytes(array[...].tobytes())
                except Exception as error:  # any failure of the peer is a result
                    complaints.append(f"zarr-python: {error!r}")
    (folder / "results.json").write_text(json.dumps(results))


def peer_chunk(folder, file, case, raw, hdf5plugin):
    """Has HDF5 itself write the values; returns the cd_values per filter that its file then holds."""
    name = case["id"]
    if case["peer"] is not None:
        arguments = eval(case["peer"], {"hdf5plugin": hdf5plugin})  # written by the Rust test
        file.create_dataset(name, data=raw, chunks=tuple(case["shape"]), compression=arguments)
    else:
        dataset = create(file, case, name, case["hdf5"])
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(raw))
    dataset = file[name].id
    file.flush()
    mask, chunk = dataset.read_direct_chunk((0,) * len(case["shape"]))
    if mask:
        return None  # the filter declined and the chunk is stored as it is: nothing to decode
    (folder / f"{name}.h5chunk").write_bytes(chunk)
    (folder / f"{name}.h5values").write_bytes(file[name][()].tobytes())
    plist = dataset.get_create_plist()
    return [list(plist.get_filter(index)[2]) for index in range(plist.get_nfilters())]


def main():
    command, folder = sys.argv[1], Path(sys.argv[2])
    cases = json.loads((folder / "cases.json").read_text())
    {"write": write, "read": read}[command](folder, cases)


main()
