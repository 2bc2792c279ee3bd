//! Steps that many ranks hand over to a route that only adds values up.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use knarr_array::array::{ArraySpec, ArrayView, DType};
use knarr_array::comm::{self, Comm, Solo, Threads};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::Region;
use knarr_array::request::Share;
use knarr_handover::{Delivery, Handover, Spool, open};

/// What the route does with the spool of its rank.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    Sum,
    Fail,
    Panic,
    UntilCancelled,
}

/// Adds up the bytes of all values of all ranks.
struct Sum {
    spool: PathBuf,
    work: Work,
    cancel: Arc<AtomicBool>,
}

impl Delivery for Sum {
    type Delivered = u64;
    type Outcome = u64;

    #[expect(clippy::panic, reason = "what it is for")]
    fn deliver(&self) -> Result<u64> {
        match self.work {
            Work::Fail => return Err(Error::new(ErrorKind::Write, "no space left on device")),
            Work::Panic => panic!("a defect"),
            Work::UntilCancelled => {
                while !self.cancel.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                return Err(Error::new(ErrorKind::Interrupted, "cancelled"));
            }
            Work::Sum => {}
        }
        let (index, _) = open(&self.spool)?.ok_or_else(|| Error::internal("not an array file"))?;
        let bytes = std::fs::read(&self.spool).map_err(|error| Error::read(&self.spool, &error))?;
        let of = |offset: u64, length: u64| {
            let range = usize::try_from(offset).unwrap()..usize::try_from(offset + length).unwrap();
            bytes[range].iter().map(|&byte| u64::from(byte)).sum::<u64>()
        };
        Ok(index.entries.iter().map(|entry| of(entry.offset, entry.request.byte_len())).sum())
    }

    fn finish(self, comm: &dyn Comm, delivered: Result<u64>) -> Result<u64> {
        let sums = comm::collect(comm, &comm::agree(comm, delivered)?)?;
        comm::share(comm, &sums.unwrap_or_default().iter().sum())
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("knarr-handover-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn hand_over<C: Comm>(folder: &Folder, comm: C) -> Handover<C, Sum> {
    let spool = Spool::open(Some(&folder.0), &folder.0).unwrap();
    Handover::new(comm, spool, Arc::default())
}

fn step<C: Comm>(handover: &mut Handover<C, Sum>, number: u64, work: Work) -> Result<()> {
    let rank = handover.comm().rank() as u64;
    handover.open(number);
    let values = [u8::try_from(rank + number).unwrap(); 5];
    let share = Share::Global { shape: vec![5 * handover.comm().size() as u64], region: Region::new([5 * rank], [5]) };
    handover.put("T", &ArrayView::new(&ArraySpec::new(DType::U8, [5]), &values)?, share)?;
    let (closed, index) = handover.close()?;
    assert_eq!(closed, number);
    handover.check_alike(&index)?;
    let delivery = Sum { spool: handover.spool().path(), work, cancel: Arc::default() };
    handover.start(closed, delivery)
}

#[test]
fn what_all_ranks_handed_over_is_delivered_step_by_step() {
    let folder = Folder::new("steps");
    let sums = Threads::run(Threads::new(4), |comm| {
        let mut handover = hand_over(&folder, comm);
        assert_eq!((handover.settle()?, handover.pending()), (None, None));
        let mut sums = Vec::new();
        for number in 1..4 {
            handover.exchange("begin", Some(number), Ok(()))?;
            step(&mut handover, number, Work::Sum)?;
            assert_eq!(handover.pending(), Some(number));
            sums.push(handover.settle()?.unwrap());
        }
        Ok(sums)
    });
    for sums in sums {
        assert_eq!(sums.unwrap(), (1..4).map(|number| 5 * (4 * number + 6)).collect::<Vec<u64>>());
    }
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "spools are gone");
}

#[test]
fn an_error_or_a_panic_of_one_rank_is_that_of_all_and_the_next_step_goes_on() {
    for (work, text) in [(Work::Fail, "rank 2 of 3: no space left on device"), (Work::Panic, "a defect")] {
        let folder = Folder::new(if work == Work::Fail { "fail" } else { "panic" });
        let results = Threads::run(Threads::new(3), |comm| {
            let mine = if comm.rank() == 2 { work } else { Work::Sum };
            let mut handover = hand_over(&folder, comm);
            step(&mut handover, 1, mine)?;
            let error = handover.settle().unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
            step(&mut handover, 2, Work::Sum)?;
            handover.settle()
        });
        for result in results {
            assert_eq!(result.unwrap(), Some(5 * (2 + 3 + 4)));
        }
    }
}

#[test]
fn ranks_that_call_different_things_learn_it_at_once_and_for_good() {
    let folder = Folder::new("different");
    Threads::run(Threads::new(3), |comm| {
        let call = if comm.rank() == 1 { "wait" } else { "begin" };
        let mut handover = hand_over(&folder, comm);
        for _ in 0..2 {
            let error = handover.exchange(call, Some(7), Ok(())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains("rank 1 calls wait of step 7, rank 0 begin of step 7"), "{error}");
        }
        Ok(())
    })
    .into_iter()
    .for_each(|result| result.unwrap());
}

#[test]
fn a_step_with_an_error_cannot_be_closed() {
    let folder = Folder::new("failed");
    let mut handover = hand_over(&folder, Solo);
    assert_eq!(handover.close().unwrap_err().kind(), ErrorKind::Usage);
    handover.open(3);
    let array = ArraySpec::new(DType::U8, [2]);
    handover.put("", &ArrayView::new(&array, &[1, 2]).unwrap(), Share::Own(vec![2])).unwrap_err();
    handover.put("T", &ArrayView::new(&array, &[1, 2]).unwrap(), Share::Own(vec![2])).unwrap();
    assert!(handover.close().unwrap_err().to_string().contains("it is empty"));
    assert_eq!(handover.opened(), None);
}

#[test]
fn a_handover_that_is_dropped_stops_its_delivery_and_leaves_nothing() {
    let folder = Folder::new("dropped");
    let cancel = Arc::new(AtomicBool::new(false));
    let spool = Spool::open(Some(&folder.0), &folder.0).unwrap();
    let mut handover = Handover::new(Solo, spool, Arc::clone(&cancel));
    handover.open(1);
    handover.close().unwrap();
    let spool = handover.spool().path();
    handover.start(1, Sum { spool, work: Work::UntilCancelled, cancel }).unwrap();
    assert!(!handover.is_delivered());
    let begin = Instant::now();
    drop(handover);
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}
