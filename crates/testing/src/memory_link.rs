//! A link within a process, for tests of what uses links.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knarr_array::error::{Error, ErrorKind, Result};

use knarr_link::{Answers, LONGEST_ANSWER, LONGEST_QUESTION, Link};

/// Asks in the thread that calls.
pub struct MemoryLink {
    node: String,
    answers: Arc<dyn Answers>,
    is_gone: Arc<AtomicBool>,
}

impl MemoryLink {
    /// A link to `answers`, which is gone when `is_gone` is set.
    pub fn new(node: &str, answers: Arc<dyn Answers>, is_gone: Arc<AtomicBool>) -> Self {
        Self { node: node.to_owned(), answers, is_gone }
    }
}

impl Link for MemoryLink {
    fn node(&self) -> &str {
        &self.node
    }

    fn ask(&self, question: &[u8]) -> Result<Vec<u8>> {
        if question.len() > LONGEST_QUESTION {
            return Err(Error::usage("a question that is too long for a link"));
        }
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Read, format!("the aggregator of node '{}' is gone", self.node)));
        }
        let answer = self.answers.answer(question).map_err(|error| error.at(format!("node '{}'", self.node)))?;
        match answer.len() {
            0..=LONGEST_ANSWER => Ok(answer),
            _ => Err(Error::unsupported("an answer that is too long for a link").at(format!("node '{}'", self.node))),
        }
    }
}
