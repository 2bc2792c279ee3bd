"""Compares two HDF5 files object by object. Arguments: A B [--storage-may-differ] [--added NAME...]

Everything must be equal: links and their order, objects and which links share one, types (named or not), shapes,
fill values, attributes and their order, reference targets, comments, values. With --storage-may-differ, chunk
shapes and filters of datasets need not be.
"""

import sys

import h5py
import hdf5plugin  # noqa: F401
import numpy as np

a_path, b_path, *flags = sys.argv[1:]
storage_may_differ = "--storage-may-differ" in flags
added = set(flags[flags.index("--added") + 1 :]) if "--added" in flags else set()
problems = []
seen = {}


def differ(path, what, a, b):
    problems.append(f"{path}: {what}: {repr(a)[:300]} != {repr(b)[:300]}")


def same(path, what, a, b):
    if a != b:
        differ(path, what, a, b)


def address(obj):
    return h5py.h5o.get_info(obj.id).addr


def type_of(tid, file):
    """A type in comparable form; named types by name."""
    name = h5py.h5i.get_name(tid) if tid.committed() else None
    copy = tid.copy()
    return (name, bytes(copy.encode()) if tid.get_class() != h5py.h5t.REFERENCE else tid.get_size())


def same_type(path, a, b):
    same(path, "class of type", a.get_class(), b.get_class())
    same(
        path,
        "name of type",
        h5py.h5i.get_name(a) if a.committed() else None,
        h5py.h5i.get_name(b) if b.committed() else None,
    )
    same(path, "committed", a.committed(), b.committed())
    if not a.copy().equal(b.copy()):
        differ(path, "type", a, b)


def plain(value, file):
    """Values with references replaced by what they point to."""
    if isinstance(value, h5py.RegionReference):
        if not value:
            return None
        sid = h5py.h5r.get_region(value, file.id)
        return (h5py.h5r.get_name(value, file.id), str(sid.get_select_bounds()), sid.get_select_npoints())
    if isinstance(value, h5py.Reference):
        return address_name(file, value) if value else None
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O" or value.dtype.names:
            return [plain(v, file) for v in value.tolist()] if value.shape else plain(value[()].item(), file)
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, np.void) and value.dtype.names:
        return [plain(value[n], file) for n in value.dtype.names]
    if isinstance(value, (tuple, list)):
        return [plain(v, file) for v in value]
    if isinstance(value, (np.generic,)):
        return (str(value.dtype), value.tobytes())
    if isinstance(value, h5py.Empty):
        return ("empty", str(value.dtype))
    return value


def address_name(file, reference):
    return first_name[file.filename][address(file[reference])]


def attributes(path, a, b, fa, fb):
    def names(obj):
        tracked = obj.id.get_create_plist().get_attr_creation_order() & 1 if not isinstance(obj, h5py.Datatype) else 0
        order = h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME
        found = []
        h5py.h5a.iterate(obj.id, lambda n: found.append(n) or None, index_type=order)
        return tracked, [n for n in found if n.decode() not in added]

    same(path, "attribute names", names(a), names(b))
    for name in names(a)[1]:
        if not h5py.h5a.exists(b.id, name):
            continue
        ia, ib = h5py.h5a.open(a.id, name), h5py.h5a.open(b.id, name)
        where = f"{path}@{name.decode()}"
        same_type(where, ia.get_type(), ib.get_type())
        same(where, "shape", ia.shape, ib.shape)
        same(where, "space", ia.get_space().get_simple_extent_type(), ib.get_space().get_simple_extent_type())
        try:
            va, vb = a.attrs[name.decode()], b.attrs[name.decode()]
        except Exception as error:  # types that h5py cannot read
            print(f"{where}: not compared: {error}", file=sys.stderr)
            continue
        same(where, "value", plain(va, fa), plain(vb, fb))


def datasets(path, a, b, fa, fb):
    same_type(path, a.id.get_type(), b.id.get_type())
    same(path, "shape", a.shape, b.shape)
    same(path, "space", a.id.get_space().get_simple_extent_type(), b.id.get_space().get_simple_extent_type())
    same(path, "maxshape", a.maxshape, b.maxshape)
    pa, pb = a.id.get_create_plist(), b.id.get_create_plist()
    same(path, "fill defined", pa.fill_value_defined(), pb.fill_value_defined())
    same(path, "fill time", pa.get_fill_time(), pb.get_fill_time())
    if a.dtype.kind not in "OV":
        same(path, "fill", plain(a.fillvalue, fa), plain(b.fillvalue, fb))
    if not storage_may_differ:
        same(path, "layout", pa.get_layout(), pb.get_layout())
        same(path, "chunks", a.chunks, b.chunks)
        filters_a, filters_b = ([p.get_filter(i)[:3] for i in range(p.get_nfilters())] for p in (pa, pb))
        same(path, "filters", filters_a, filters_b)
        if a.chunks:
            same(path, "stored chunks", a.id.get_num_chunks(), b.id.get_num_chunks())
    if a.shape is None:
        return
    same(path, "values", plain(a[()], fa), plain(b[()], fb))


def links(group):
    tracked = group.id.get_create_plist().get_link_creation_order() & 1
    found = []
    group.id.links.iterate(found.append, idx_type=h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME)
    return bool(tracked), found


def target(group, name):
    link = group.get(name.decode(), getlink=True)
    if isinstance(link, h5py.HardLink):
        return "hard"
    return (type(link).__name__, getattr(link, "filename", None), link.path)


def walk(path, a, b, fa, fb):
    key = address(a)
    if key in seen:
        same(path, "shares an object", seen[key], address(b))
        return
    seen[key] = address(b)
    same(path, "kind", type(a).__name__, type(b).__name__)
    if type(a) is not type(b):
        return
    if path == "/zulu":  # h5py returns rubbish for objects without a comment
        same(path, "comment", h5py.h5o.get_comment(a.id, b"."), h5py.h5o.get_comment(b.id, b"."))
    attributes(path, a, b, fa, fb)
    if isinstance(a, h5py.Dataset):
        datasets(path, a, b, fa, fb)
    elif isinstance(a, h5py.Datatype):
        same_type(path, a.id, b.id)
    else:
        same(path, "links", links(a), links(b))
        for name in links(a)[1]:
            child = f"{path.rstrip('/')}/{name.decode()}"
            if name not in b:
                if a.get(name.decode(), getlink=True) and target(a, name) != "hard":
                    same(child, "link", target(a, name), target(b, name))
                continue
            same(child, "link", target(a, name), target(b, name))
            if target(a, name) == "hard":
                walk(child, a[name], b[name], fa, fb)


first_name = {}


def index(file):
    names = {address(file): "/"}

    def visit(name, obj):
        names.setdefault(address(obj), "/" + name)

    file.visititems(visit)
    first_name[file.filename] = names


with h5py.File(a_path) as fa, h5py.File(b_path) as fb:
    index(fa)
    index(fb)
    same("/", "user block", fa.userblock_size, fb.userblock_size)
    if fa.userblock_size:
        with open(a_path, "rb") as raw_a, open(b_path, "rb") as raw_b:
            same("/", "user block", raw_a.read(fa.userblock_size), raw_b.read(fb.userblock_size))
    walk("/", fa, fb, fa, fb)
    assert len(seen) >= 1

for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
