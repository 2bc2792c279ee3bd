"""Are two HDF5 files the same to a reader? Everything but storage: chunks, filters, file layout.

`differences` looks at objects, links, types, spaces, attributes, orders and every bit of every value.
It reads through h5py's low level, without type conversion, so that NaN payloads stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401  registers filters
import numpy as np
from h5py import h5o, h5r, h5s, h5t

SAMPLED_ABOVE_BYTES = 1 << 28
"""Larger variables are compared step by step, chunked ones (they are sparse) where a chunk is stored."""


def differences(left_path: Path, right_path: Path) -> list[str]:
    """Every difference found, each as `place: what`. An empty list means equal."""
    with h5py.File(left_path) as left, h5py.File(right_path) as right:
        found = list(_compare_files(left, right))
    if _user_block(left_path) != _user_block(right_path):
        found.append("/: user block differs")
    return found


def require_same(left_path: Path, right_path: Path) -> None:
    found = differences(left_path, right_path)
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:20])


def _user_block(path: Path) -> bytes:
    with h5py.File(path) as file:
        size = file.userblock_size
    return path.read_bytes()[:size]


class _Walk:
    """One file's objects by path, and the first path of every object that has several."""

    def __init__(self, file: h5py.File):
        self.file = file
        self.first_path: dict[int, str] = {}
        self.links: dict[str, tuple] = {}
        self.objects: dict[str, h5py.HLObject] = {"/": file["/"]}
        self._add(file["/"], "/")

    def _add(self, item: h5py.HLObject, path: str) -> None:
        self.first_path[h5o.get_info(item.id).addr] = path
        self.objects[path] = item
        if not isinstance(item, h5py.Group):
            return
        for name in item:
            child_path = f"{path.rstrip('/')}/{name}"
            link = item.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                self.links[child_path] = ("soft", link.path)
            elif isinstance(link, h5py.ExternalLink):
                self.links[child_path] = ("external", link.filename, link.path)
            else:
                child = item[name]
                address = h5o.get_info(child.id).addr
                known = self.first_path.get(address)
                self.links[child_path] = ("hard", known or child_path)
                if known is None:
                    self._add(child, child_path)

    def found(self, link: tuple) -> tuple:
        """Where a link leads: HDF5 looks for other files beside the one that names them."""
        if link[0] != "external":
            return link
        place = Path(self.file.filename).parent / link[1]
        return ("external", str(place.resolve()) if place.exists() else link[1], link[2])

    def name_of(self, item: h5py.HLObject) -> str:
        return self.first_path.get(h5o.get_info(item.id).addr, "(unnamed)")


def _compare_files(left: h5py.File, right: h5py.File) -> Iterator[str]:
    left_walk, right_walk = _Walk(left), _Walk(right)
    for path in sorted(left_walk.links.keys() | right_walk.links.keys()):
        a, b = left_walk.links.get(path), right_walk.links.get(path)
        if a != b and (a is None or b is None or left_walk.found(a) != right_walk.found(b)):
            yield f"{path}: link {a} became {b}"
    for path in left_walk.objects.keys() & right_walk.objects.keys():
        a, b = left_walk.objects[path], right_walk.objects[path]
        if type(a) is not type(b):
            yield f"{path}: {type(a).__name__} became {type(b).__name__}"
            continue
        if isinstance(a, h5py.Group):
            yield from _compare_groups(path, a, b)
        elif isinstance(a, h5py.Datatype):
            if not a.id.equal(b.id):
                yield f"{path}: committed type differs"
        else:
            yield from _compare_datasets(path, a, b, left_walk, right_walk)
        yield from _compare_attributes(path, a, b, left_walk, right_walk)


def _compare_groups(path: str, a: h5py.Group, b: h5py.Group) -> Iterator[str]:
    orders = [group.id.get_create_plist().get_link_creation_order() for group in (a, b)]
    if orders[0] != orders[1]:
        yield f"{path}: link creation order flags {orders[0]} became {orders[1]}"
    elif list(a) != list(b):
        yield f"{path}: order of links {list(a)} became {list(b)}"


def _compare_datasets(path: str, a: h5py.Dataset, b: h5py.Dataset, left: _Walk, right: _Walk) -> Iterator[str]:
    yield from _compare_types(path, a.id.get_type(), b.id.get_type(), left, right)
    if a.shape != b.shape:
        yield f"{path}: shape {a.shape} became {b.shape}"
        return
    if a.maxshape != b.maxshape:
        yield f"{path}: maximum shape {a.maxshape} became {b.maxshape}"
    left_list, right_list = a.id.get_create_plist(), b.id.get_create_plist()
    defined = [properties.fill_value_defined() for properties in (left_list, right_list)]
    if defined[0] != defined[1]:
        yield f"{path}: kind of fill value {defined[0]} became {defined[1]}"
    elif a.dtype.kind in "iuf" and np.asarray(a.fillvalue).tobytes() != np.asarray(b.fillvalue).tobytes():
        yield f"{path}: fill value {a.fillvalue} became {b.fillvalue}"
    if left_list.get_attr_creation_order() != right_list.get_attr_creation_order():
        yield f"{path}: attribute creation order flags differ"
    for selection in _selections(a):
        before, after = _values(a, selection, left), _values(b, selection, right)
        if before != after:
            yield f"{path}{selection or ''}: values differ"


