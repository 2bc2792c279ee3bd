//! Pieces of work done by many threads, whose results are handed on in order by the calling one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use super::window::Window;
use crate::engine::Engine;
use crate::error::Result;

/// How much is done at a time.
pub(crate) struct Order<'a> {
    /// Who may interrupt.
    pub(crate) engine: &'a Engine,
    /// Worker threads.
    pub(crate) jobs: usize,
    /// Bytes that may be under way; the piece that is handed on next always may.
    pub(crate) window: u64,
    /// Number of pieces.
    pub(crate) total: u64,
}

/// Calls `work` for every number below the total on worker threads, each with a state of its own, and `hand_on` with
/// the results, in the order of the numbers whatever order they come in. `bytes_of` says what a piece takes while it is
/// under way.
///
/// # Errors
/// The first error of `work` that is heard of or of `hand_on`, or `Interrupted`.
pub(crate) fn in_order<S: Default, T: Send>(
    order: Order<'_>,
    bytes_of: impl Fn(u64) -> u64 + Sync,
    work: impl Fn(&mut S, u64) -> Result<T> + Sync,
    mut hand_on: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let Order { engine, jobs, window, total } = order;
    let next = AtomicU64::new(0);
    let window = Window::new(window);
    let (send, receive) = mpsc::channel::<(u64, Result<T>)>();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let send = send.clone();
            let (next, window, work, bytes_of) = (&next, &window, &work, &bytes_of);
            scope.spawn(move || {
                let mut state = S::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total || !window.admit(number, bytes_of(number)) {
                        return;
                    }
                    let done = engine.check_cancelled().and_then(|()| work(&mut state, number));
                    if send.send((number, done)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let result = hand_on_in_order(&receive, |number, done| {
            hand_on(done)?;
            window.written(number, bytes_of(number));
            Ok(())
        });
        window.close();
        result
    })
}

fn hand_on_in_order<T>(
    receive: &mpsc::Receiver<(u64, Result<T>)>,
    mut hand_on: impl FnMut(u64, T) -> Result<()>,
) -> Result<()> {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    for (number, done) in receive {
        waiting.insert(number, done?);
        while let Some(done) = waiting.remove(&next) {
            hand_on(next, done)?;
            next += 1;
        }
    }
    Ok(())
}
