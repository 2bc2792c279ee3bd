"""Where h5py says that values lie in HDF5 files. Arguments: FILE...

Prints a list with, for each file, path -> type, byte order, shape and pieces (offset, length, filter numbers) of every
dataset that has bytes of its own.
"""

import itertools
import json
import pathlib
import sys

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
from h5py import h5d, h5t

NUMBERS = {
    (f"{kind}{8 * size}", order): getattr(h5t, f"{'IEEE' if kind == 'f' else 'STD'}_{kind.upper()}{8 * size}{order}")
    for order in ("LE", "BE")
    for kind, sizes in (("i", (1, 2, 4, 8)), ("u", (1, 2, 4, 8)), ("f", (2, 4, 8)))
    for size in sizes
}


def number(tid):
    """Name and byte order of the standard numbers that an element consists of; None for all else."""
    if isinstance(tid, h5t.TypeEnumID | h5t.TypeArrayID):
        return number(tid.get_super())
    if isinstance(tid, h5t.TypeCompoundID):
        members = [(tid.get_member_offset(n), tid.get_member_type(n)) for n in range(tid.get_nmembers())]
        kinds = {number(member) for _, member in members}
        ends = np.cumsum([0] + [member.get_size() for _, member in members]).tolist()
        without_gaps = [offset for offset, _ in members] + [tid.get_size()] == ends
        return kinds.pop() if len(kinds) == 1 and without_gaps else None
    found = [key for key, standard in NUMBERS.items() if tid.equal(standard)]
    return found[0] if found else None


def datasets(file):
    """Every dataset, by the first of its names."""
    names, groups, queue = {}, {h5py.h5o.get_info(file.id).addr}, [file]
    while queue:
        group = queue.pop(0)
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            path = f"{group.name.rstrip('/')}/{name.removeprefix('_nc4_non_coord_')}"
            if isinstance(item, h5py.Dataset):
                if address not in names or path < names[address][0]:
                    names[address] = (path, item)
            elif isinstance(item, h5py.Group) and address not in groups:
                groups.add(address)
                queue.append(item)
    return dict(names.values())


def chunks(dataset):
    """(first element, what HDF5 says) of each chunk.

    HDF5 lists chunks at wrong places where the one unlimited axis is not the first, in the order of the index, which
    has that axis slowest. Reads of single chunks are right, and tell which of the listed ones lies where.
    """
    listed = [dataset.id.get_chunk_info(n) for n in range(dataset.id.get_num_chunks())]
    unlimited = [axis for axis, most in enumerate(dataset.maxshape) if most is None]
    if len(unlimited) != 1 or unlimited == [0]:
        return [(info.chunk_offset, info) for info in listed]
    data = pathlib.Path(dataset.file.filename).read_bytes()
    starts = [range(0, size, chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True)]
    placed = []
    for start in sorted(itertools.product(*starts), key=lambda start: (start[unlimited[0]], start)):
        try:
            mask, stored = dataset.id.read_direct_chunk(start)
        except (OSError, RuntimeError):
            continue
        bodies = [(info.filter_mask, data[info.byte_offset :][: info.size]) for info in listed]
        placed.append((start, listed.pop(bodies.index((mask, bytes(stored))))))
    return placed


def pieces(dataset):
    """(offset, length, filter numbers) of each piece, in row-major order."""
    plist = dataset.id.get_create_plist()
    if plist.get_layout() == h5d.CONTIGUOUS:
        if plist.get_external_count() or dataset.id.get_offset() is None or dataset.id.get_storage_size() == 0:
            return []
        return [(dataset.id.get_offset(), dataset.id.get_storage_size(), [])]
    if plist.get_layout() != h5d.CHUNKED:
        return []
    filters = [plist.get_filter(n)[0] for n in range(plist.get_nfilters())]
    # The one file with this option; h5py cannot tell.
    bare_edges = dataset.file.filename.endswith("edges.h5")
    found = []
    for start, info in chunks(dataset):
        if any(at >= size for at, size in zip(start, dataset.shape, strict=True)):
            continue
        axes = zip(start, dataset.chunks, dataset.shape, strict=True)
        clipped = any(at + c > n for at, c, n in axes)
        applied = [f for n, f in enumerate(filters) if not info.filter_mask >> n & 1]
        found.append((start, info.byte_offset, info.size, [] if bare_edges and clipped else applied))
    return [piece for _, *piece in sorted(found)]


def describe(path):
    variables = {}
    with h5py.File(path) as file:
        for name, dataset in datasets(file).items():
            tid = dataset.id.get_type()
            has_pointers = any(tid.detect_class(kind) for kind in (h5t.VLEN, h5t.REFERENCE)) or (
                h5py.check_string_dtype(dataset.dtype) and h5py.check_string_dtype(dataset.dtype).length is None
            )
            found = pieces(dataset)
            if not found or has_pointers:
                continue
            known = number(tid)
            numbers = tid.get_size() * 8 // int(known[0][1:]) if known else 1
            inner = [numbers] if numbers > 1 else []
            variables[name] = {
                "dtype": known[0] if known else f"opaque[{tid.get_size()}]",
                "endian": "Big" if known and known[1] == "BE" and known[0] not in ("i8", "u8") else "Little",
                "shape": [*dataset.shape, *inner],
                "piece": [*(dataset.chunks or dataset.shape), *inner],
                "pieces": found,
            }
    return variables


json.dump([describe(path) for path in sys.argv[1:]], sys.stdout)
