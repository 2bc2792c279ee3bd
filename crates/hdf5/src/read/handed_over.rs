//! Headers whose datasets have no values: those come beside it, from the puts of all ranks of a program, or as they are
//! computed.

use std::collections::HashMap;
use std::path::Path;

use crate::model::scan::{Stored, ValueLocation};
use crate::read::source::{FilterResolver, Hdf5Source};
use crate::sys::{Address, grow};
use knarr_array::error::{Error, Result};
use knarr_array::model::Model;
use knarr_array::region::Region;
use knarr_codec::codec::CodecList;
use knarr_flow::ahead::Ahead;
use knarr_flow::remote_encoder::{ChunkToEncode, PendingChunk, Proven, RemoteEncoder};
use knarr_flow::reserved::ReservedOffset;
use knarr_flow::store::Values;
use knarr_handover::AssembledPuts;
use knarr_input::header::{ExternalValues, set_external};

/// How far a file is that was handed over, and how it was written.
#[derive(Debug, Clone, Copy)]
pub struct Handed {
    /// The program has closed it.
    pub is_closed: bool,
    /// One process has written it without MPI: what nobody wrote has no room in the file.
    pub is_serial: bool,
}

impl Hdf5Source {
    /// Opens a header. A put is for the dataset that `addresses` has at its number; `None` is one that was removed. In the
    /// eyes of the program the file is `target`. If it was not closed, the header may not know how far datasets have grown,
    /// nor all of them; puts tell, and those into datasets that it does not know are left out.
    ///
    /// # Errors
    /// As for [`Hdf5Source::open`]; `Corrupt` for puts that make no sense.
    pub fn handed_over(
        header: &Path,
        (puts, addresses): (AssembledPuts, &[Option<u64>]),
        target: &Path,
        Handed { is_closed, is_serial }: Handed,
        resolver: Box<dyn FilterResolver>,
    ) -> Result<Self> {
        let puts = puts.with_gaps(is_serial);
        if !is_closed {
            grow(header, &ends(&puts, addresses)?)?;
        }
        let mut source = Self::open_unlocked(header, resolver)?;
        let mut indices = vec![None; addresses.len()];
        let numbers = addresses.iter().enumerate().filter_map(|(number, address)| Some(((*address)?, number)));
        let numbers: HashMap<u64, usize> = numbers.collect();
        // All datasets of the header are known: one that is not there was removed, and what was put into it with it.
        let mut are_known = true;
        for (index, stored) in source.stored.iter_mut().enumerate() {
            let number = numbers.get(&stored.address.0).copied();
            let has_values = source.model.variables[index].layout != knarr_array::model::StorageLayout::Null;
            if !has_values || matches!(stored.place, ValueLocation::Pointers(_)) {
                continue;
            }
            are_known &= number.is_some();
            if let Some(number) = number {
                stored.place = ValueLocation::External(number);
                indices[number] = Some(index);
                source.variables_apart.insert(stored.address, index);
            }
        }
        let checked = puts.check(|number, put| {
            let index = match addresses.get(number) {
                None if is_closed => return Err(Error::corrupt("a put into no dataset of the header")),
                None | Some(None) => return Ok(()),
                Some(Some(_)) => match indices[number] {
                    Some(index) => index,
                    None if are_known => return Ok(()),
                    None => return Err(Error::corrupt("a put into a dataset that is not there")),
                },
            };
            let variable = &source.model.variables[index];
            if put.dtype.size() != variable.dtype.size() || put.boxes.axes() != variable.shape.len() {
                let what = "a put of another size or rank than its dataset";
                return Err(Error::corrupt(what).at_variable(variable.name()));
            }
            Ok(())
        });
        checked.map_err(|error| error.at(target.display().to_string()))?;
        for (number, index) in indices.iter().enumerate() {
            if let Some(variable) = index.and_then(|index| source.model.variables.get_mut(index)) {
                variable.block = puts.usual_extents(number)?;
            }
        }
        target.clone_into(&mut source.path);
        source.external = Box::new(puts);
        source.is_header = true;
        source.is_parallel = !is_serial;
        source.is_serial = is_serial;
        Ok(source)
    }

    /// What a header describes, and which of the variables lies at each of these addresses.
    ///
    /// # Errors
    /// As for [`Hdf5Source::open`].
    pub fn described(
        header: &Path,
        addresses: &[Option<u64>],
        resolver: Box<dyn FilterResolver>,
    ) -> Result<(Model, Vec<Option<usize>>)> {
        let source = Self::open_unlocked(header, resolver)?;
        let indices: HashMap<u64, usize> =
            source.stored.iter().enumerate().map(|(index, stored)| (stored.address.0, index)).collect();
        let find = |address: &Option<u64>| indices.get(address.as_ref()?).copied();
        Ok((source.model.clone(), addresses.iter().map(find).collect()))
    }

