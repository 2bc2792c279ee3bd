//! What every link does, whatever is behind it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};

use knarr_link::{Answers, LONGEST_ANSWER, LONGEST_QUESTION, Link, SILENCE};

/// Answers a question with itself, backwards. `len N` asks for so many bytes, `fail` for an error, `slow` for one that takes
/// longer than [`SILENCE`].
struct Backwards;

impl Answers for Backwards {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        if let Some(length) =
            question.strip_prefix(b"len ").and_then(|text| std::str::from_utf8(text).ok()?.parse().ok())
        {
            return Ok(vec![7; length]);
        }
        if question == b"slow" {
            std::thread::sleep(SILENCE + Duration::from_secs(1));
        }
        if question == b"fail" {
            return Err(Error::new(ErrorKind::NotFound, "no such thing").hint("ask for another").at("here"));
        }
        Ok(question.iter().rev().copied().collect())
    }
}

/// Ends the side that answers.
pub type End = Box<dyn FnOnce()>;

/// Checks a kind of link. `make` makes one to a side called `far`, and what ends that side.
///
/// # Panics
/// If it does not do what links do.
#[expect(clippy::panic, clippy::unwrap_used, reason = "a test")]
pub fn check(make: impl Fn(Arc<dyn Answers>) -> (Box<dyn Link>, End)) {
    let (link, end) = make(Arc::new(Backwards));
    assert_eq!(link.node(), "far");
    for length in [0, 1, 1000, LONGEST_QUESTION] {
        let question: Vec<u8> = (0..=255).cycle().take(length).collect();
        let mut answer = link.ask(&question).unwrap();
        answer.reverse();
        assert_eq!(answer, question);
    }
    assert_eq!(link.ask(&vec![0; LONGEST_QUESTION + 1]).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(link.ask(format!("len {LONGEST_ANSWER}").as_bytes()).unwrap().len(), LONGEST_ANSWER);
    let long = link.ask(format!("len {}", LONGEST_ANSWER + 1).as_bytes()).unwrap_err();
    assert_eq!(long.kind(), ErrorKind::Unsupported);
    let error = link.ask(b"fail").unwrap_err();
    assert_eq!((error.kind(), error.advice().is_some()), (ErrorKind::NotFound, true));
    assert!(error.to_string().contains("far") && error.to_string().contains("no such thing"), "{error}");

    assert_eq!(link.ask(b"slow").unwrap(), b"wols");

    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let link = &link;
            scope.spawn(move || {
                for number in 0..100u8 {
                    assert_eq!(link.ask(&[thread, number]).unwrap(), [number, thread]);
                }
            });
        }
    });

    end();
    let begin = Instant::now();
    let Err(error) = link.ask(b"anybody?") else { panic!("somebody answers that is gone") };
    assert!(error.to_string().contains("node 'far' is gone"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Read);
    assert!(begin.elapsed() < 2 * SILENCE, "{:?}", begin.elapsed());
}
