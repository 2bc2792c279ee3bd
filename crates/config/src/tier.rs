//! Where files of route `stage` wait on their way to their place: `[[tier]]`, the fastest first.

use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::engine::parse_size;
use knarr_flow::urls::{in_words, is_below_bucket, url_of, written_schemes};
use serde::{Deserialize, Serialize};

/// The memory that all processes of a node share.
pub const MEMORY: &str = "/dev/shm";
/// Tiers of one run, at most.
const MOST: usize = 6;

/// `[[tier]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct TierRule {
    /// By which reports name it.
    pub name: String,
    /// A directory; a relative one counts from the configuration file. The last tier may be in a bucket: `s3://BUCKET/PREFIX`.
    pub path: PathBuf,
    /// Bytes that files of a run may take there; what the file system has if it is not said.
    pub capacity: Option<Size>,
    /// A device that this machine does not have.
    pub emulate: Option<Emulation>,
}

/// A slower device that a tier stands for. Figures that are measured with it say so.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct Emulation {
    /// Bytes in a second.
    pub rate: Rate,
    /// All launchers that use the configuration share one device, on whatever node; else each node has its own.
    #[serde(default)]
    pub shared: bool,
}

/// A number of bytes, such as `"640M"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(pub u64);

impl TryFrom<String> for Size {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        parse_size(&text).map(Self)
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.0.to_string()
    }
}

/// A speed in bytes a second, such as `"29MB/s"`; `MB` are a million bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(pub f64);

impl TryFrom<String> for Rate {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let units = [("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9), ("B/s", 1.0)];
        let read = |(unit, factor): &(&str, f64)| {
            let number: f64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
            Some(number * factor)
        };
        let rate = units.iter().find_map(read).filter(|rate| *rate >= 1.0 && rate.is_finite());
        let refuse = || Error::new(ErrorKind::Config, format!("'{text}' is no rate: write it like 200MB/s or 1.5GB/s"));
        rate.map(Self).ok_or_else(refuse)
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        format!("{}B/s", rate.0)
    }
}

impl TierRule {
    /// True if it is the memory of the node.
    pub fn is_memory(&self) -> bool {
        self.path == Path::new(MEMORY)
    }

    /// The URL below which files are put, if the tier is in a bucket.
    pub fn url(&self) -> Option<&str> {
        url_of(&self.path)
    }
}

/// Refuses tiers that contradict each other.
pub(super) fn check(tiers: &[TierRule]) -> Result<()> {
    let refuse = |what: String| Error::new(ErrorKind::Config, what);
    if tiers.len() > MOST {
        return Err(refuse(format!("{} tiers, and a run has {MOST} at most", tiers.len())));
    }
    for (number, tier) in tiers.iter().enumerate() {
        let place = |error: Error| error.at(format!("[[tier]] '{}'", tier.name));
        let is_named = |other: &TierRule| other.name == tier.name || other.path == tier.path;
        if tier.name.is_empty() || tier.name.contains(|letter: char| letter.is_control() || letter == '/') {
            return Err(place(refuse("a tier needs a name without '/'".to_owned())));
        }
        if tiers.iter().take(number).any(is_named) {
            return Err(place(refuse("two tiers have this name or this path".to_owned())));
        }
        if let Some(url) = tier.url() {
            if !is_below_bucket(url) {
                let urls = in_words(written_schemes());
                let what = format!("no files are put at '{url}': tiers are directories and buckets ({urls})");
                return Err(place(refuse(what).hint("write s3://BUCKET or s3://BUCKET/PREFIX")));
            }
            if number + 1 < tiers.len() {
                let what = "files wait on disks, and only their place may be in a bucket".to_owned();
                return Err(place(refuse(what).hint("name this tier last")));
            }
        }
        if tier.is_memory() && number > 0 {
            return Err(place(refuse("memory is the fastest tier".to_owned()).hint("name it first")));
        }
        if tier.is_memory() && tier.emulate.is_some() {
            return Err(place(refuse("memory is not emulated".to_owned()).hint("remove 'emulate'")));
        }
        if number + 1 == tiers.len() && tier.capacity.is_some() {
            let hint = "remove 'capacity', or add the tier in which files stay";
            return Err(place(refuse("the last tier is where files stay: it has no capacity".to_owned()).hint(hint)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Config;

    const TIERS: &str = r#"
[[tier]]
name = "ram"
path = "/dev/shm"
capacity = "320M"
[[tier]]
name = "nvme"
path = "nvme"
capacity = "640M"
emulate = { rate = "700MB/s" }
[[tier]]
name = "pfs"
path = "."
emulate = { rate = "29MB/s", shared = true }
"#;
    const RULE: &str = "[[file]]\npattern = \"vpic_*.h5\"\nroute = \"stage\"\n";

    #[test]
    fn tiers_are_read_and_come_back_from_a_snapshot() {
        let config = Config::parse(&format!("{TIERS}{RULE}")).unwrap();
        let [ram, nvme, pfs] = config.tier.as_slice() else { panic!("three tiers") };
        assert!(ram.is_memory() && ram.capacity.unwrap().0 == 320 << 20);
        assert_eq!(nvme.emulate.unwrap().rate.0, 700e6);
        assert!(pfs.emulate.unwrap().shared && pfs.capacity.is_none());
        let again: Config = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn tiers_that_cannot_be_are_refused() {
        let error = |from: &str, to: &str| {
            assert!(TIERS.contains(from), "{from}");
            Config::parse(&format!("{}{RULE}", TIERS.replace(from, to))).unwrap_err().to_string()
        };
        for (from, to, word) in [
            ("29MB/s", "29 furlongs", "is no rate"),
            ("29MB/s", "-1MB/s", "is no rate"),
            ("640M", "much", "is not a size"),
            ("\"pfs\"", "\"nvme\"", "two tiers have this name"),
            ("\"nvme\"\ncapacity", "\"/dev/shm\"\ncapacity", "two tiers have this name"),
            ("shared = true }", "shared = true }\ncapacity = \"1G\"", "where files stay"),
            ("capacity = \"320M\"", "emulate = { rate = \"1GB/s\" }", "memory is not emulated"),
            ("capacity = \"320M\"", "size = \"320M\"", "size"),
            ("\"nvme\"\ncapacity", "\"s3://bucket\"\ncapacity", "only their place"),
            ("path = \".\"", "path = \"https://there.org/a\"", "no files are put at"),
            ("path = \".\"", "path = \"s3://\"", "no files are put at"),
        ] {
            let error = error(from, to);
            assert!(error.contains(word), "{from}: {error}");
        }
        let alone = Config::parse(RULE).unwrap_err().to_string();
        assert!(alone.contains("[[tier]]"), "{alone}");
        let more = |keys: &str| Config::parse(&format!("{TIERS}{RULE}{keys}")).map_err(|error| error.to_string());
        assert!(more("output = \"zarr\"\n").unwrap_err().contains("one file"));
        assert!(more("when = \"close\"\noutput = \"classic\"\n").unwrap_err().contains("when = \"close\""));
        assert!(more("when = \"close\"\ngoal = \"ratio\"\n").is_ok());
        assert!(more("drain = \"fast\"\n").unwrap_err().contains("is no rate"));
        assert!(more("drain = \"20MB/s\"\ngoal = \"ratio\"\nvariables.x.max_abs_error = 0.1\n").is_ok());
    }
}
