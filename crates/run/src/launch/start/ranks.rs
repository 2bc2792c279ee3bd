//! How many ranks a program has, where its command line says so.

use std::ffi::OsString;
use std::path::Path;

use knarr_array::error::{Error, Result};

/// A number of ranks, and what says it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::launch) struct RankCount {
    pub(in crate::launch) ranks: u64,
    pub(in crate::launch) by: String,
}

/// Programs that start the ranks of an MPI program.
const LAUNCHERS: [&str; 7] = ["mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun", "aprun"];
/// Their options that say the number of ranks.
const COUNTS: [&str; 5] = ["-n", "-np", "--np", "--n", "--ntasks"];
/// Their usual options, with the number of words that belong to each.
const OTHERS: [(&str, usize); 24] = [
    ("--allow-run-as-root", 0),
    ("--oversubscribe", 0),
    ("--tag-output", 0),
    ("--report-bindings", 0),
    ("--exclusive", 0),
    ("--use-hwthread-cpus", 0),
    ("-q", 0),
    ("-v", 0),
    ("-l", 0),
    ("--bind-to", 1),
    ("--map-by", 1),
    ("--rank-by", 1),
    ("--host", 1),
    ("--hostfile", 1),
    ("--machinefile", 1),
    ("-host", 1),
    ("-hosts", 1),
    ("-hostfile", 1),
    ("-H", 1),
    ("-f", 1),
    ("-x", 1),
    ("-ppn", 1),
    ("-N", 1),
    ("--mca", 2),
];

/// The number of ranks that the command starts, if it is an MPI launcher that is told so. Behind an option that is not
/// known the program could have begun, whose own options mean something else: then nothing is known. Nor is it of
/// several programs at once.
pub(in crate::launch) fn of_command(command: &[OsString], tasks_of_slurm: Option<&str>) -> Option<RankCount> {
    let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (first, options) = words.split_first()?;
    let launcher = Path::new(first).file_name()?.to_str()?;
    if !LAUNCHERS.contains(&launcher) || words.iter().any(|word| word == ":") {
        return None;
    }
    let mut rest = options.iter();
    while let Some(word) = rest.next() {
        if COUNTS.contains(&word.as_str()) {
            let count = rest.next()?;
            return rank_count(count, format!("'{launcher} {word} {count}'"));
        }
        if let Some(count) = COUNTS.iter().find_map(|name| word.strip_prefix(name)?.strip_prefix('=')) {
            return rank_count(count, format!("'{launcher} {word}'"));
        }
        let known = OTHERS.iter().find(|(name, _)| name == word).map(|(_, words)| *words);
        let joined = word.starts_with("--") && word.contains('=');
        match known {
            Some(words) => rest = rest.as_slice().get(words..).unwrap_or_default().iter(),
            None if joined => {}
            // The program begins.
            None if launcher == "srun" && !word.starts_with('-') => {
                let count = tasks_of_slurm?;
                return rank_count(count, format!("SLURM_NTASKS={count}"));
            }
            None => return None,
        }
    }
    None
}

/// Refuses to be started once for each rank: each launcher would know of its own rank only, and pack files that others
/// still write.
///
/// # Errors
/// `Usage`, with the command that serves all ranks.
pub(in crate::launch) fn refuse_many(variable: impl Fn(&str) -> Option<String>) -> Result<()> {
    const SIZES: [(&str, &str); 3] =
        [("OMPI_COMM_WORLD_SIZE", "mpirun"), ("PMI_SIZE", "mpiexec"), ("SLURM_STEP_NUM_TASKS", "srun")];
    for (name, launcher) in SIZES {
        let Some(count) = variable(name).and_then(|size| size.parse::<u64>().ok()).filter(|&count| count > 1) else {
            continue;
        };
        return Err(Error::usage(format!("{launcher} has started 'knarr run' {count} times, once for each rank")).hint(format!(
            "one serves all ranks: knarr run -- {launcher} -n {count} PROGRAM; if they are programs that share no file, \
             start each with: env -u {name} knarr run"
        )));
    }
    Ok(())
}

fn rank_count(count: &str, by: String) -> Option<RankCount> {
    let ranks = count.parse().ok().filter(|&ranks: &u64| ranks > 0)?;
    Some(RankCount { ranks, by })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(command: &str) -> Option<u64> {
        let command: Vec<OsString> = command.split(' ').map(OsString::from).collect();
        of_command(&command, Some("6")).map(|rank_count| rank_count.ranks)
    }

    #[test]
    fn launchers_say_how_many_ranks_there_are() {
        for (command, expected) in [
            ("mpirun -n 4 ./model -n 7", 4),
            ("/usr/bin/mpirun --allow-run-as-root --oversubscribe -np 3 ./model", 3),
            ("mpiexec --mca btl self --bind-to core -n 2 ./model", 2),
            ("srun --ntasks=8 --mpi=pmix ./model", 8),
            ("srun --mpi=pmix ./model -n 3", 6),
        ] {
            assert_eq!(ranks(command), Some(expected), "{command}");
        }
    }

    #[test]
    fn a_launcher_for_each_rank_is_refused() {
        let with = |name: &'static str, size: &'static str| {
            refuse_many(move |asked: &str| (asked == name).then(|| size.to_owned()))
        };
        for name in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"] {
            let error = with(name, "3").unwrap_err().to_string();
            assert!(error.contains("-n 3 PROGRAM") && error.contains(name), "{error}");
            assert!(with(name, "1").is_ok() && with(name, "").is_ok());
        }
    }

    #[test]
    fn nothing_is_guessed() {
        for command in [
            "./model -n 4",
            "python mpirun -n 4",
            "mpirun ./model -n 4",
            "mpirun --oversubscribe ./model -n 4",
            "mpirun --some-option ./model -n 4",
            "mpirun -n 2 ./ocean : -n 4 ./atmosphere",
            "mpirun -n 0 ./model",
            "mpirun -n four ./model",
            "mpirun -n",
            "mpirun",
        ] {
            assert_eq!(ranks(command), None, "{command}");
        }
        assert_eq!(of_command(&["srun".into(), "./model".into()], None), None);
    }
}