    /// Opens a header. The values of the variables `external` come from `values`, by their places in that list. In messages the
    /// file is called `name`.
    ///
    /// # Errors
    /// As for [`Hdf5Source::open`]; `Internal` if the header lacks one of the variables.
    pub fn header(
        header: &Path,
        name: &Path,
        (external, values): (&[ExternalValues], Box<dyn Values>),
        resolver: Box<dyn FilterResolver>,
    ) -> Result<Self> {
        let mut source = Self::open(header, resolver)?;
        for (number, index) in set_external(&mut source.model, external)?.into_iter().enumerate() {
            source.stored[index].place = ValueLocation::External(number);
            source.variables_apart.insert(source.stored[index].address, index);
        }
        name.clone_into(&mut source.path);
        source.external = values;
        source.is_header = true;
        Ok(source)
    }

    /// True if it only describes values that come beside it. Its bytes are no copy of anything then, though it may have no
    /// variable at all.
    pub fn is_header(&self) -> bool {
        self.is_header
    }

    /// The number of the variable at an address, if its values come beside the file.
    pub(crate) fn variable_apart(&self, address: Address) -> Option<usize> {
        self.variables_apart.get(&address).copied()
    }
}

impl Hdf5Source {
    /// The number that a variable has where its values are, if they come beside the file, and how it is stored.
    fn stored_apart(&self, variable: usize) -> Option<(usize, &Stored)> {
        let stored = self.stored.get(variable)?;
        match stored.place {
            ValueLocation::External(number) => Some((number, stored)),
            _ => None,
        }
    }

    /// The same, and the other nodes that have the values.
    fn remote_encoder_of(&self, variable: usize) -> Option<(&dyn RemoteEncoder, usize, &Stored)> {
        let (number, stored) = self.stored_apart(variable)?;
        Some((self.external.remote_encoder()?, number, stored))
    }

    /// The same, and who keeps chunks that were encoded before.
    fn kept_ahead(&self, variable: usize) -> Option<(&dyn Ahead, usize, &Stored)> {
        let (number, stored) = self.stored_apart(variable)?;
        Some((self.external.ahead()?, number, stored))
    }
}

impl Ahead for Hdf5Source {
    fn encode(&self, codecs: &CodecList, chunk: &ChunkToEncode<'_>) -> Result<()> {
        let Some((values, number, stored)) = self.kept_ahead(chunk.variable) else { return Ok(()) };
        values.encode(codecs, &ChunkToEncode { variable: number, padding: &stored.padding, ..*chunk })
    }

    fn find(&self, chunk: &ChunkToEncode<'_>, out: &mut Vec<u8>) -> Result<Option<Proven>> {
        let Some((values, number, stored)) = self.kept_ahead(chunk.variable) else { return Ok(None) };
        values.find(&ChunkToEncode { variable: number, padding: &stored.padding, ..*chunk }, out)
    }
}

impl RemoteEncoder for Hdf5Source {
    fn nodes(&self) -> usize {
        self.external.remote_encoder().map_or(0, RemoteEncoder::nodes)
    }

    fn node_of(&self, variable: usize, region: &Region) -> Option<usize> {
        let (values, number, _) = self.remote_encoder_of(variable)?;
        values.node_of(number, region)
    }

    fn encode(
        &self,
        node: usize,
        chunk: &ChunkToEncode<'_>,
        may_keep: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Proven>> {
        let Some((values, number, stored)) = self.remote_encoder_of(chunk.variable) else { return Ok(None) };
        let chunk = ChunkToEncode { variable: number, padding: &stored.padding, ..*chunk };
        values.encode(node, &chunk, may_keep, out)
    }

    fn write(&self, node: usize, chunks: &[(PendingChunk, ReservedOffset)]) -> bool {
        self.external.remote_encoder().is_some_and(|values| values.write(node, chunks))
    }

    fn sync(&self, node: usize) -> Result<()> {
        let values = self.external.remote_encoder().ok_or_else(|| Error::internal("there are no other places"))?;
        values.sync(node)
    }
}

/// How far puts reach into each dataset.
fn ends(puts: &AssembledPuts, addresses: &[Option<u64>]) -> Result<Vec<(Address, Vec<u64>)>> {
    let mut ends: Vec<Vec<u64>> = vec![Vec::new(); addresses.len()];
    puts.check(|number, put| {
        let (Some(ends), extent) = (ends.get_mut(number), put.extent()) else { return Ok(()) };
        ends.resize(extent.start.len(), 0);
        ends.iter_mut().enumerate().for_each(|(axis, end)| *end = (*end).max(extent.end(axis)));
        Ok(())
    })?;
    Ok(addresses.iter().zip(ends).filter_map(|(address, ends)| Some((Address((*address)?), ends))).collect())
}