def _selections(dataset: h5py.Dataset) -> list[tuple]:
    if dataset.shape is None or dataset.nbytes < SAMPLED_ABOVE_BYTES:
        return [()]
    if dataset.chunks is None:
        return [(step,) for step in range(len(dataset))]
    steps = {0, len(dataset) // 2, len(dataset) - 1}
    for index in range(dataset.id.get_num_chunks()):
        first = dataset.id.get_chunk_info(index).chunk_offset[0]
        steps.update(range(first, min(first + dataset.chunks[0], len(dataset))))
    return [(step,) for step in sorted(steps)]


def _values(dataset: h5py.Dataset, selection: tuple, walk: _Walk) -> object:
    if dataset.shape is None:
        return "null"
    kind = dataset.id.get_type().get_class()
    size = dataset.id.get_type().get_size()
    if not selection and size in (1, 2, 4, 8) and kind in (h5t.BITFIELD, h5t.INTEGER, h5t.FLOAT):
        # In the type of the file: no conversion, whatever the precision and byte order.
        raw = np.empty(dataset.shape, f"u{size}")
        dataset.id.read(h5s.ALL, h5s.ALL, raw, dataset.id.get_type())
        return raw.tobytes()
    return _plain(dataset[selection], walk)


def _plain(value: object, walk: _Walk) -> object:
    """`value` with references replaced by the names they point to, and arrays by bytes or lists."""
    if isinstance(value, h5r.RegionReference):
        return _region(value, walk)
    if isinstance(value, h5r.Reference):
        return walk.name_of(walk.file[value]) if value else "no reference"
    if isinstance(value, h5py.Empty):
        return ("null", value.dtype.str)
    if isinstance(value, np.void) and value.dtype.names:
        return [_plain(value[name], walk) for name in value.dtype.names]
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return (value.shape, [_plain(item, walk) for item in value.reshape(-1)])
        return (value.shape, value.tobytes())
    if isinstance(value, np.generic):
        return value.tobytes()
    return value


def _region(reference: h5r.RegionReference, walk: _Walk) -> object:
    if not reference:
        return "no region"
    space = h5r.get_region(reference, walk.file.id)
    name = walk.name_of(walk.file[reference])
    if space.get_select_type() == h5s.SEL_HYPERSLABS:
        return name, space.get_select_hyper_blocklist().tolist()
    if space.get_select_type() == h5s.SEL_POINTS:
        return name, space.get_select_elem_pointlist().tolist()
    return name, space.get_select_type(), space.get_select_npoints()


def _compare_types(path: str, a: h5t.TypeID, b: h5t.TypeID, left: _Walk, right: _Walk) -> Iterator[str]:
    if not a.equal(b):
        yield f"{path}: type {a.dtype} became {b.dtype}"
    if a.committed() != b.committed():
        yield f"{path}: committed type became a plain one, or the reverse"
    elif a.committed():
        names = [walk.first_path.get(h5o.get_info(kind).addr) for walk, kind in ((left, a), (right, b))]
        if names[0] != names[1]:
            yield f"{path}: type named {names[0]} became {names[1]}"


def _compare_attributes(path: str, a: h5py.HLObject, b: h5py.HLObject, left: _Walk, right: _Walk) -> Iterator[str]:
    if isinstance(a, h5py.Dataset | h5py.Group) and list(a.attrs) != list(b.attrs):
        if sorted(a.attrs) != sorted(b.attrs):
            yield f"{path}: attributes {sorted(a.attrs)} became {sorted(b.attrs)}"
        elif a.id.get_create_plist().get_attr_creation_order():
            yield f"{path}: order of attributes {list(a.attrs)} became {list(b.attrs)}"
    for name in a.attrs.keys() & b.attrs.keys():
        ids = [item.attrs.get_id(name) for item in (a, b)]
        place = f"{path}@{name}"
        yield from _compare_types(place, ids[0].get_type(), ids[1].get_type(), left, right)
        if ids[0].get_space().get_simple_extent_type() != ids[1].get_space().get_simple_extent_type():
            yield f"{place}: kind of data space differs"
        elif ids[0].shape != ids[1].shape:
            yield f"{place}: shape {ids[0].shape} became {ids[1].shape}"
        elif name == "REFERENCE_LIST":
            # HDF5 orders the back references of a scale by object address.
            before, after = (
                sorted(map(str, _plain(item.attrs[name], walk)[1])) for item, walk in ((a, left), (b, right))
            )
            if before != after:
                yield f"{place}: back references differ"
        elif _attribute(a, name, left) != _attribute(b, name, right):
            yield f"{place}: value differs"


def _attribute(item: h5py.HLObject, name: str, walk: _Walk) -> object:
    value = item.attrs[name]
    return _plain(value, walk)
