//! Whether mpirun started this process, and the adapter for its MPI.

use std::path::{Path, PathBuf};

use knarr_array::comm::Comm;
use knarr_array::error::{Error, ErrorKind, Result};

use crate::table::Mpi;

/// Environment variable that names the adapter: `openmpi`, `mpich`, or a path; `none` lets each process work alone.
pub const NAMED_BY: &str = "KNARR_MPI";

/// MPIs with an ABI of their own, with the variables by which their launchers tell size and rank. Others share that of
/// MPICH.
const KNOWN: [(&str, &str, &str); 2] =
    [("openmpi", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("mpich", "PMI_SIZE", "PMI_RANK")];
/// Slurm's srun with PMIx does not say which MPI it starts.
const ANY: (&str, &str) = ("SLURM_STEP_NUM_TASKS", "PMIX_RANK");

/// By these launchers tell the number of a process among those of its node.
const LOCAL_RANKS: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"];

/// How this process was started as one of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Number of this process.
    pub rank: usize,
    /// Number of processes, at least 2.
    pub size: usize,
    /// Number of this process among those of its node; 0 where the launcher does not say.
    pub local_rank: usize,
    adapter: Named,
}

/// What is known of the adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    Path(PathBuf),
    /// One for an MPI of one of these names.
    For(Vec<String>),
    /// What is no name of an MPI.
    Unknown(String),
}

impl Launch {
    /// What the environment says; `None` for a process that was started alone, or shall work alone.
    pub fn of_environment() -> Option<Self> {
        Self::of(&|name| std::env::var(name).ok())
    }

    fn of(variable: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.parse::<usize>().ok();
        let known = KNOWN.iter().find_map(|&(name, size, rank)| Some((vec![name], number(size)?, number(rank)?)));
        let any = || Some((KNOWN.iter().map(|&(name, ..)| name).collect(), number(ANY.0)?, number(ANY.1)?));
        let (names, size, rank) = known.or_else(any).filter(|&(_, size, rank)| size > 1 && rank < size)?;
        let adapter = match variable(NAMED_BY).filter(|named| !named.is_empty()) {
            None => Named::For(names.into_iter().map(str::to_owned).collect()),
            Some(none) if none == "none" => return None,
            Some(path) if path.contains('/') => Named::Path(path.into()),
            Some(name) if KNOWN.iter().any(|&(known, ..)| known == name) => Named::For(vec![name]),
            Some(other) => Named::Unknown(other),
        };
        let local_rank = LOCAL_RANKS.into_iter().find_map(number).unwrap_or(0);
        Some(Self { rank, size, local_rank, adapter })
    }

    /// Starts MPI. Collective. When what is returned is dropped, MPI ends.
    ///
    /// # Errors
    /// `NotFound` if there is no adapter; `Usage` if [`NAMED_BY`] names no MPI, more than one may be meant, or it is of
    /// another MPI than mpirun; `Unsupported` if it cannot be loaded; `Internal` for what MPI reports.
    pub fn join(&self) -> Result<Mpi> {
        let path = self.adapter(&directories())?;
        let place = |error: Error| error.at(path.display().to_string());
        let mpi = Mpi::start(&path).map_err(place)?;
        if mpi.size() != self.size {
            let why = format!("it sees {} processes where mpirun started {}", mpi.size(), self.size);
            return Err(place(
                Error::usage(why).hint(format!("name the adapter for the MPI of this mpirun in {NAMED_BY}")),
            ));
        }
        Ok(mpi)
    }

    fn adapter(&self, directories: &[PathBuf]) -> Result<PathBuf> {
        let names = match &self.adapter {
            Named::Path(path) => return Ok(path.clone()),
            Named::For(names) => names,
            Named::Unknown(other) => {
                return Err(Error::usage(format!("{NAMED_BY} is '{other}'"))
                    .hint("say openmpi, mpich or none, or give the path of an adapter"));
            }
        };
        let find = |name: &String| {
            directories.iter().map(|directory| directory.join(file_name(name))).find(|path| path.exists())
        };
        let mut found = names.iter().filter_map(find);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (Some(_), Some(_)) => Err(Error::usage("this launcher does not say which MPI it is of")
                .hint(format!("set {NAMED_BY} to openmpi or mpich"))),
            (None, _) => {
                let files: Vec<String> = names.iter().map(|name| file_name(name)).collect();
                let size = self.size;
                Err(Error::new(
                    ErrorKind::NotFound,
                    format!("started as one of {size} processes, but there is no {} beside knarr", files.join(" or ")),
                )
                .hint(format!(
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

/// Where adapters are looked for: beside the program, and in `lib/knarr` next to its directory.
fn directories() -> Vec<PathBuf> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize());
    let beside = program.ok().as_deref().and_then(Path::parent).map(Path::to_owned);
    beside.into_iter().flat_map(|beside| [beside.clone(), beside.join("../lib/knarr")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(variables: &[(&str, &str)]) -> Option<Launch> {
        Launch::of(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn launchers_are_known_by_what_they_set() {
        let openmpi = [
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("PMIX_RANK", "3"),
        ];
        let named = |names: &[&str]| Named::For(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(launch(&openmpi), Some(Launch { rank: 3, size: 4, local_rank: 1, adapter: named(&["openmpi"]) }));
        let mpich = launch(&[("PMI_SIZE", "2"), ("PMI_RANK", "0")]);
        assert_eq!(mpich, Some(Launch { rank: 0, size: 2, local_rank: 0, adapter: named(&["mpich"]) }));
        let slurm = launch(&[("SLURM_STEP_NUM_TASKS", "2"), ("PMIX_RANK", "1")]);
        assert_eq!(slurm, Some(Launch { rank: 1, size: 2, local_rank: 0, adapter: named(&["openmpi", "mpich"]) }));
        // A batch script of Slurm is no rank, and a process alone needs no MPI.
        for alone in [&[][..], &[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")], &[("PMI_SIZE", "1"), ("PMI_RANK", "0")]]
        {
            assert_eq!(launch(alone), None);
        }
    }

    #[test]
    fn the_user_may_name_the_adapter() {
        let named = |named| launch(&[("PMI_SIZE", "2"), ("PMI_RANK", "0"), (NAMED_BY, named)]);
        assert_eq!(named("openmpi").unwrap().adapter, Named::For(vec!["openmpi".to_owned()]));
        assert_eq!(named("/opt/a.so").unwrap().adapter, Named::Path("/opt/a.so".into()));
        assert_eq!(named("none"), None);
        assert_eq!(named("lam").unwrap().adapter(&[]).unwrap_err().kind(), ErrorKind::Usage);
    }

    #[test]
    fn adapters_are_found_or_asked_for() {
        let folder = std::env::temp_dir().join(format!("knarr-adapters-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let directories = ["/nowhere".into(), folder.clone()];
        let any = launch(&[("SLURM_STEP_NUM_TASKS", "2"), ("PMIX_RANK", "1")]).unwrap();
        let error = any.adapter(&directories).unwrap_err().to_string();
        assert!(error.contains("no libknarr_mpi-openmpi.so or libknarr_mpi-mpich.so"), "{error}");
        std::fs::write(folder.join("libknarr_mpi-mpich.so"), "").unwrap();
        assert_eq!(any.adapter(&directories).unwrap(), folder.join("libknarr_mpi-mpich.so"));
        std::fs::write(folder.join("libknarr_mpi-openmpi.so"), "").unwrap();
        assert_eq!(any.adapter(&directories).unwrap_err().kind(), ErrorKind::Usage);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
