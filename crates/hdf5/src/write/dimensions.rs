//! Dimensions of a netCDF-4 file that is built from a model: which dataset stands for which dimension.

use std::collections::{HashMap, HashSet};

use crate::model::names::NON_COORDINATE;
use crate::model::paths::child_path;
use crate::sys::{Address, Datatype, File, Object, Space};
use crate::write::write_attribute::put_terminated;
use knarr_array::array::{DType, Endian};
use knarr_array::error::{Error, Result};
use knarr_array::model::{Dimension, Model, Variable};

/// All dimensions, numbered as in `_Netcdf4Dimid`.
#[derive(Debug)]
pub(crate) struct DimensionPlan {
    dimensions: Vec<Planned>,
    /// Dimension per axis of each variable.
    axes: Vec<Vec<usize>>,
    /// Dimensions by path of their group and name.
    named: HashMap<String, HashMap<String, usize>>,
    /// Dimensions of each group that no variable stands for.
    lone: HashMap<usize, Vec<usize>>,
}

#[derive(Debug)]
struct Planned {
    dimension: Dimension,
    group: usize,
    /// The variable that holds its coordinates.
    coordinate: Option<usize>,
}

/// Path of the group a variable is in, and its name.
fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((group, name)) => (group, name),
        None => ("/", path),
    }
}

impl DimensionPlan {
    /// Numbers the dimensions of `model`, finds the one of each axis, and invents one for axes without a name.
    pub(crate) fn new(model: &Model) -> Result<Self> {
        let mut plan = Self { dimensions: Vec::new(), axes: Vec::new(), named: HashMap::new(), lone: HashMap::new() };
        let mut by_path: HashMap<(&str, &str), usize> = HashMap::new();
        for (group, description) in model.groups.iter().enumerate() {
            for dimension in &description.dimensions {
                by_path.insert((&description.path, &dimension.name), plan.dimensions.len());
                plan.dimensions.push(Planned { dimension: dimension.clone(), group, coordinate: None });
            }
        }
        let taken: HashSet<String> = plan.dimensions.iter().map(|planned| planned.dimension.name.clone()).collect();
        let mut names = (0..).map(|n| format!("phony_dim_{n}")).filter(|name| !taken.contains(name));
        let mut invented: HashMap<(u64, bool), usize> = HashMap::new();
        for variable in &model.variables {
            let mut axes = Vec::new();
            for (axis, len) in variable.shape.iter().enumerate() {
                let unlimited = variable.max_shape.get(axis) == Some(&None);
                let named = variable.dimensions.get(axis).and_then(Option::as_deref);
                let number = match named.and_then(|name| find(&by_path, split(&variable.path).0, name)) {
                    Some(number) => number,
                    None => *invented
                        .entry((*len, unlimited))
                        .or_insert_with(|| plan.invent(names.next().unwrap_or_default(), *len, unlimited)),
                };
                axes.push(number);
            }
            plan.axes.push(axes);
        }
        for (index, variable) in model.variables.iter().enumerate() {
            let (group, name) = split(&variable.path);
            let first = plan.axes.get(index).and_then(|axes| axes.first().copied());
            if let Some(planned) = first.and_then(|number| plan.dimensions.get_mut(number))
                && planned.dimension.name == name
                && model.groups.get(planned.group).is_some_and(|found| found.path == group)
            {
                planned.coordinate = Some(index);
            }
        }
        for (number, planned) in plan.dimensions.iter().enumerate() {
            if planned.coordinate.is_none() {
                plan.lone.entry(planned.group).or_default().push(number);
            }
            if let Some(group) = model.groups.get(planned.group) {
                plan.named.entry(group.path.clone()).or_default().insert(planned.dimension.name.clone(), number);
            }
        }
        Ok(plan)
    }

    fn invent(&mut self, name: String, len: u64, unlimited: bool) -> usize {
        let number = self.dimensions.len();
        let dimension = Dimension { name, len, unlimited };
        self.dimensions.push(Planned { dimension, group: 0, coordinate: None });
        number
    }

    /// Dimensions of group number `group` that no variable stands for.
    pub(crate) fn lone(&self, group: usize) -> &[usize] {
        self.lone.get(&group).map_or(&[], Vec::as_slice)
    }

    /// Dimension number `number`, which must be one of this plan.
    pub(crate) fn dimension(&self, number: usize) -> &Dimension {
        &self.dimensions[number].dimension
    }

    /// Path of the dataset of variable number `index`.
    pub(crate) fn dataset_path(&self, model: &Model, index: usize) -> Vec<u8> {
        let Some(variable) = model.variables.get(index) else { return Vec::new() };
        let (group, name) = split(&variable.path);
        let namesake = self.named.get(group).and_then(|names| self.dimensions.get(*names.get(name)?));
        let clash = namesake.is_some_and(|planned| planned.coordinate != Some(index));
        let name = if clash { format!("{NON_COORDINATE}{name}") } else { name.to_owned() };
        child_path(group.as_bytes(), name.as_bytes())
    }
}

