use std::cell::Cell;

use super::*;

const MIB: u64 = 1 << 20;

fn limits(threads: usize) -> Limits {
    Limits { threads, bytes: 1024 * MIB, reserved: 256 * MIB, links: 2 }
}

fn cost(threads: usize, mib: u64) -> Cost {
    Cost { threads, bytes: mib * MIB, link: false, is_least: false }
}

fn key(name: impl ToString) -> Key {
    Key::Path(name.to_string().into())
}

/// The jobs that begin now, in their order.
fn begun<T>(queue: &mut Queue<T>, limits: &Limits) -> Vec<StartedJob<T>> {
    let next = || match queue.begin(limits, |_, _| true) {
        Next::Begin(begun) => Some(begun),
        Next::Full | Next::Idle => None,
    };
    std::iter::from_fn(next).collect()
}

/// Begins jobs and ends them at once, until none is left. Returns them in the order in which they were begun.
fn all(mut queue: Queue<&'static str>, limits: &Limits) -> Vec<&'static str> {
    let mut order = Vec::new();
    loop {
        let begun = begun(&mut queue, limits);
        if begun.is_empty() {
            assert!(!queue.is_waiting() && !queue.is_running());
            return order;
        }
        for StartedJob { id, job, .. } in begun {
            order.push(job);
            queue.end(id);
        }
    }
}

fn names<T: Copy>(begun: &[StartedJob<T>]) -> Vec<T> {
    begun.iter().map(|begun| begun.job).collect()
}

#[test]
fn the_more_urgent_comes_first_and_then_what_came_first() {
    let mut queue = Queue::default();
    for (class, job) in [
        (Class::Improve, "ahead"),
        (Class::Pack, "pack 1"),
        (Class::Drain, "drain"),
        (Class::Pack, "pack 2"),
        (Class::Deliver, "deliver 1"),
        (Class::Awaited, "awaited"),
        (Class::Deliver, "deliver 2"),
    ] {
        queue.push(class, [key(job)], cost(1, 1), job);
    }
    queue.push_first([key("first")], cost(1, 1), "first");
    let order = ["first", "awaited", "deliver 1", "deliver 2", "pack 1", "pack 2", "drain", "ahead"];
    assert_eq!(all(queue, &limits(1)), order);
}

#[test]
fn jobs_of_one_file_run_one_after_the_other_in_the_order_in_which_they_came() {
    let mut queue = Queue::default();
    queue.push(Class::Deliver, [key("a"), key("spool/1")], cost(1, 1), "a, version 1");
    queue.push(Class::Deliver, [key("b"), key("spool/2")], cost(1, 1), "b");
    queue.push(Class::Deliver, [key("a"), key("spool/3")], cost(1, 1), "a, version 2");
    // What it becomes is something else, its file is the same.
    queue.push(Class::Pack, [key("a"), Key::File((1, 2).into())], cost(1, 1), "a, packed");
    queue.push(Class::Pack, [Key::File((1, 2).into())], cost(1, 1), "renamed");
    let first = begun(&mut queue, &limits(8));
    assert_eq!(names(&first), ["a, version 1", "b"]);
    queue.end(first[0].id);
    let second = begun(&mut queue, &limits(8));
    assert_eq!(names(&second), ["a, version 2"]);
    assert!(begun(&mut queue, &limits(8)).is_empty());
    queue.end(second[0].id);
    let third = begun(&mut queue, &limits(8));
    assert_eq!(names(&third), ["a, packed"]);
    queue.end(third[0].id);
    assert_eq!(names(&begun(&mut queue, &limits(8))), ["renamed"]);
}

#[test]
fn an_earlier_version_is_as_urgent_as_a_later_one_that_somebody_waits_for() {
    let mut queue = Queue::default();
    queue.push(Class::Deliver, [key("x")], cost(1, 1), "x");
    queue.push(Class::Deliver, [key("a")], cost(1, 1), "a, version 1");
    queue.push(Class::Deliver, [key("a")], cost(1, 1), "a, version 2");
    queue.raise(|job| *job == "a, version 2");
    assert!(queue.has(Class::Awaited));
    assert_eq!(all(queue, &limits(1)), ["a, version 1", "a, version 2", "x"]);
    // One that runs gets the threads.
    let mut queue = Queue::default();
    queue.push(Class::Deliver, [key("x")], cost(4, 1), "x");
    queue.push(Class::Deliver, [key("a")], cost(4, 1), "a, version 1");
    queue.push(Class::Deliver, [key("a")], cost(4, 1), "a, version 2");
    let running = begun(&mut queue, &limits(5));
    assert_eq!(names(&running), ["x", "a, version 1"]);
    assert_eq!(queue.shares(5), [(running[0].id, 4), (running[1].id, 1)]);
    queue.raise(|job| *job == "a, version 2");
    assert_eq!(queue.shares(4), [(running[1].id, 4), (running[0].id, 0)]);
}

#[test]
fn what_somebody_waits_for_begins_while_a_large_file_is_packed() {
    let mut queue = Queue::default();
    queue.push(Class::Pack, [key("large")], cost(64, 100_000), "large");
    queue.push(Class::Pack, [key("another")], cost(64, 100_000), "another");
    let large = begun(&mut queue, &limits(2));
    assert_eq!((names(&large), large[0].bytes), (vec!["large"], 768 * MIB));
    queue.push_first([key("shown")], cost(64, 100_000), "shown");
    let shown = begun(&mut queue, &limits(2));
    assert_eq!((names(&shown), shown[0].bytes), (vec!["shown"], 256 * MIB));
    // All threads are for it.
    assert_eq!(queue.shares(2), [(shown[0].id, 2), (large[0].id, 0)]);
    queue.end(shown[0].id);
    assert_eq!(queue.shares(2), [(large[0].id, 2)]);
    queue.end(large[0].id);
    // Alone it may have all memory.
    queue.push_first([key("shown")], cost(64, 100_000), "shown");
    assert_eq!(begun(&mut queue, &limits(2))[0].bytes, 1024 * MIB);
}

#[test]
fn small_files_are_packed_at_the_same_time_and_a_large_one_gets_its_turn() {
    let mut queue = Queue::default();
    for number in 0..5 {
        queue.push(Class::Pack, [key(number)], cost(1, 64), number);
    }
    queue.push(Class::Pack, [key("large")], cost(8, 2000), 5);
    queue.push(Class::Pack, [key("late")], cost(1, 64), 6);
    let mut running = begun(&mut queue, &limits(4));
    assert_eq!(names(&running), [0, 1, 2, 3]);
    queue.end(running.remove(0).id);
    running.extend(begun(&mut queue, &limits(4)));
    assert_eq!(names(&running), [1, 2, 3, 4]);
    for small in running {
        // The late one would have room; it does not overtake the large one again and again.
        queue.end(small.id);
        assert!(queue.is_running() == queue.shares(4).iter().any(|(_, share)| *share > 0));
    }
    assert_eq!(names(&begun(&mut queue, &limits(4))), [5]);
}

#[test]
fn while_the_program_computes_one_thread_works() {
    let mut queue = Queue::default();
    for number in 0..3 {
        queue.push(Class::Deliver, [key(number)], cost(1, 64), number);
    }
    let one = begun(&mut queue, &limits(1));
    assert_eq!(names(&one), [0]);
    // Its ranks wait.
    let two = begun(&mut queue, &limits(2));
    assert_eq!(names(&two), [1]);
    assert_eq!(queue.shares(2), [(one[0].id, 1), (two[0].id, 1)]);
    // It goes on.
    assert_eq!(queue.shares(1), [(one[0].id, 1), (two[0].id, 0)]);
    queue.end(one[0].id);
    assert!(begun(&mut queue, &limits(1)).is_empty());
    assert_eq!(queue.shares(1), [(two[0].id, 1)]);
}

#[test]
fn few_jobs_send_to_a_server_and_others_do_not_wait_for_them() {
    let mut queue = Queue::default();
    for number in 0..4 {
        queue.push(Class::Deliver, [key(number)], Cost { link: true, ..cost(1, 64) }, number);
    }
    queue.push(Class::Pack, [key("a")], cost(1, 64), 4);
    let running = begun(&mut queue, &limits(8));
    assert_eq!(names(&running), [0, 1, 4]);
    queue.end(running[0].id);
    assert_eq!(names(&begun(&mut queue, &limits(8))), [2]);
}

#[test]
fn a_job_that_needs_more_memory_gets_all_and_keeps_its_place() {
    let mut queue = Queue::default();
    queue.push(Class::Deliver, [key("a")], cost(1, 64), "a, version 1");
    queue.push(Class::Deliver, [key("b")], cost(1, 64), "b");
    queue.push(Class::Deliver, [key("a")], cost(1, 64), "a, version 2");
    let running = begun(&mut queue, &limits(4));
    assert_eq!(names(&running), ["a, version 1", "b"]);
    queue.put_back(running[0].id, "a, version 1", true);
    assert!(begun(&mut queue, &limits(4)).is_empty());
    queue.end(running[1].id);
    let again = begun(&mut queue, &limits(4));
    assert_eq!((names(&again), again[0].bytes), (vec!["a, version 1"], 768 * MIB));
    queue.end(again[0].id);
    assert_eq!(names(&begun(&mut queue, &limits(4))), ["a, version 2"]);
}

#[test]
fn a_job_that_may_not_begin_holds_up_only_those_of_its_file() {
    let mut queue = Queue::default();
    queue.push(Class::Deliver, [key("a")], cost(1, 1), "a");
    queue.push(Class::Deliver, [key("a")], cost(1, 1), "a again");
    queue.push(Class::Deliver, [key("b")], cost(1, 1), "b");
    let Next::Begin(b) = queue.begin(&limits(1), |job, _| *job != "a") else { panic!("b may begin") };
    assert_eq!(b.job, "b");
    assert!(matches!(queue.begin(&limits(4), |job, _| *job != "a"), Next::Idle));
    assert!(matches!(queue.begin(&limits(1), |_, _| true), Next::Full));
    assert!(queue.has_room(&limits(2), Class::Pack) && !queue.has_room(&limits(1), Class::Pack));
}

#[test]
fn what_is_taken_out_does_not_begin() {
    let mut queue = Queue::default();
    queue.push(Class::Pack, [key("a")], cost(1, 1), "a");
    queue.push(Class::Pack, [key("b")], cost(1, 1), "b");
    assert_eq!(queue.take(|job| *job == "a"), ["a"]);
    assert_eq!(queue.waiting().collect::<Vec<_>>(), [&"b"]);
    for (keys, job) in queue.waiting_mut() {
        keys.insert(key("c"));
        *job = "b, moved";
    }
    queue.push(Class::Pack, [key("c")], cost(1, 1), "c");
    assert_eq!(names(&begun(&mut queue, &limits(4))), ["b, moved"]);
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What is known of a job that runs.
struct Known {
    id: JobId,
    pushed: u64,
    keys: BTreeSet<Key>,
    bytes: u64,
    link: bool,
    class: Class,
}

#[test]
fn whatever_comes_no_limit_is_exceeded_and_all_ends() {
    for seed in 0..400 {
        let mut numbers = Numbers(seed);
        let limits = Limits {
            threads: 0,
            bytes: 1 << (20 + numbers.below(12)),
            reserved: 0,
            links: 1 + usize::try_from(numbers.below(3)).unwrap(),
        };
        let limits = Limits { reserved: limits.bytes / RESERVED, ..limits };
        let most_threads = 1 + numbers.below(8);
        // Jobs by their number, with what is known of them; those that may not begin at the moment.
        let mut queue = Queue::<(u64, BTreeSet<Key>, Cost, Class)>::default();
        let (mut running, mut ended, mut pushed) = (Vec::<Known>::new(), BTreeSet::new(), 0);
        let mut order: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
        let steps = 300;
        for step in 0.. {
            let threads = usize::try_from(if numbers.below(2) == 0 { 1 } else { most_threads }).unwrap();
            let limits = Limits { threads, ..limits };
            match numbers.below(10) {
                0..=3 if step < steps => {
                    let class = [Class::Improve, Class::Drain, Class::Pack, Class::Deliver, Class::Awaited]
                        [usize::try_from(numbers.below(5)).unwrap()];
                    let keys: BTreeSet<Key> = (0..=numbers.below(2)).map(|_| key(numbers.below(12))).collect();
                    let cost = Cost {
                        threads: usize::try_from(1 + numbers.below(9)).unwrap(),
                        bytes: numbers.below(limits.bytes * 2),
                        link: numbers.below(4) == 0,
                        is_least: numbers.below(8) == 0,
                    };
                    pushed += 1;
                    keys.iter().for_each(|key| order.entry(key.clone()).or_default().push(pushed));
                    queue.push(class, keys.clone(), cost, (pushed, keys, cost, class));
                }
                4 if step < steps => queue.raise(|job| job.0 % 7 == 0),
                5 if !running.is_empty() && step < steps => {
                    let at = usize::try_from(numbers.below(running.len() as u64)).unwrap();
                    let known = running.swap_remove(at);
                    let cost = Cost { threads: 1, bytes: known.bytes, link: known.link, is_least: false };
                    let job = (known.pushed, known.keys, cost, known.class);
                    queue.put_back(known.id, job, numbers.below(2) == 0);
                }
                _ if !running.is_empty() => {
                    let at = usize::try_from(numbers.below(running.len() as u64)).unwrap();
                    let known = running.swap_remove(at);
                    queue.end(known.id);
                    ended.insert(known.pushed);
                }
                _ => {}
            }
            let refused = Cell::new(numbers.below(20));
            loop {
                let may = |job: &(u64, BTreeSet<Key>, Cost, Class), _| step >= steps || job.0 % 20 != refused.get();
                let Next::Begin(StartedJob { id, bytes, job: (number, keys, cost, class) }) = queue.begin(&limits, may)
                else {
                    break;
                };
                let at_work: Vec<&Key> = running.iter().flat_map(|known| &known.keys).collect();
                assert!(keys.iter().all(|key| !at_work.contains(&key)), "seed {seed}: two jobs of one file");
                for key in &keys {
                    let earlier = order[key].iter().take_while(|other| **other != number);
                    assert!(earlier.clone().all(|other| ended.contains(other)), "seed {seed}: not in their order");
                }
                assert!(bytes <= cost.bytes || cost.bytes > limits.bytes || cost.is_least || bytes <= limits.bytes);
                running.push(Known { id, pushed: number, keys, bytes, link: cost.link, class });
                let taken: u64 = running.iter().map(|known| known.bytes).sum();
                assert!(taken <= limits.bytes, "seed {seed}: {taken} bytes");
                assert!(running.iter().filter(|known| known.link).count() <= limits.links, "seed {seed}: links");
            }
            let shares = queue.shares(limits.threads);
            assert_eq!(shares.len(), running.len());
            let working: usize = shares.iter().map(|(_, share)| share).sum();
            assert!(working == if running.is_empty() { 0 } else { limits.threads }, "seed {seed}: {working} threads");
            // No awaited job waits for a job that nobody waits for, but of its own file.
            let is_free = |keys: &BTreeSet<Key>| running.iter().all(|known| known.keys.is_disjoint(keys));
            let is_first = |number: u64, keys: &BTreeSet<Key>| {
                keys.iter()
                    .all(|key| order[key].iter().take_while(|other| **other != number).all(|o| ended.contains(o)))
            };
            let awaited = queue.running.values().filter(|running| running.class == Class::Awaited).count();
            if awaited == 0 && step < steps {
                let waits = queue.waiting.values().find(|waiting| {
                    waiting.class == Class::Awaited
                        && !waiting.cost.is_least
                        && !waiting.cost.link
                        && waiting.job.0 % 20 != refused.get()
                        && is_free(&waiting.keys)
                        && is_first(waiting.job.0, &waiting.keys)
                });
                assert!(waits.is_none(), "seed {seed}: {waits:?} waits");
            }
            if step >= steps && !queue.is_waiting() && running.is_empty() {
                break;
            }
            assert!(step < 20 * steps, "seed {seed}: it does not end");
        }
        assert_eq!(ended.len() as u64, pushed);
    }
}
