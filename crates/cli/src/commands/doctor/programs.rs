//! What `knarr run` sees of a program.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Architecture, BinaryFormat, Endianness, Object, ObjectSection, ObjectSymbol};
use serde::Serialize;

/// A program.
#[derive(Debug, Serialize)]
pub(super) struct ProgramReport {
    path: PathBuf,
    /// What runs it, if it is a script.
    interpreter: Option<PathBuf>,
    /// Libraries for files of data that it is linked with.
    libraries: Vec<String>,
    /// What `knarr run` does not see of it, and why.
    unseen: Vec<Unseen>,
}

/// What is not seen.
#[derive(Debug, Serialize)]
struct Unseen {
    what: &'static str,
    /// Knarr is not even in the process.
    is_all: bool,
}

const STATIC: Unseen = Unseen { what: "anything: it is linked statically", is_all: true };
const OTHER_USER: Unseen = Unseen {
    what: "anything: it changes its user or has capabilities, so the system loads no library into it that others name",
    is_all: true,
};
const OTHER_MACHINE: Unseen = Unseen { what: "anything: it is for another kind of processor", is_all: true };
const OWN_HDF5: Unseen = Unseen {
    what: "calls of HDF5, which is linked into it: its files are not compressed while they are written",
    is_all: false,
};
const OWN_PNETCDF: Unseen = Unseen {
    what: "calls of PnetCDF, which is linked into it: its files are not compressed while they are written",
    is_all: false,
};
const GO: Unseen =
    Unseen { what: "names of files: it is written in Go, which makes system calls by itself", is_all: false };
const IO_URING: Unseen = Unseen { what: "files that it opens through io_uring", is_all: false };

/// Libraries by which programs write files of data, by the beginnings of their names.
const DATA: [&str; 5] = ["libhdf5", "libnetcdf", "libpnetcdf", "libmpi", "libadios2"];
/// Scripts that run scripts, at most, as for the system.
const MOST_SCRIPTS: usize = 5;
/// Longest first line of a script.
const LINE: usize = 256;

/// True for what is run: a program of the machine, or a script.
pub(super) fn is_program(path: &Path) -> bool {
    let may_run = path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    may_run && beginning(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF") || bytes.starts_with(b"#!"))
}

fn beginning(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LINE as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Looks at a program, or at what runs a script.
pub(super) fn examine(path: &Path) -> Result<ProgramReport> {
    let read_error = |error: std::io::Error| Error::read(path, &error);
    let mut program = path.to_owned();
    for _ in 0..MOST_SCRIPTS {
        let first = beginning(&program).map_err(|error| Error::read(&program, &error))?;
        match first.strip_prefix(b"#!") {
            Some(line) => program = interpreter(&String::from_utf8_lossy(line)),
            None => break,
        }
    }
    let interpreter = (program != path).then(|| program.clone());
    let bytes = std::fs::read(&program).map_err(|error| Error::read(&program, &error))?;
    let file = object::File::parse(&*bytes)
        .map_err(|error| Error::corrupt(format!("it is no program: {error}")).at(program.display().to_string()))?;
    let linked = Linked::of(&bytes).unwrap_or_default();
    let mut unseen = Vec::new();
    if file.format() != BinaryFormat::Elf || file.architecture() != own_architecture() {
        unseen.push(OTHER_MACHINE);
    } else if !linked.is_dynamic {
        unseen.push(STATIC);
    }
    let found = program.metadata().map_err(read_error)?;
    let has_capabilities = rustix::fs::getxattr(&program, "security.capability", &mut [0u8; 64]).is_ok();
    if found.mode() & 0o6000 != 0 || has_capabilities {
        unseen.push(OTHER_USER);
    }
    let defines = |name: &str| {
        let is_it = |symbol: &object::Symbol<'_, '_>| symbol.is_definition() && symbol.name() == Ok(name);
        file.symbols().any(|symbol| is_it(&symbol)) || file.dynamic_symbols().any(|symbol| is_it(&symbol))
    };
    let needs = |name: &str| file.dynamic_symbols().any(|symbol| symbol.is_undefined() && symbol.name() == Ok(name));
    let checks = [
        (defines("H5Fcreate"), OWN_HDF5),
        (defines("ncmpi_create"), OWN_PNETCDF),
        (file.sections().any(|section| section.name().is_ok_and(|name| name.starts_with(".note.go."))), GO),
        (needs("io_uring_queue_init") || needs("io_uring_queue_init_params"), IO_URING),
    ];
    unseen.extend(checks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, unseen)| unseen));
    Ok(ProgramReport { path: path.to_owned(), interpreter, libraries: linked.libraries, unseen })
}

