//! A file that a program has handed over with HDF5: a header whose datasets have no values, and the puts of all ranks.

use std::collections::HashMap;
use std::path::Path;

use super::scan::Place;
use super::source::{FilterResolver, Hdf5Source};
use super::sys::{Address, grow};
use knarr_array::error::{Error, Result};
use knarr_handover::Gathered;

impl Hdf5Source {
    /// Opens a header. A put is for the dataset that `addresses` has at its number; `None` is one that was removed. In the
    /// eyes of the program the file is `target`. If it was not closed, the header may not know how far datasets have grown,
    /// nor all of them; puts tell, and those into datasets that it does not know are left out.
    ///
    /// # Errors
    /// As for [`Hdf5Source::open`]; `Corrupt` for puts that make no sense.
    pub fn handed_over(
        header: &Path,
        (puts, addresses): (Gathered, &[Option<u64>]),
        target: &Path,
        is_closed: bool,
        resolver: Box<dyn FilterResolver>,
    ) -> Result<Self> {
        if !is_closed {
            grow(header, &ends(&puts, addresses)?)?;
        }
        let mut source = Self::open_unlocked(header, resolver)?;
        let mut indices = vec![None; addresses.len()];
        let numbers = addresses.iter().enumerate().filter_map(|(number, address)| Some(((*address)?, number)));
        let numbers: HashMap<u64, usize> = numbers.collect();
        for (index, stored) in source.stored.iter_mut().enumerate() {
            let number = numbers.get(&stored.address.0).copied();
            let has_values = source.model.variables[index].layout != knarr_array::model::StorageLayout::Null;
            if let Some(number) = number.filter(|_| has_values && !matches!(stored.place, Place::Pointers(_))) {
                stored.place = Place::Puts(number);
                indices[number] = Some(index);
                source.put_variables.insert(stored.address, index);
            }
        }
        let checked = puts.check(|number, put| {
            let index = match addresses.get(number) {
                None if is_closed => return Err(Error::corrupt("a put into no dataset of the header")),
                None | Some(None) => return Ok(()),
                Some(Some(_)) => {
                    indices[number].ok_or_else(|| Error::corrupt("a put into a dataset that is not there"))?
                }
            };
            let variable = &source.model.variables[index];
            if put.dtype.size() != variable.dtype.size() || put.region.start.len() != variable.shape.len() {
                let what = "a put of another size or rank than its dataset";
                return Err(Error::corrupt(what).at_variable(variable.name()));
            }
            Ok(())
        });
        checked.map_err(|error| error.at(target.display().to_string()))?;
        target.clone_into(&mut source.path);
        source.puts = puts;
        Ok(source)
    }

    /// True if values are not in the file but among the puts of a program.
    pub fn is_handed_over(&self) -> bool {
        !self.put_variables.is_empty()
    }

    /// The number of the variable at an address, if its values were put.
    pub(super) fn put_variable(&self, address: Address) -> Option<usize> {
        self.put_variables.get(&address).copied()
    }
}

/// How far puts reach into each dataset.
fn ends(puts: &Gathered, addresses: &[Option<u64>]) -> Result<Vec<(Address, Vec<u64>)>> {
    let mut ends: Vec<Vec<u64>> = vec![Vec::new(); addresses.len()];
    puts.check(|number, put| {
        let (Some(ends), extent) = (ends.get_mut(number), put.extent()) else { return Ok(()) };
        ends.resize(extent.start.len(), 0);
        ends.iter_mut().enumerate().for_each(|(axis, end)| *end = (*end).max(extent.end(axis)));
        Ok(())
    })?;
    Ok(addresses.iter().zip(ends).filter_map(|(address, ends)| Some((Address((*address)?), ends))).collect())
}
