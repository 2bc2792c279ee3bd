"""HDF5 inputs, written by h5py and hdf5plugin: layouts, types, objects and links.

`INPUTS` maps a name to a function that writes the file at the path it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
from h5py import h5s, h5t

from values import field_with_specials, integers, smooth_field, special_floats

INPUTS: dict[str, Callable[[Path], None]] = {}


def hdf5_input(write: Callable[[Path], None]) -> Callable[[Path], None]:
    INPUTS[write.__name__] = write
    return write


@hdf5_input
def number_types(path: Path) -> None:
    """Every integer and float type, both byte orders, with extreme values."""
    with h5py.File(path, "w") as file:
        for order in "<>":
            for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
                values = integers((37, 11), kind).astype(order + kind)
                file.create_dataset(f"{'big' if order == '>' else 'little'}_{kind}", data=values, chunks=(16, 11))
            for kind in ("f4", "f8"):
                values = field_with_specials((37, 11), kind).astype(order + kind)
                file.create_dataset(f"{'big' if order == '>' else 'little'}_{kind}", data=values, chunks=(10, 4))
        file["half"] = smooth_field((5, 7)).astype("f2")
        file["complex"] = (smooth_field((5, 7)) + 1j).astype("c8")
        file["boolean"] = np.arange(20) % 3 == 0
        file["long_double"] = np.arange(9, dtype=np.longdouble) / 7


@hdf5_input
def special_values(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for kind in ("f4", "f8"):
            file[f"specials_{kind}"] = special_floats(kind)
            file[f"all_nan_{kind}"] = np.full((40, 40), np.nan, kind)
            file[f"all_infinite_{kind}"] = np.full((40, 40), -np.inf, kind)
            file[f"negative_zero_{kind}"] = np.full((40, 40), -0.0, kind)
            file[f"subnormal_{kind}"] = (np.arange(1600, dtype=kind) * np.finfo(kind).smallest_subnormal).reshape(
                40, 40
            )
        masked = field_with_specials((60, 50))
        file.create_dataset("fill_1e20", data=masked, chunks=(32, 32), fillvalue=np.float32(1e20))
        file.create_dataset("fill_nan", data=masked, chunks=(32, 32), fillvalue=np.float32(np.nan))
        file["random_bits"] = np.random.default_rng(3).integers(0, 2**32, 50_000, "u4").view("f4")


@hdf5_input
def chunk_edges(path: Path) -> None:
    """Chunk shapes that do not divide the variable, exceed it, or meet axes of length 1 and 0."""
    with h5py.File(path, "w") as file:
        file.create_dataset("partial_edges", data=smooth_field((101, 67)), chunks=(32, 32))
        file.create_dataset("one_odd_chunk", data=smooth_field((7, 5, 3)), chunks=(7, 5, 3))
        file.create_dataset("chunk_larger", data=smooth_field((5, 6)), chunks=(64, 64), maxshape=(None, None))
        file.create_dataset("size_one_axes", data=smooth_field((1, 90, 1, 40)), chunks=(1, 45, 1, 40))
        file.create_dataset("one_element", data=np.array([[[3.5]]], "f8"), chunks=(1, 1, 1))
        file.create_dataset("zero_length", (0, 4), "f4", chunks=(8, 4), maxshape=(None, 4))
        file.create_dataset("zero_length_contiguous", (3, 0), "f8")
        file.create_dataset("missing_chunks", (400, 30), "f4", chunks=(50, 30), fillvalue=-7.5)[100:120] = 1
        file.create_dataset("never_written", (100, 100), "i2", chunks=(10, 100), fillvalue=9)
        many = file.create_dataset("thousand_chunks", (1000, 8), "i4", chunks=(1, 8))
        many[...] = integers((1000, 8), "i4")
        file.create_dataset("eight_axes", data=smooth_field((2, 3, 1, 2, 2, 1, 3, 2)), chunks=(1, 3, 1, 2, 1, 1, 3, 2))
        grown = file.create_dataset(
            "grown_and_shrunk", data=smooth_field((50, 20)), chunks=(8, 20), maxshape=(None, 20)
        )
        grown.resize((35, 20))


@hdf5_input
def layouts(path: Path) -> None:
    """Contiguous and compact storage, early allocation, scalar and null spaces."""
    with h5py.File(path, "w") as file:
        file["contiguous"] = smooth_field((50, 40))
        file["big_contiguous"] = smooth_field((300, 40, 50))
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5s.create_simple((10, 10))
        dataset = h5py.h5d.create(file.id, b"compact", h5t.IEEE_F32LE, space, dcpl=compact)
        dataset.write(h5s.ALL, h5s.ALL, smooth_field((10, 10)))
        early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        early.set_chunk((5, 10))
        early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        early.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        dataset = h5py.h5d.create(file.id, b"early", h5t.STD_I32LE, space, dcpl=early)
        dataset.write(h5s.ALL, h5s.ALL, integers((10, 10), "i4"))
        file["scalar"] = np.float64(3.25)
        file["scalar_string"] = "text"
        file["null"] = h5py.Empty("f4")


@hdf5_input
def external_storage(path: Path) -> None:
    """Values in a raw file beside; readers find it with HDF5_EXTFILE_PREFIX='${ORIGIN}'."""
    values = smooth_field((20, 30), "f8")
    raw = path.with_suffix(".raw")
    values.tofile(raw)
    with h5py.File(path, "w") as file:
        file.create_dataset("external", values.shape, "f8", external=[(raw.name, 0, values.nbytes)])


@hdf5_input
def virtual_dataset(path: Path) -> None:
    """A dataset assembled from parts of another one of the same file."""
    with h5py.File(path, "w") as file:
        file["part"] = smooth_field((10, 20))
        layout = h5py.VirtualLayout((20, 20), "f4")
        layout[:10] = h5py.VirtualSource(".", "part", (10, 20))
        layout[10:] = h5py.VirtualSource(".", "part", (10, 20))
        file.create_virtual_dataset("whole", layout)


@hdf5_input
def user_types(path: Path) -> None:
    """Compound, nested, array, enum, opaque, bitfield, variable-length and string types; committed ones."""
    point = np.dtype([("x", "<f4"), ("y", ">f8"), ("label", "S5"), ("hits", "<i2", (3,))])
    records = np.zeros(30, point)
    records["x"], records["y"] = np.arange(30), -np.arange(30) / 3
    records["label"], records["hits"] = b"ab", np.arange(90).reshape(30, 3)
    with h5py.File(path, "w") as file:
        file["types/point"] = point
        file["types/colour"] = h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 42}, "i1")
        file.create_dataset("compound", data=records, chunks=(8,))
        file.create_dataset("committed_compound", (30,), file["types/point"], chunks=(8,))[...] = records
        file.create_dataset("committed_enum", (6,), file["types/colour"])[...] = [0, 1, 42, 0, 1, 42]
        file.create_dataset("nested", data=np.zeros(4, [("a", "i4"), ("b", [("c", "f8"), ("d", "u1")])]))
        ragged = file.create_dataset("ragged", (5,), h5py.vlen_dtype("i4"), chunks=(2,))
        for row in range(5):
            ragged[row] = np.arange(row * row)
        strings = file.create_dataset("strings", (4,), h5py.string_dtype(), chunks=(2,))
        strings[...] = ["", "plain", "ünïcödé ☃", "x" * 5000]
        file["ascii_strings"] = np.array([b"a", b"bc", b"def"], "S3")
        file.create_dataset("null_padded", data=np.array([b"a\0b", b"cd"], "S4"))
        file["opaque"] = np.array([b"\x00\x01\x02", b"\xff\xfe\xfd"], "V3").view(h5py.opaque_dtype("V3"))
        bits = h5t.STD_B16LE.copy()
        dataset = h5py.h5d.create(file.id, b"bitfield", bits, h5s.create_simple((8,)))
        dataset.write(h5s.ALL, h5s.ALL, np.arange(8, dtype="u2"), bits)
        odd = h5t.STD_I32LE.copy()
        odd.set_precision(17)
        odd.set_offset(3)
        dataset = h5py.h5d.create(file.id, b"seventeen_bits", odd, h5s.create_simple((8,)))
        dataset.write(h5s.ALL, h5s.ALL, np.arange(8, dtype="i4"), h5t.NATIVE_INT32)


@hdf5_input
def attributes(path: Path) -> None:
    """Attributes of every type, on the root, a group and a dataset; large and empty ones."""
    with h5py.File(path, "w", track_order=True) as file:
        file["data"] = smooth_field((10, 10))
        group = file.create_group("group")
        for item in (file, group, file["data"]):
            item.attrs["zulu_first"] = 1
            for kind in ("i1", "u2", ">i4", "i8", "u8", "f4", ">f8"):
                item.attrs[f"array_{kind}"] = np.arange(4).astype(kind)
            item.attrs["specials"] = special_floats("f4")
            item.attrs["fixed_string"] = np.bytes_("fixed")
            item.attrs["unicode"] = "Zürich °C"
            item.attrs["string_list"] = ["one", "two", ""]
            item.attrs["empty_string"] = ""
            item.attrs["null"] = h5py.Empty("f8")
            item.attrs["matrix"] = np.arange(6.0).reshape(2, 3)
            item.attrs["record"] = np.array((1, 2.5), [("a", "i4"), ("b", "f8")])
            item.attrs["reference"] = group.ref
            item.attrs.create("large", np.zeros(7000, "f8"))
            item.attrs["alpha_last"] = 2


@hdf5_input
def links(path: Path) -> None:
    """Hard, soft, external and dangling links, a cycle, two names of one dataset, deep groups."""
    other = path.with_name("linked_elsewhere.h5")
    with h5py.File(other, "w") as file:
        file["there"] = np.arange(5)
    with h5py.File(path, "w") as file:
        file["deep/er/and/deeper/data"] = smooth_field((20, 20))
        file["second_name"] = file["deep/er/and/deeper/data"]
        file["deep/cycle"] = file["deep"]
        file["soft"] = h5py.SoftLink("/deep/er/and/deeper/data")
        file["soft_relative"] = h5py.SoftLink("deep/er")
        file["dangling"] = h5py.SoftLink("/nowhere")
        file["external"] = h5py.ExternalLink(other.name, "/there")
        file["external_dangling"] = h5py.ExternalLink("absent.h5", "/x")
        file.create_group("empty")
        file["näme with spaces"] = np.arange(3)


@hdf5_input
def references(path: Path) -> None:
    """Object and region references in datasets and attributes, to objects before and after them."""
    with h5py.File(path, "w") as file:
        references = file.create_dataset("a_references", (4,), h5py.ref_dtype)
        regions = file.create_dataset("a_regions", (2,), h5py.regionref_dtype)
        field = file.create_dataset("field", data=smooth_field((30, 40)), chunks=(10, 40))
        file.create_group("group")
        references[0], references[1] = field.ref, file["group"].ref
        references[2] = references.ref
        regions[0] = field.regionref[2:5, ::3]
        regions[1] = field.regionref[7, 8]
        field.attrs["self"] = field.ref
        field.attrs["part"] = field.regionref[0:3, 0:3]
        mixed = np.dtype([("at", h5py.ref_dtype), ("weight", "f4")])
        table = file.create_dataset("z_table", (2,), mixed)
        table[0] = (field.ref, 1.5)


@hdf5_input
def dimension_scales(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["temperature"] = smooth_field((6, 20, 30))
        for axis, (name, length) in enumerate((("time", 6), ("lat", 20), ("lon", 30))):
            file[name] = np.linspace(0, 1, length)
            file[name].make_scale(f"the {name}")
            file["temperature"].dims[axis].attach_scale(file[name])
            file["temperature"].dims[axis].label = name
        file["lat_radian"] = np.linspace(0, 1, 20)
        file["lat_radian"].make_scale()
        file["temperature"].dims[1].attach_scale(file["lat_radian"])


@hdf5_input
def creation_order(path: Path) -> None:
    with h5py.File(path, "w", track_order=True) as file:
        for name in ("zebra", "apple", "mango"):
            group = file.create_group(name, track_order=True)
            for child in ("c", "a", "b"):
                dataset = group.create_dataset(child, data=np.arange(4), track_order=True)
                for attribute in ("last", "first", "middle"):
                    dataset.attrs[attribute] = 1


@hdf5_input
def user_block(path: Path) -> None:
    with h5py.File(path, "w", userblock_size=1024) as file:
        file["data"] = smooth_field((100, 100))
    with path.open("r+b") as raw:
        raw.write(b"#!/bin/sh\nexit 0\n" + bytes(range(256)))


@hdf5_input
def newest_format(path: Path) -> None:
    """Superblock 3, new-style groups, fixed and extensible array and B-tree v2 chunk indices."""
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("fixed_array", data=smooth_field((100, 30)), chunks=(10, 30))
        file.create_dataset("extensible", data=smooth_field((100, 30)), chunks=(10, 30), maxshape=(None, 30))
        file.create_dataset("unlimited_last", data=smooth_field((100, 30)), chunks=(10, 30), maxshape=(100, None))
        file.create_dataset(
            "unlimited_middle", data=smooth_field((25, 40, 12)), chunks=(10, 8, 5), maxshape=(40, None, 12)
        )
        file.create_dataset("btree", data=smooth_field((40, 30)), chunks=(10, 10), maxshape=(None, None))
        file.create_dataset("single", data=smooth_field((10, 30)), chunks=(10, 30))
        for number in range(40):
            file.create_group(f"group_{number:02}").attrs["number"] = number


@hdf5_input
def paged_file_space(path: Path) -> None:
    with h5py.File(path, "w", fs_strategy="page", fs_page_size=4096, fs_persist=True) as file:
        file.create_dataset("data", data=smooth_field((100, 100)), chunks=(10, 100))


@hdf5_input
def sparse_beyond_2_gib(path: Path) -> None:
    """A variable of 2.5 GiB of which three chunks are written: offsets beyond 32 bits, little storage."""
    with h5py.File(path, "w") as file:
        shape = (2560, 512, 512)
        dataset = file.create_dataset("volume", shape, "f4", chunks=(4, 512, 512), fillvalue=1e20)
        for step in (0, 1300, 2559):
            dataset[step] = smooth_field(shape[1:], seed=step)
