"""HDF5 in, HDF5 out: nothing a reader can see changes, whatever the chain."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pytest

import filter_inputs
import hdf5_inputs
from conftest import Knarr
from hdf5_compare import require_same
from values import integers, smooth_field

READABLE_BY_1_10 = [name for name in hdf5_inputs.INPUTS if name not in {"paged_file_space", "newest_format"}]


@pytest.mark.parametrize("name", hdf5_inputs.INPUTS)
def test_every_object_survives(knarr, made, out, name):
    source = made("hdf5", name)
    require_same(source, knarr.repack(source, out / source.name))


@pytest.mark.parametrize("name", filter_inputs.INPUTS)
def test_compressed_inputs_keep_their_values(knarr, made, out, name):
    """Also what an earlier lossy filter left: it must not lose a second time."""
    source = made("filter", name)
    require_same(source, knarr.repack(source, out / source.name))


@pytest.mark.parametrize("options", [(), ("--chain", "shuffle | deflate:1", "--chunks", "keep")])
def test_chunks_are_where_the_library_says(knarr, made, out, options):
    """kerchunk and others take places from HDF5, which errs for some of its own indices."""
    target = knarr.repack(made("hdf5", "newest_format"), out / "a.h5", *options)
    with h5py.File(target) as file:
        for dataset in filter(lambda item: isinstance(item, h5py.Dataset) and item.chunks, file.values()):
            chunks = []
            dataset.id.chunk_iter(chunks.append)
            assert len(chunks) == dataset.id.get_num_chunks() > 0
            for chunk in chunks:
                assert len(dataset.id.read_direct_chunk(chunk.chunk_offset)[1]) == chunk.size


@pytest.mark.parametrize("goal", ["speed", "balanced", "ratio", "archive", "energy"])
@pytest.mark.parametrize("name", ["number_types", "special_values", "chunk_edges"])
def test_every_goal_is_lossless(knarr, made, out, name, goal):
    source = made("hdf5", name)
    require_same(source, knarr.repack(source, out / source.name, "--goal", goal))


CHAINS = [
    "shuffle | deflate:5",
    "deflate:9",
    "shuffle | deflate:1 | fletcher32",
    "zstd:3",
    "shuffle | zstd:19",
    "bitshuffle | lz4",
    "bitshuffle | zstd:3",
    "lz4",
    "bzip2:9",
    "blosc2",
]


@pytest.mark.parametrize("chain", CHAINS)
def test_every_standard_chain_is_read_by_hdf5plugin(knarr, made, out, chain):
    source = made("hdf5", "special_values")
    target = knarr.repack(source, out / "a.h5", "--chain", chain)
    require_same(source, target)
    with h5py.File(target) as file:
        assert file["fill_1e20"].id.get_create_plist().get_nfilters() >= 1


@pytest.mark.parametrize("name", READABLE_BY_1_10)
def test_tools_of_hdf5_1_10_see_the_same(knarr, made, out, name):
    """`h5dump -H` prints every object, type, space and attribute; core filters need no plugin."""
    source = made("hdf5", name)
    target = knarr.repack(source, out / source.name, "--portable", "core")

    def headers(path):
        answer = subprocess.run(["h5dump", "-H", path.name], cwd=path.parent, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    # Where external data moves into the file, and where links lead elsewhere, headers may differ.
    if name not in {"external_storage", "links"}:
        assert headers(target) == headers(source)
    # h5diff 1.10.8 crashes on region references of two files, and takes minutes for 2.5 GiB.
    if name not in {"sparse_beyond_2_gib", "references", "links"}:
        compared = subprocess.run(["h5diff", source, target], cwd=source.parent, capture_output=True, text=True)
        assert compared.returncode == 0, compared.stdout + compared.stderr


def test_newest_format_becomes_readable_or_stays_equal(knarr, made, out):
    source = made("hdf5", "newest_format")
    for target in (out / "a.h5", out / "b.nc"):
        knarr.repack(source, target)
        with h5py.File(source) as before, h5py.File(target) as after:
            for name, item in before.items():
                if isinstance(item, h5py.Dataset):
                    assert item[...].tobytes() == after[name][...].tobytes()


@pytest.mark.parametrize("chain", ["shuffle | deflate:5", "zstd:3", "shuffle | zstd:22"])
def test_incompressible_data_does_not_grow(knarr, made, out, chain):
    source = made("filter", "small_chunks_incompressible")
    target = knarr.repack(source, out / "a.h5", "--chain", chain)
    require_same(source, target)
    with h5py.File(target) as file:
        assert file["noise"].id.get_storage_size() <= file["noise"].nbytes + 64 * 16


def test_missing_chunks_stay_missing(knarr, made, out):
    source = made("hdf5", "sparse_beyond_2_gib")
    target = knarr.repack(source, out / "a.h5")
    require_same(source, target)
    assert target.stat().st_size < source.stat().st_size * 1.1
    with h5py.File(source) as before, h5py.File(target) as after:
        if before["volume"].chunks == after["volume"].chunks:
            assert after["volume"].id.get_num_chunks() == before["volume"].id.get_num_chunks()


@pytest.mark.parametrize("chunks", ["keep", "auto", "partial_edges=7x67", "partial_edges=101x67"])
def test_rechunking_keeps_values(knarr, made, out, chunks):
    source = made("hdf5", "chunk_edges")
    target = knarr.repack(source, out / "a.h5", "--chunks", chunks)
    require_same(source, target)
    with h5py.File(source) as before, h5py.File(target) as after:
        if chunks == "keep":
            assert all(before[name].chunks == after[name].chunks for name in before if before[name].chunks)
        elif "=" in chunks:
            wanted = tuple(int(length) for length in chunks.partition("=")[2].split("x"))
            assert after["partial_edges"].chunks == wanted
            assert after["size_one_axes"].chunks == before["size_one_axes"].chunks


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_same_bytes_for_any_number_of_jobs(knarr, made, out, jobs):
    source = made("filter", "gzip_shuffle_fletcher32")
    one, many = (out / f"{count}.h5" for count in ("one", "many"))
    knarr.repack(source, one, "--jobs", 1)
    knarr.repack(source, many, "--jobs", jobs)
    with h5py.File(one) as a, h5py.File(many) as b:
        for name in a:
            assert a[name].id.get_create_plist().get_nfilters() == b[name].id.get_create_plist().get_nfilters()
            for index in range(a[name].id.get_num_chunks()):
                place = a[name].id.get_chunk_info(index).chunk_offset
                assert a[name].id.read_direct_chunk(place) == b[name].id.read_direct_chunk(place)


def test_chain_for_one_variable_only(knarr, made, out):
    source = made("filter", "gzip")
    target = knarr.repack(source, out / "a.h5", "--chain", "f4=shuffle | zstd:5", "--chain", "lz4")
    require_same(source, target)
    with h5py.File(target) as file:
        filters = [file["f4"].id.get_create_plist().get_filter(at)[0] for at in range(2)]
        assert filters == [h5py.h5z.FILTER_SHUFFLE, hdf5plugin.ZSTD_ID]
        assert file["f8"].id.get_create_plist().get_filter(0)[0] == hdf5plugin.LZ4_ID


def test_portable_core_uses_what_every_build_reads(knarr, made, out):
    source = made("filter", "blosc2_zstd")
    target = knarr.repack(source, out / "a.h5", "--portable", "core", "--goal", "ratio")
    core = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
    with h5py.File(target) as file:
        for dataset in file.values():
            plan = dataset.id.get_create_plist()
            assert {plan.get_filter(at)[0] for at in range(plan.get_nfilters())} <= core


def test_a_second_repack_changes_nothing(knarr, made, out):
    source = made("hdf5", "special_values")
    once = knarr.repack(source, out / "once.h5")
    twice = knarr.repack(once, out / "twice.h5")
    require_same(source, twice)
    assert twice.stat().st_size <= once.stat().st_size * 1.01


@pytest.mark.parametrize("coding", ["NN", "EC"])
@pytest.mark.parametrize("block", [8, 32])
@pytest.mark.parametrize("dtype", ["i1", "<i2", ">u2", "<f4", ">f8", "<i8"])
@pytest.mark.parametrize(("shape", "chunks"), [((64, 64), (16, 64)), ((50, 41), (17, 41)), ((9, 5), (9, 5))])
def test_szip_is_read(knarr, tmp_path, out, dtype, coding, block, shape, chunks):
    """As h5repack writes it; rows that are no multiple of a block, or shorter than one."""
    plain, source = tmp_path / "plain.h5", tmp_path / "szip.h5"
    with h5py.File(plain, "w") as file:
        file.create_dataset("v", data=(smooth_field(shape) * 50).astype(dtype), chunks=chunks)
    subprocess.run(["h5repack", "-f", f"SZIP={block},{coding}", plain, source], check=True)
    knarr("repack", source, "-o", out / "a.h5")
    require_same(plain, out / "a.h5")
    knarr("repack", source, "-o", out / "b.nc", "--portable", "core")
    assert knarr("verify", plain, source).returncode == 0


def test_damaged_szip_is_an_error(knarr, tmp_path, out):
    plain, source = tmp_path / "plain.h5", tmp_path / "szip.h5"
    with h5py.File(plain, "w") as file:
        file.create_dataset("v", data=integers((64, 64), "i2"), chunks=(16, 64))
    subprocess.run(["h5repack", "-f", "SZIP=8,NN", plain, source], check=True)
    with h5py.File(source) as file:
        place = file["v"].id.get_chunk_info(2)
    content = bytearray(source.read_bytes())
    content[place.byte_offset + 4 : place.byte_offset + place.size] = bytes(place.size - 4)
    source.write_bytes(content)
    done = knarr("repack", source, "-o", out / "a.h5", ok=False)
    if done.returncode == 0:
        # Zeros may be a stream, of other values.
        with h5py.File(out / "a.h5") as file, h5py.File(plain) as before:
            assert (file["v"][:32] == before["v"][:32]).all() and (file["v"][48:] == before["v"][48:]).all()
    content[place.byte_offset : place.byte_offset + 4] = (1 << 30).to_bytes(4, "little")
    source.write_bytes(content)
    knarr.fails(3, "repack", source, "-o", out / "b.h5", names=("szip.h5", "'v'", "chunk", "restore"))


def test_smaller_than_h5repack(knarr, tmp_path, out):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("v", data=smooth_field((60, 100, 100)), chunks=(10, 100, 100))
    subprocess.run(["h5repack", "-f", "SHUF", "-f", "GZIP=5", source, tmp_path / "peer.h5"], check=True)
    target = knarr.repack(source, out / "a.h5", "--chain", "shuffle | deflate:5")
    assert target.stat().st_size <= (tmp_path / "peer.h5").stat().st_size
    assert np.array_equal(h5py.File(target)["v"][...], h5py.File(source)["v"][...])


def test_files_that_are_not_found_from_the_output_are_told(knarr, tmp_path):
    """Virtual datasets and external links name files in the directory of the one that names them."""
    for folder in ("in", "packed", "all"):
        (tmp_path / folder).mkdir()
    part, path = tmp_path / "in" / "part.h5", tmp_path / "in" / "view.h5"
    with h5py.File(part, "w") as file:
        file["x"] = np.arange(1000.0)
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((1000,), "f8")
        layout[:] = h5py.VirtualSource("part.h5", "x", (1000,))
        file.create_virtual_dataset("v", layout, fillvalue=-1)
        file["link"] = h5py.ExternalLink("part.h5", "/x")
        file["nowhere"] = h5py.ExternalLink("none.h5", "/x")
        file["absolute"] = h5py.ExternalLink(str(part), "/x")
    # Beside the input, or with what it names.
    done = [knarr("repack", path, "-o", path.with_name("out.h5"))]
    done.append(knarr("repack", path, part, "-o", tmp_path / "all"))
    for answer, out in zip(done, (path.with_name("out.h5"), tmp_path / "all" / "view.h5"), strict=True):
        assert all("larger than the input" in line for line in answer.stderr.splitlines()), answer.stderr
        assert knarr.json("verify", path, out)["equal"]
        with h5py.File(out) as file:
            for name in ("v", "link", "absolute"):
                assert np.array_equal(file[name][:], np.arange(1000.0)), name
            assert file["v"].is_virtual and file["v"].fillvalue == -1
            assert file.get("nowhere", getlink=True).filename == "none.h5"
    alone = knarr("repack", path, "-o", tmp_path / "packed")
    assert "'part.h5'" in alone.stderr and "none.h5" not in alone.stderr and "view.h5" in alone.stderr


def test_external_raw_files_are_found_here_and_beside_the_file(tmp_path):
    knarr = Knarr(HDF5_EXTFILE_PREFIX="")
    values = np.arange(600.0)
    (tmp_path / "apart").mkdir()
    path = tmp_path / "apart" / "ext.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("e", values.shape, "f8", external=[("ext.raw", 0, values.nbytes)])
    values.tofile(tmp_path / "apart" / "ext.raw")
    for name in ("out.h5", "out.zarr", "out.nc"):
        knarr("repack", path, "-o", tmp_path / "apart" / name)
        assert "equal" in knarr("verify", path, tmp_path / "apart" / name).stdout
    (tmp_path / "apart" / "ext.raw").rename(tmp_path / "ext.raw")
    for name in ("out.h5", "out.zarr"):
        refused = knarr("repack", path, "-o", tmp_path / name, ok=False)
        assert refused.returncode != 0 and "'e'" in refused.stderr
        assert "external raw file" in refused.stderr and "HDF5_EXTFILE_PREFIX" in refused.stderr
        assert not (tmp_path / name).exists()
        knarr("repack", path, "-o", tmp_path / name, cwd=tmp_path)
        verified = knarr("verify", path, tmp_path / name, cwd=tmp_path)
        assert "equal" in verified.stdout


def test_the_byte_order_of_vax_is_kept(knarr, tmp_path, out):
    """The library writes no new type of that order: one is made of a big-endian one."""
    source, target = tmp_path / "in.h5", out / "a.h5"
    with h5py.File(source, "w", libver="earliest") as file:
        file.create_dataset("T", data=np.arange(20.0).reshape(4, 5), dtype=">f8")
    plain = bytes.fromhex("11213f0008000000")
    assert source.read_bytes().count(plain) == 1
    source.write_bytes(source.read_bytes().replace(plain, bytes.fromhex("31613f0008000000")))
    knarr("repack", source, "-o", target)
    knarr("verify", source, target)
    assert all(b"\x61\x3f\x00\x08\x00\x00\x00" in path.read_bytes() for path in (source, target))


@pytest.mark.parametrize("change", ["order", "precision", "sign"])
def test_types_of_unusual_bits_that_differ_are_told_apart(knarr, tmp_path, change):
    def write(name, order, precision, sign):
        datatype = h5py.h5t.STD_I32LE.copy()
        datatype.set_precision(precision)
        datatype.set_order(order)
        datatype.set_sign(sign)
        with h5py.File(tmp_path / name, "w") as file:
            h5py.h5d.create(file.id, b"T", datatype, h5py.h5s.create_simple((4,)))
        return tmp_path / name

    usual = {"order": h5py.h5t.ORDER_LE, "precision": 20, "sign": h5py.h5t.SGN_2}
    others = {"order": h5py.h5t.ORDER_BE, "precision": 24, "sign": h5py.h5t.SGN_NONE}
    a, b = write("a.h5", **usual), write("b.h5", **{**usual, change: others[change]})
    knarr.fails(1, "verify", a, b)


def test_numbers_that_use_few_of_their_bits(knarr, tmp_path, out):
    """HDF5 from 1.14.4 on holds them for damage unless it is told not to; older releases write them."""
    source, target = tmp_path / "in.h5", out / "a.h5"
    values = np.arange(5000, dtype="<i4") % 4
    datatype = h5py.h5t.STD_I32LE.copy()
    datatype.set_precision(17)
    with h5py.File(source, "w", libver="earliest") as file:
        dataset = h5py.h5d.create(file.id, b"flags", datatype, h5py.h5s.create_simple(values.shape))
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    of_17_bits, of_3_bits = (bytes([0x10, 8, 0, 0, 4, 0, 0, 0, 0, 0, bits, 0]) for bits in (17, 3))
    assert source.read_bytes().count(of_17_bits) == 1
    source.write_bytes(source.read_bytes().replace(of_17_bits, of_3_bits))
    knarr("repack", source, "-o", target, "--portable", "core")
    assert target.read_bytes().count(of_3_bits) == 1
    assert knarr.json("verify", source, target)["equal"]
    dumped = subprocess.run(["h5dump", "-d", "flags", target], capture_output=True, text=True, check=True).stdout
    assert "32-bit little-endian integer 3-bit precision" in dumped and "(4999): 3" in dumped


def loaded_hdf5() -> ctypes.CDLL:
    """The library of h5py, for what h5py does not offer."""
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    beside = Path(h5py.__file__).parent.with_name("h5py.libs")
    return ctypes.CDLL(next(path for path in paths if Path(path).parent == beside and "hdf5-" in path))


def test_links_of_classes_that_programs_define_are_kept(knarr, tmp_path, out):
    source, target, changed = tmp_path / "in.h5", out / "a.h5", tmp_path / "changed.h5"
    library = loaded_hdf5()
    identifier, text, size = ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t
    follow = ctypes.CFUNCTYPE(identifier, text, identifier, ctypes.c_void_p, size, identifier, identifier)

    class LinkClass(ctypes.Structure):
        _fields_ = (
            [("version", ctypes.c_int), ("id", ctypes.c_int), ("comment", text)]
            + [(name, ctypes.c_void_p) for name in ("create", "rename", "copy")]
            + [("follow", follow), ("delete", ctypes.c_void_p), ("query", ctypes.c_void_p)]
        )

    number = 187
    link_class = LinkClass(1, number, b"test", None, None, None, follow(lambda *_: -1), None, None)
    assert library.H5Lregister(ctypes.byref(link_class)) >= 0
    library.H5Lcreate_ud.argtypes = [identifier, text, ctypes.c_int, text, size, identifier, identifier]
    for path, value in ((source, b"some\0bytes"), (changed, b"some\0bits!")):
        with h5py.File(path, "w") as file:
            file["x"] = smooth_field((40, 50))
            group = file.create_group("group")
            assert library.H5Lcreate_ud(group.id.id, b"mine", number, value, len(value), 0, 0) >= 0
    library.H5Lunregister(number)
    done = knarr("repack", source, "-o", target)
    assert done.stderr == ""
    dumped = subprocess.run(["h5dump", target], capture_output=True, text=True, check=False).stdout
    assert f"LINKCLASS {number}" in dumped
    assert b"some\0bytes" in target.read_bytes()
    assert knarr.json("verify", source, target)["equal"]
    differs = knarr("verify", source, changed, ok=False)
    assert differs.returncode != 0 and "mine" in differs.stdout + differs.stderr
    assert "/group/mine" in knarr("repack", source, "-o", out / "a.zarr").stdout


def test_references_to_objects_that_are_gone_are_told(knarr, tmp_path, out):
    source, target = tmp_path / "in.h5", out / "a.h5"
    with h5py.File(source, "w") as file:
        kept = file.create_dataset("kept", data=np.arange(10))
        gone = file.create_dataset("gone", data=np.arange(10))
        file.create_dataset("references", data=[kept.ref, gone.ref, h5py.Reference()], dtype=h5py.ref_dtype)
        file.attrs["region"] = gone.regionref[2:4]
        del file["gone"]
    done = knarr("repack", source, "-o", target)
    assert "became null: 2" in done.stderr and str(source) in done.stderr
    with h5py.File(target) as file:
        references = file["references"][:]
        assert file[references[0]] == file["kept"]
        assert not references[1] and not references[2] and not file.attrs["region"]
    assert knarr("repack", target, "-o", out / "again.h5").stderr == ""


@pytest.mark.parametrize(("driver", "first"), [("family", "a0.h5"), ("split", "a-m.h5")])
def test_parts_of_a_file_are_told_apart_from_damage(knarr, tmp_path, out, driver, first):
    options = {"memb_size": 4096, "name": tmp_path / "a%d.h5"} if driver == "family" else {"name": tmp_path / "a"}
    if driver == "split":
        options |= {"meta_ext": b"-m.h5", "raw_ext": b"-r.h5"}
    with h5py.File(mode="w", driver=driver, **options) as file:
        file["x"] = np.arange(5000.0)
    message = knarr.fails(5, "repack", tmp_path / first, "-o", out / "a.h5", names=(first,))
    assert f"{driver} driver" in message and "damaged" not in message and "one file" in message


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_maps_become_series_and_maps_again(knarr, tmp_path, out, kind):
    """Chunks lie across each other, and memory holds few of them."""
    values = smooth_field((120, 90, 160)).astype("f4")
    maps = tmp_path / "maps.h5"
    with h5py.File(maps, "w") as file:
        file.create_dataset("t", data=values, chunks=(1, 90, 160), compression="gzip", shuffle=True)
    series, again = out / f"series.{kind}", out / "again.h5"
    hashed = {knarr.json("hash", maps)["variables"]["t"]}
    for memory in ("1G", "16M"):
        knarr("repack", maps, "-o", series, "--chunks", "t=120x9x10", "--max-mem", memory, "--force")
        knarr("repack", series, "-o", again, "--chunks", "t=1x90x160", "--max-mem", memory, "--force")
        with h5py.File(again) as file:
            assert file["t"].chunks == (1, 90, 160)
            assert np.array_equal(file["t"][:], values)
        assert knarr.json("verify", maps, series, "--values-only", "--max-mem", memory)["equal"]
        hashed.add(knarr.json("hash", series, "--max-mem", memory)["variables"]["t"])
    assert len(hashed) == 1
