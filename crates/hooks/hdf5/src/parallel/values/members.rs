//! Which members of a compound a program writes. HDF5 reads the others, and writes whole elements. Here only those that are
//! written are copied, so that a program may write one member after the other.

use std::ffi::c_char;

use knarr_handover::Part;

use super::convert::COMPOUND;
use crate::host::{CallerHdf5, Hid};
use crate::property_lists::{Close, Owned};

/// Some of the members of a type: a type that has them packed, its size, and where they lie in the elements.
pub(in crate::parallel) struct Members<'h> {
    pub(in crate::parallel) datatype: Owned<'h>,
    pub(in crate::parallel) size: usize,
    /// In ascending order.
    pub(in crate::parallel) parts: Vec<Part>,
}

/// What a type in memory has of a type of the dataset.
pub(in crate::parallel) enum Has<'h> {
    /// All members, or another type than a compound.
    All,
    Some(Members<'h>),
    Nothing,
}

/// What `memory` has of `stored`; HDF5 knows members by their names. `None` if it does not tell.
pub(in crate::parallel) fn members<'h>(host: &'h CallerHdf5, stored: Hid, memory: Hid) -> Option<Has<'h>> {
    has(host, (stored, 0), memory)
}

/// A member of a compound.
struct Member<'h> {
    host: &'h CallerHdf5,
    name: Name<'h>,
    datatype: Owned<'h>,
    size: usize,
    /// Where it lies.
    offset: usize,
}

/// A name that HDF5 has made, and takes back.
struct Name<'h>(*const c_char, &'h CallerHdf5);

impl Drop for Name<'_> {
    fn drop(&mut self) {
        if let Some(free) = self.1.free_memory {
            // SAFETY: HDF5 has allocated it for us, and it is given back once.
            unsafe { free(self.0.cast_mut().cast()) };
        }
    }
}

impl<'h> Member<'h> {
    fn of(host: &'h CallerHdf5, compound: Hid, number: u32) -> Option<Self> {
        // SAFETY: the type is open and has as many members; what is made is closed or given back when dropped.
        let name = unsafe { host.member_name?(compound, number) };
        let name = (!name.is_null()).then_some(Name(name, host))?;
        // SAFETY: as above.
        let datatype = Owned::new(host, unsafe { host.member_type?(compound, number) }, Close::Reference)?;
        // SAFETY: as above.
        let (size, offset) = unsafe { (host.type_size?(datatype.id), host.member_offset?(compound, number)) };
        (size > 0).then_some(Self { host, name, datatype, size, offset })
    }

    /// The type of the member of another compound that has this name; `Some(None)` if there is none.
    fn of_the_same_name(&self, compound: Hid) -> Option<Option<Owned<'h>>> {
        let host = self.host;
        // SAFETY: the type is open, and the name ends.
        let Ok(number) = u32::try_from(unsafe { host.member_number?(compound, self.name.0) }) else {
            return Some(None);
        };
        // SAFETY: the type has this member; what is made is closed when dropped.
        Owned::new(host, unsafe { host.member_type?(compound, number) }, Close::Reference).map(Some)
    }
}

/// As [`members`], of a type that lies so many bytes behind the beginning of an element.
fn has<'h>(host: &'h CallerHdf5, (stored, at): (Hid, usize), memory: Hid) -> Option<Has<'h>> {
    // SAFETY: both types are open.
    let is_compound = |datatype| Some(unsafe { host.type_class?(datatype) } == COMPOUND);
    if !is_compound(stored)? || !is_compound(memory)? {
        return Some(Has::All);
    }
    // SAFETY: as above.
    let count = u32::try_from(unsafe { host.member_count?(stored) }).ok()?;
    let mut members = (0..count).map(|number| Member::of(host, stored, number)).collect::<Option<Vec<_>>>()?;
    members.sort_by_key(|member| member.offset);
    let (mut found, mut is_all) = (Vec::new(), true);
    for member in &members {
        let Some(other) = member.of_the_same_name(memory)? else {
            is_all = false;
            continue;
        };
        let at = at.checked_add(member.offset)?;
        match has(host, (member.datatype.id, at), other.id)? {
            Has::All => found.push((member, None, vec![part(at, member.size)?])),
            Has::Some(Members { datatype, size, parts }) => {
                is_all = false;
                found.push((member, Some((datatype, size)), parts));
            }
            Has::Nothing => is_all = false,
        }
    }
    if is_all || found.is_empty() {
        return Some(if is_all { Has::All } else { Has::Nothing });
    }
    let sizes = found.iter().map(|(member, packed, _)| packed.as_ref().map_or(member.size, |(_, size)| *size));
    let size = sizes.sum();
    // SAFETY: what is made is closed when dropped.
    let datatype = Owned::new(host, unsafe { host.new_type?(COMPOUND, size) }, Close::Reference)?;
    let (mut end, mut parts) = (0, Vec::<Part>::new());
    for (member, packed, of_member) in found {
        let (id, size) = packed.as_ref().map_or((member.datatype.id, member.size), |(packed, size)| (packed.id, *size));
        // SAFETY: all types are open, and the name ends.
        if unsafe { host.insert_member?(datatype.id, member.name.0, end, id) } < 0 {
            return None;
        }
        end += size;
        for part in of_member {
            match parts.last_mut().filter(|last| last.at + last.len == part.at) {
                Some(last) => last.len += part.len,
                None => parts.push(part),
            }
        }
    }
    Some(Has::Some(Members { datatype, size, parts }))
}

fn part(at: usize, size: usize) -> Option<Part> {
    // The end fits, too, so that it can be compared.
    u32::try_from(at.checked_add(size)?).ok()?;
    Some(Part { at: u32::try_from(at).ok()?, len: u32::try_from(size).ok()? })
}