/// The program that runs a script with this first line, behind `#!`. `env` looks for it.
fn interpreter(line: &str) -> PathBuf {
    let mut words = line.lines().next().unwrap_or_default().split_ascii_whitespace();
    let first = PathBuf::from(words.next().unwrap_or_default());
    let is_env = first.file_name().is_some_and(|name| name == "env");
    let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = named
        .filter(|_| is_env)
        .and_then(|name| std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file()));
    found.unwrap_or(first)
}

/// How a program is linked.
#[derive(Default)]
struct Linked {
    /// The system starts it through the loader of libraries.
    is_dynamic: bool,
    /// Those of [`DATA`] that it needs.
    libraries: Vec<String>,
}

impl Linked {
    fn of(bytes: &[u8]) -> object::Result<Self> {
        let header = FileHeader64::<Endianness>::parse(bytes)?;
        let endian = header.endian()?;
        let mut segments = header.program_headers(endian, bytes)?.iter();
        let is_dynamic = segments.any(|segment| segment.p_type(endian) == PT_INTERP);
        let sections = header.sections(endian, bytes)?;
        let mut libraries = Vec::new();
        if let Some((entries, names)) = sections.dynamic(endian, bytes)? {
            let names = sections.strings(endian, bytes, names)?;
            for entry in entries.iter().filter(|entry| entry.tag32(endian) == Some(DT_NEEDED)) {
                let name = String::from_utf8_lossy(entry.string(endian, names)?).into_owned();
                if DATA.iter().any(|library| name.starts_with(library)) {
                    libraries.push(name);
                }
            }
        }
        libraries.sort();
        Ok(Self { is_dynamic, libraries })
    }
}

fn own_architecture() -> Architecture {
    match std::env::consts::ARCH {
        "x86_64" => Architecture::X86_64,
        "aarch64" => Architecture::Aarch64,
        "powerpc64" => Architecture::PowerPc64,
        "riscv64" => Architecture::Riscv64,
        _ => Architecture::Unknown,
    }
}

impl ProgramReport {
    /// True if Knarr sees nothing of it.
    pub(super) fn is_unseen(&self) -> bool {
        self.unseen.iter().any(|unseen| unseen.is_all)
    }
}

pub(super) fn print(program: &ProgramReport) {
    println!();
    let by = program.interpreter.as_ref().map(|path| format!(", run by {}", path.display())).unwrap_or_default();
    let libraries = if program.libraries.is_empty() {
        "no library for files of data; what it loads later is seen".to_owned()
    } else {
        program.libraries.join(", ")
    };
    println!("{} (program{by}) is linked with {libraries}", program.path.display());
    for unseen in &program.unseen {
        println!("  'knarr run' does not see {}", unseen.what);
    }
    if program.unseen.is_empty() {
        println!("  'knarr run' sees the files that it writes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_run_by_what_its_first_line_names() {
        assert_eq!(interpreter("/bin/sh -e\nmore"), Path::new("/bin/sh"));
        assert_eq!(interpreter(" /usr/bin/env none-of-that-name\n"), Path::new("/usr/bin/env"));
        assert!(interpreter("/usr/bin/env -S sh -e\n").ends_with("sh"));
    }

    #[test]
    fn this_program_is_seen() {
        let own = std::env::current_exe().unwrap();
        assert!(is_program(&own) && !is_program(Path::new("/etc/passwd")));
        let report = examine(&own).unwrap();
        assert!(!report.is_unseen(), "{report:?}");
    }
}
