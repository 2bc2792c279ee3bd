//! Values of one type as another, by the program's own HDF5.

use std::ffi::c_void;

use crate::host::{CallerHdf5, Hid};
use crate::property_lists::{Close, Owned};

/// Code of HDF5's C headers: `H5T_COMPOUND`.
pub(in crate::parallel) const COMPOUND: i32 = 6;

/// Others.
mod code {
    pub(in crate::parallel) const STRING: i32 = 3;
    pub(in crate::parallel) const REFERENCE: i32 = 7;
    pub(in crate::parallel) const VARIABLE_LENGTH: i32 = 9;
    pub(in crate::parallel) const ARRAY: i32 = 10;
}

/// What of a type is no value but a place in memory or in the file, in words. `None` also if HDF5 does not tell.
pub(in crate::parallel) fn pointers(host: &CallerHdf5, datatype: Hid) -> Option<&'static str> {
    // SAFETY: the type is open, here and below; what is made is closed when dropped.
    match unsafe { host.type_class?(datatype) } {
        code::VARIABLE_LENGTH => Some("of variable length"),
        // SAFETY: as above.
        code::STRING => (unsafe { host.is_variable_string?(datatype) } > 0).then_some("strings of variable length"),
        code::REFERENCE => Some("references"),
        code::ARRAY => {
            // SAFETY: as above.
            let base = Owned::new(host, unsafe { host.base_type?(datatype) }, Close::Reference)?;
            pointers(host, base.id)
        }
        COMPOUND => {
            // SAFETY: as above.
            let count = u32::try_from(unsafe { host.member_count?(datatype) }).ok()?;
            (0..count).find_map(|number| {
                // SAFETY: as above.
                let member = Owned::new(host, unsafe { host.member_type?(datatype, number) }, Close::Reference)?;
                pointers(host, member.id)
            })
        }
        _ => None,
    }
}

/// A conversion.
pub(in crate::parallel) struct Conversion<'h> {
    host: &'h CallerHdf5,
    from: (Hid, usize),
    to: (Hid, usize),
    /// The program's transfer list, which may have a say in what overflows.
    transfer: Hid,
}

impl<'h> Conversion<'h> {
    /// From one type to another, each with its size in bytes; `Ok(None)` if they are equal.
    ///
    /// # Errors
    /// HDF5 does not tell.
    pub(in crate::parallel) fn between(
        host: &'h CallerHdf5,
        from: (Hid, usize),
        to: (Hid, usize),
        transfer: Hid,
    ) -> Result<Option<Self>, ()> {
        let equal = host.types_equal.ok_or(())?;
        // SAFETY: both types are open.
        match unsafe { equal(from.0, to.0) } {
            0 => Ok(Some(Self { host, from, to, transfer })),
            1.. => Ok(None),
            _ => Err(()),
        }
    }

    /// True if members that `from` lacks keep the values that they have.
    pub(in crate::parallel) fn keeps_members(&self) -> bool {
        // SAFETY: the type is open.
        self.host.type_class.is_some_and(|class| unsafe { class(self.to.0) } == COMPOUND)
    }

    /// Converts elements. `kept` are those that are there now, for members that `from` lacks; or empty, and those are zeros.
    /// `None` if HDF5 refuses.
    pub(in crate::parallel) fn run(&self, values: &[u8], kept: &[u8]) -> Option<Vec<u8>> {
        let count = values.len() / self.from.1;
        let mut room = vec![0u8; count.checked_mul(self.from.1.max(self.to.1))?];
        room.get_mut(..values.len())?.copy_from_slice(values);
        let mut kept = if kept.is_empty() { vec![0; count.checked_mul(self.to.1)?] } else { kept.to_vec() };
        let kept = kept.as_mut_ptr().cast::<c_void>();
        let convert = self.host.convert?;
        // SAFETY: there is room for all elements in the larger of both types; what is kept is of the other one.
        let done = unsafe { convert(self.from.0, self.to.0, count, room.as_mut_ptr().cast(), kept, self.transfer) };
        room.truncate(count * self.to.1);
        (done >= 0).then_some(room)
    }
}
