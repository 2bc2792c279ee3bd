//! What became of many files together.

use serde::Serialize;

use crate::table;

/// Sizes of files before and after, and how many failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    /// Files that were served.
    pub(crate) files: usize,
    /// Of these, those that would have grown and are copies.
    pub(crate) copied: usize,
    /// Files that were there already.
    pub(crate) skipped: usize,
    /// Files that failed.
    pub(crate) failed: usize,
    /// Bytes of those that were served.
    pub(crate) input_bytes: u64,
    /// Bytes of what became of them, or what they are expected to take.
    pub(crate) output_bytes: u64,
}

impl Totals {
    /// Adds a file.
    pub(crate) fn add(&mut self, input_bytes: u64, output_bytes: u64) {
        self.files += 1;
        self.input_bytes += input_bytes;
        self.output_bytes += output_bytes;
    }

    /// The sum in one line. `is_expected`: sizes after are a forecast.
    pub(crate) fn line(&self, is_expected: bool) -> String {
        let count = |count: usize, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
        let saved = if self.output_bytes > self.input_bytes {
            format!("{} more", table::bytes(self.output_bytes - self.input_bytes))
        } else {
            format!("{} saved", table::bytes(self.input_bytes - self.output_bytes))
        };
        format!(
            "{} {}: {} -> {}{} ({}x), {saved}{}{}{}",
            self.files,
            if self.files == 1 { "file" } else { "files" },
            table::bytes(self.input_bytes),
            if is_expected { "about " } else { "" },
            table::bytes(self.output_bytes),
            table::ratio(self.input_bytes, self.output_bytes),
            count(self.copied, "copied as they were"),
            count(self.skipped, "skipped"),
            count(self.failed, "failed"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Totals;

    #[test]
    fn many_files_are_summed_in_one_line() {
        let mut totals = Totals { failed: 1, ..Totals::default() };
        totals.add(3_000_000, 1_000_000);
        totals.add(1_000_000, 1_000_000);
        assert_eq!(totals.line(false), "2 files: 4.0 MB -> 2.0 MB (2.00x), 2.0 MB saved, 1 failed");
        totals.add(0, 3_000_000);
        assert_eq!(totals.line(true), "3 files: 4.0 MB -> about 5.0 MB (0.80x), 1.0 MB more, 1 failed");
    }
}
