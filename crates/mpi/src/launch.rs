//! Whether mpirun started this process, and the adapter for its MPI.

use std::path::{Path, PathBuf};

use knarr_core::comm::Comm;
use knarr_core::error::{Error, ErrorKind, Result};

use crate::table::Mpi;

/// Environment variable that names the adapter: `openmpi`, `mpich`, or a path; `none` lets each process work alone.
pub const NAMED_BY: &str = "KNARR_MPI";

/// MPIs with an ABI of their own, with the variables by which their launchers tell size and rank. Others share that of
/// MPICH.
const KNOWN: [(&str, &str, &str); 2] =
    [("openmpi", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("mpich", "PMI_SIZE", "PMI_RANK")];
/// Slurm's srun with PMIx does not say which MPI it starts.
const ANY: (&str, &str) = ("SLURM_STEP_NUM_TASKS", "PMIX_RANK");

/// How this process was started as one of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Number of this process.
    pub rank: usize,
    /// Number of processes, at least 2.
    pub size: usize,
    adapter: Named,
}

/// What is known of the adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    Path(PathBuf),
    /// One for an MPI of one of these names.
    For(Vec<String>),
}

impl Launch {
    /// What the environment says; `None` for a process that was started alone, or shall work alone.
    ///
    /// # Errors
    /// `Usage` if [`NAMED_BY`] is no name of an MPI.
    pub fn of_environment() -> Result<Option<Self>> {
        Self::of(&|name| std::env::var(name).ok())
    }

    fn of(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let number = |name: &str| variable(name)?.parse::<usize>().ok();
        let known = KNOWN.iter().find_map(|&(name, size, rank)| Some((vec![name], number(size)?, number(rank)?)));
        let any = || Some((KNOWN.iter().map(|&(name, ..)| name).collect(), number(ANY.0)?, number(ANY.1)?));
        let Some((names, size, rank)) = known.or_else(any).filter(|&(_, size, rank)| size > 1 && rank < size) else {
            return Ok(None);
        };
        let adapter = match variable(NAMED_BY).filter(|named| !named.is_empty()) {
            None => Named::For(names.into_iter().map(str::to_owned).collect()),
            Some(none) if none == "none" => return Ok(None),
            Some(path) if path.contains('/') => Named::Path(path.into()),
            Some(name) if KNOWN.iter().any(|&(known, ..)| known == name) => Named::For(vec![name]),
            Some(other) => {
                return Err(Error::usage(format!("{NAMED_BY} is '{other}'"))
                    .mend("say openmpi, mpich or none, or give the path of an adapter"));
            }
        };
        Ok(Some(Self { rank, size, adapter }))
    }

    /// Starts MPI. Collective. When what is returned is dropped, MPI ends.
    ///
    /// # Errors
    /// `NotFound` if there is no adapter; `Usage` if more than one may be meant, or it is of another MPI than mpirun;
    /// `Unsupported` if it cannot be loaded; `Internal` for what MPI reports.
    pub fn join(&self) -> Result<Mpi> {
        let path = self.adapter(&directories())?;
        let place = |error: Error| error.at(path.display().to_string());
        let mpi = Mpi::start(&path).map_err(place)?;
        if mpi.size() != self.size {
            let why = format!("it sees {} processes where mpirun started {}", mpi.size(), self.size);
            return Err(place(
                Error::usage(why).mend(format!("name the adapter for the MPI of this mpirun in {NAMED_BY}")),
            ));
        }
        Ok(mpi)
    }

    fn adapter(&self, directories: &[PathBuf]) -> Result<PathBuf> {
        let names = match &self.adapter {
            Named::Path(path) => return Ok(path.clone()),
            Named::For(names) => names,
        };
        let find = |name: &String| {
            directories.iter().map(|directory| directory.join(file_name(name))).find(|path| path.exists())
        };
        let mut found = names.iter().filter_map(find);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (Some(_), Some(_)) => Err(Error::usage("this launcher does not say which MPI it is of")
                .mend(format!("set {NAMED_BY} to openmpi or mpich"))),
            (None, _) => {
                let files: Vec<String> = names.iter().map(|name| file_name(name)).collect();
                let size = self.size;
                Err(Error::new(
                    ErrorKind::NotFound,
                    format!("started as one of {size} processes, but there is no {} beside knarr", files.join(" or ")),
                )
                .mend(format!(
                    "build it with this MPI (tools/build-mpi.sh), or name it in {NAMED_BY}; {NAMED_BY}=none lets each \
                     process work alone"
                )))
            }
        }
    }
}

fn file_name(mpi: &str) -> String {
    format!("libknarr_mpi-{mpi}.so")
}

/// Where adapters are looked for: beside the program, and in `lib` beside its directory.
fn directories() -> Vec<PathBuf> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize());
    let beside = program.ok().as_deref().and_then(Path::parent).map(Path::to_owned);
    beside.into_iter().flat_map(|beside| [beside.clone(), beside.join("../lib")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(variables: &[(&str, &str)]) -> Result<Option<Launch>> {
        Launch::of(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn launchers_are_known_by_what_they_set() {
        let openmpi = [("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "3"), ("PMIX_RANK", "3")];
        let named = |names: &[&str]| Named::For(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(launch(&openmpi).unwrap(), Some(Launch { rank: 3, size: 4, adapter: named(&["openmpi"]) }));
        let mpich = launch(&[("PMI_SIZE", "2"), ("PMI_RANK", "0")]).unwrap();
        assert_eq!(mpich, Some(Launch { rank: 0, size: 2, adapter: named(&["mpich"]) }));
        let slurm = launch(&[("SLURM_STEP_NUM_TASKS", "2"), ("PMIX_RANK", "1")]).unwrap();
        assert_eq!(slurm, Some(Launch { rank: 1, size: 2, adapter: named(&["openmpi", "mpich"]) }));
        // A batch script of Slurm is no rank, and a process alone needs no MPI.
        for alone in [&[][..], &[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")], &[("PMI_SIZE", "1"), ("PMI_RANK", "0")]]
        {
            assert_eq!(launch(alone).unwrap(), None);
        }
    }

    #[test]
    fn the_user_may_name_the_adapter() {
        let named = |named| launch(&[("PMI_SIZE", "2"), ("PMI_RANK", "0"), (NAMED_BY, named)]);
        assert_eq!(named("openmpi").unwrap().unwrap().adapter, Named::For(vec!["openmpi".to_owned()]));
        assert_eq!(named("/opt/a.so").unwrap().unwrap().adapter, Named::Path("/opt/a.so".into()));
        assert_eq!(named("none").unwrap(), None);
        assert_eq!(named("lam").unwrap_err().kind(), ErrorKind::Usage);
    }

    #[test]
    fn adapters_are_found_or_asked_for() {
        let folder = std::env::temp_dir().join(format!("knarr-adapters-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let directories = ["/nowhere".into(), folder.clone()];
        let any = launch(&[("SLURM_STEP_NUM_TASKS", "2"), ("PMIX_RANK", "1")]).unwrap().unwrap();
        let error = any.adapter(&directories).unwrap_err().to_string();
        assert!(error.contains("no libknarr_mpi-openmpi.so or libknarr_mpi-mpich.so"), "{error}");
        std::fs::write(folder.join("libknarr_mpi-mpich.so"), "").unwrap();
        assert_eq!(any.adapter(&directories).unwrap(), folder.join("libknarr_mpi-mpich.so"));
        std::fs::write(folder.join("libknarr_mpi-openmpi.so"), "").unwrap();
        assert_eq!(any.adapter(&directories).unwrap_err().kind(), ErrorKind::Usage);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