/// The dimension called `name` in `group` or the nearest group above it.
fn find(by_path: &HashMap<(&str, &str), usize>, mut group: &str, name: &str) -> Option<usize> {
    loop {
        if let Some(number) = by_path.get(&(group, name)) {
            return Some(*number);
        }
        if group == "/" || group.is_empty() {
            return None;
        }
        group = split(group).0;
    }
}

/// Dimension scales of the new file and the datasets that use them.
#[derive(Debug, Default)]
pub(crate) struct Scales {
    /// Address and path per dimension.
    made: HashMap<usize, (Address, Vec<u8>)>,
    /// Datasets that are no scales: path, address, dimension per axis.
    users: Vec<(Vec<u8>, Address, Vec<usize>)>,
}

impl Scales {
    /// Makes a dataset the scale of dimension `number`.
    pub(crate) fn mark(&mut self, object: &Object, number: usize, label: &str, path: Vec<u8>) -> Result<()> {
        put_terminated(object, "CLASS", "DIMENSION_SCALE")?;
        put_terminated(object, "NAME", label)?;
        put_ids(object, "_Netcdf4Dimid", &[number], true)?;
        self.made.insert(number, (object.address()?, path));
        Ok(())
    }

    /// Takes in the dataset of variable number `index`.
    pub(crate) fn add(
        &mut self,
        plan: &DimensionPlan,
        index: usize,
        variable: &Variable,
        object: &Object,
    ) -> Result<()> {
        let Some(axes) = plan.axes.get(index) else { return Ok(()) };
        let path = object.path()?;
        match axes.first() {
            None => Ok(()),
            Some(first) if plan.dimensions.get(*first).is_some_and(|found| found.coordinate == Some(index)) => {
                self.mark(object, *first, split(&variable.path).1, path)?;
                // A scale cannot have scales, so further axes are named by number.
                if axes.len() > 1 { put_ids(object, "_Netcdf4Coordinates", axes, false) } else { Ok(()) }
            }
            Some(_) => {
                self.users.push((path, object.address()?, axes.clone()));
                Ok(())
            }
        }
    }

    /// Attaches scales to their users, as `H5DSattach_scale` does.
    pub(crate) fn attach(&self, file: &File) -> Result<()> {
        let lists = Datatype::object_reference()?.sequences()?;
        let reference = Datatype::object_reference()?;
        let number = Datatype::of(DType::I32, Endian::Little)?;
        let back = Datatype::compound(16, &[(c"dataset", 0, &reference), (c"dimension", 8, &number)])?;
        let mut back_references: HashMap<usize, Vec<u8>> = HashMap::new();
        for (path, address, axes) in &self.users {
            let mut scales = Vec::new();
            for (axis, dimension) in axes.iter().enumerate() {
                let (scale, _) =
                    self.made.get(dimension).ok_or_else(|| Error::internal("a dimension was not written"))?;
                scales.push(vec![*scale]);
                let entry = back_references.entry(*dimension).or_default();
                entry.extend_from_slice(&address.0.to_le_bytes());
                entry.extend_from_slice(&u32::try_from(axis).unwrap_or(u32::MAX).to_le_bytes());
                entry.extend_from_slice(&[0; 4]);
            }
            let space = Space::simple(&[axes.len() as u64], &[])?;
            file.object_at_path(path)?
                .create_attribute(b"DIMENSION_LIST", &lists, &space, None)?
                .write_reference_sequences(&lists, &scales)?;
        }
        let mut numbers: Vec<_> = back_references.into_iter().collect();
        numbers.sort_unstable_by_key(|(dimension, _)| *dimension);
        for (dimension, entries) in numbers {
            let Some((_, path)) = self.made.get(&dimension) else { continue };
            let space = Space::simple(&[entries.len() as u64 / 16], &[])?;
            file.object_at_path(path)?
                .create_attribute(b"REFERENCE_LIST", &back, &space, None)?
                .write_bytes(&back, &entries)?;
        }
        Ok(())
    }
}

fn put_ids(object: &Object, name: &str, numbers: &[usize], scalar: bool) -> Result<()> {
    let datatype = Datatype::of(DType::I32, Endian::Little)?;
    let space = if scalar { Space::scalar()? } else { Space::simple(&[numbers.len() as u64], &[])? };
    let bytes: Vec<u8> =
        numbers.iter().flat_map(|number| u32::try_from(*number).unwrap_or(u32::MAX).to_le_bytes()).collect();
    object.create_attribute(name.as_bytes(), &datatype, &space, None)?.write_bytes(&datatype, &bytes)
}
