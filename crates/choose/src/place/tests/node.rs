//! A node on which a program writes in bursts: chunks wait in memory, one core encodes them into the next tier, and a link moves
//! them to the last one. The levels that the planner chooses against each level by itself.

use super::super::level::Level;
use super::super::objective::Objective;
use super::super::outlook::{Cadence, Outlook};

/// Sizes in bytes, rates in bytes a second, times in seconds.
#[derive(Clone, Copy)]
struct Node {
    steps: usize,
    chunk: f64,
    chunks_a_step: usize,
    /// Chunks that memory holds.
    memory: usize,
    fast: f64,
    drain: f64,
    compute: f64,
}

const COPY: f64 = 6e9;

/// Ratios and speeds of one core, as in the table of scenarios.
fn levels() -> [Level; 4] {
    let level = |ratio, speed: f64| Level { ratio, encode: 1.0 / speed, decode: 0.0 };
    [Level { ratio: 1.0, encode: 0.0, decode: 0.0 }, level(1.5, 1.5e9), level(2.3, 350e6), level(2.6, 60e6)]
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
struct Result {
    blocked: f64,
    durable: f64,
}

/// Runs the program; `choose` says the level of the next chunk, beside which so many bytes wait.
fn run(node: &Node, mut choose: impl FnMut(&Outlook, f64) -> usize) -> Result {
    let count = node.steps * node.chunks_a_step;
    // When each chunk is in memory, has left it, and is in the last tier; bytes of the encoded ones.
    let (mut accepted, mut released, mut drained) = (Vec::<f64>::new(), Vec::<f64>::new(), Vec::<f64>::new());
    let mut sizes = Vec::<f64>::new();
    let (mut program, mut blocked, mut cadence, mut bursts) = (0.0_f64, 0.0, Cadence::default(), Vec::new());
    for index in 0..count {
        while accepted.len() < count.min(index + node.memory) {
            let next = accepted.len();
            if next % node.chunks_a_step == 0 {
                program += if next > 0 { node.compute } else { 0.0 };
                bursts.push(program);
            }
            let room = next.checked_sub(node.memory).map_or(0.0, |earlier| released[earlier]);
            let end = program.max(room) + node.chunk / COPY;
            blocked += end - program;
            program = end;
            accepted.push(end);
        }
        let now = accepted[index].max(released.last().copied().unwrap_or(0.0));
        while bursts.first().is_some_and(|at| *at <= now) {
            cadence.came(node.chunk * node.chunks_a_step as f64, bursts.remove(0));
        }
        let queued: f64 = (0..index).filter(|earlier| drained[*earlier] > now).map(|earlier| sizes[earlier]).sum();
        let waiting = (index + 1..accepted.len()).filter(|later| accepted[*later] <= now).count();
        let (to_come, waiting) = (cadence.to_come(now, node.drain), node.chunk * waiting as f64);
        let memory = node.chunk * node.memory as f64;
        let outlook =
            Outlook { queued, to_come, memory, room: node.fast, drain: node.drain, idle_cores: 1.0, cores: 1.0 };
        let level = levels()[choose(&outlook, waiting)];
        let size = node.chunk / level.ratio;
        let encoded = now + node.chunk * level.encode;
        // Room in the fast tier comes when earlier chunks leave it.
        let mut held: f64 =
            (0..index).filter(|earlier| drained[*earlier] > encoded).map(|earlier| sizes[earlier]).sum();
        let mut at = encoded;
        for earlier in 0..index {
            if held + size <= node.fast {
                break;
            }
            if drained[earlier] > encoded {
                held -= sizes[earlier];
                at = drained[earlier];
            }
        }
        released.push(at);
        drained.push(at.max(drained.last().copied().unwrap_or(0.0)) + size / node.drain);
        sizes.push(size);
    }
    Result { blocked, durable: drained.last().copied().unwrap_or(0.0) }
}

fn scenarios() -> Vec<(String, Node)> {
    let large = |drain: f64, compute: f64| Node {
        steps: 10,
        chunk: 50e6,
        chunks_a_step: 40,
        memory: 80,
        fast: 8e9,
        drain: drain * 1e6,
        compute,
    };
    let mut all: Vec<(String, Node)> =
        [20.0, 60.0, 200.0].map(|drain| (format!("{drain} MB/s, 10 s"), large(drain, 10.0))).into();
    let scaled = Node { steps: 10, chunk: 8e6, chunks_a_step: 32, memory: 40, fast: 640e6, drain: 29e6, compute: 1.5 };
    all.push(("29 MB/s, 1.5 s, scaled".to_owned(), scaled));
    // Those of 40 and of 10 MB/s, and the fast ones, have changed no rule; that of 100 MB/s has.
    for (drain, compute) in [(10.0, 10.0), (40.0, 5.0), (100.0, 3.0), (500.0, 2.0), (1000.0, 10.0)] {
        all.push((format!("{drain} MB/s, {compute} s"), large(drain, compute)));
    }
    all
}

#[test]
fn the_planner_is_never_much_worse_than_the_best_level_by_itself() {
    let mut bad = Vec::new();
    for (name, node) in scenarios() {
        let fixed: Vec<Result> = (0..4).map(|level| run(&node, |_, _| level)).collect();
        let planned = |objective| {
            let levels = levels();
            let best = |outlook: &Outlook, waiting| outlook.best(&levels, node.chunk, &[(&levels, waiting)], objective);
            run(&node, |outlook, waiting| best(outlook, waiting).unwrap())
        };
        let (blocked, durable) = (planned(Objective::Blocked), planned(Objective::Durable));
        let cells: Vec<String> = fixed
            .iter()
            .chain([&blocked, &durable])
            .map(|result| format!("{:.0}/{:.0}", result.blocked, result.durable))
            .collect();
        println!("{name:24} fixed {}  for blocked {}  for durable {}", cells[..4].join("  "), cells[4], cells[5]);
        let least = |of: fn(&Result) -> f64| fixed.iter().map(of).fold(f64::INFINITY, f64::min);
        let of_blocked = blocked.blocked / least(|result| result.blocked);
        let of_durable = durable.durable / least(|result| result.durable);
        if of_blocked > 1.05 || of_durable > 1.05 {
            bad.push(format!("{name}: blocked {of_blocked:.2}, durable {of_durable:.2} of the best level"));
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}
