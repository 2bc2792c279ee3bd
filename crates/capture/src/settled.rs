//! What fails for a moment is tried again: processes wait by what others of the run say, and go by what they find.

use std::io::{ErrorKind, Result};

/// How often it is tried.
const TRIES: usize = 3;

/// What came of an action in the end. That something is not there is no failure.
///
/// # Errors
/// Those of the action.
pub fn settled<T>(mut action: impl FnMut() -> Result<T>) -> Result<T> {
    let mut result = action();
    for _ in 1..TRIES {
        match &result {
            Err(error) if error.kind() != ErrorKind::NotFound => result = action(),
            _ => break,
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_for_a_moment_succeeds() {
        for (kind, failures, tried, succeeds) in [
            (ErrorKind::StorageFull, 0, 1, true),
            (ErrorKind::StorageFull, 2, 3, true),
            (ErrorKind::StorageFull, 3, 3, false),
            (ErrorKind::NotFound, 1, 1, false),
        ] {
            let mut count = 0;
            let result = settled(|| {
                count += 1;
                if count <= failures { Err(kind.into()) } else { Ok(()) }
            });
            assert_eq!((count, result.is_ok()), (tried, succeeds), "{kind} {failures}");
        }
    }
}
