use super::*;

const SETTLE: Duration = Duration::from_secs(2);
const STEP_WAITS: Duration = Duration::from_secs(60);

struct Watch {
    steps: Steps,
    begin: Instant,
}

impl Watch {
    fn new(force: bool) -> Self {
        Self::with(force, false)
    }

    fn with(force: bool, live: bool) -> Self {
        let (ranks_key, remove_key) = ("--ranks", "--remove");
        let (settle, patience) = (SETTLE, STEP_WAITS);
        let rules = Rules { ranks: 0..=3, settle, patience, force, live, ranks_key, remove_key };
        Self { steps: Steps::new(rules), begin: Instant::now() }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.begin + Duration::from_secs(seconds)
    }

    /// Looks at files given as (step, rank, length).
    fn look(&mut self, seconds: u64, files: &[(u64, u64, u64)]) -> Vec<String> {
        let found = files.iter().map(|&(step, rank, length)| found(step, rank, length)).collect();
        self.steps.look(found, self.at(seconds)).iter().map(ToString::to_string).collect()
    }

    fn complete(&self, seconds: u64) -> Option<u64> {
        self.steps.complete(self.at(seconds)).map(|complete| complete.step)
    }
}

fn found(step: u64, rank: u64, length: u64) -> Found {
    let identity = Identity::of(&std::fs::metadata("/").unwrap());
    let state = State { identity, length, modified: (0, 0) };
    let path = format!("r_{step}_{rank}").into();
    Found { step, rank, path, state, age: Duration::ZERO, created: None }
}

const WHOLE: [(u64, u64, u64); 4] = [(1, 0, 5), (1, 1, 5), (1, 2, 5), (1, 3, 5)];

#[test]
fn a_step_is_complete_when_its_last_file_rests() {
    let mut watch = Watch::new(false);
    assert!(watch.look(0, &WHOLE[..3]).is_empty());
    assert_eq!(watch.complete(10), None);
    assert!(watch.look(10, &WHOLE).is_empty());
    assert_eq!(watch.complete(11), None);
    assert!(watch.steps.waits_to_settle(watch.at(11)));
    assert_eq!(watch.complete(12), Some(1));
    // It grows: it is waited for anew.
    assert!(watch.look(12, &[WHOLE[0], WHOLE[1], WHOLE[2], (1, 3, 6)]).is_empty());
    assert_eq!(watch.complete(13), None);
    assert_eq!(watch.complete(14), Some(1));
    watch.steps.restless(1, watch.at(14));
    assert_eq!(watch.complete(15), None);
    watch.steps.packed(1);
    assert_eq!(watch.complete(99), None);
    assert!(watch.steps.unfinished().is_empty());
}

#[test]
fn what_could_not_be_written_is_tried_again() {
    let mut watch = Watch::new(false);
    watch.look(0, &WHOLE);
    assert_eq!(watch.complete(2), Some(1));
    watch.steps.postponed(1, watch.at(2));
    assert_eq!(watch.complete(61), None);
    assert!(!watch.steps.waits_to_settle(watch.at(61)));
    assert!(watch.look(62, &WHOLE).is_empty());
    assert_eq!(watch.complete(62), Some(1));
}

#[test]
fn files_that_were_finished_long_ago_need_no_waiting() {
    let mut watch = Watch::new(false);
    let old = (0..4).map(|rank| Found { age: SETTLE, ..found(7, rank, 1) }).collect();
    assert!(watch.steps.look(old, watch.at(0)).is_empty());
    assert_eq!(watch.complete(0), Some(7));
}

#[test]
fn earlier_steps_come_first_and_incomplete_ones_hold_none_up() {
    let mut watch = Watch::new(false);
    let files: Vec<_> = [1, 5, 3].iter().flat_map(|&step| (0..4).map(move |rank| (step, rank, 1))).collect();
    watch.look(0, &files[1..]);
    assert_eq!(watch.complete(5), Some(3));
    watch.steps.packed(3);
    assert_eq!(watch.complete(5), Some(5));
}

#[test]
fn missing_ranks_are_named_once_and_may_still_come() {
    let mut watch = Watch::new(false);
    assert!(watch.look(0, &[(4, 1, 1)]).is_empty());
    assert!(watch.look(59, &[(4, 1, 1)]).is_empty());
    let troubles = watch.look(60, &[(4, 1, 1)]);
    assert_eq!(troubles.len(), 1);
    assert!(troubles[0].starts_with("step 4: no file of ranks 0, 2-3 came; "), "{troubles:?}");
    assert!(watch.look(61, &[(4, 1, 1)]).is_empty());
    watch.look(100, &[(4, 0, 1), (4, 1, 1), (4, 2, 1), (4, 3, 1)]);
    assert_eq!(watch.complete(102), Some(4));
    // A step that waits for one file is not impatient while files come.
    let mut watch = Watch::new(false);
    for rank in 0..3u64 {
        let files: Vec<_> = (0..=rank).map(|rank| (1, rank, 1)).collect();
        assert!(watch.look(50 * rank, &files).is_empty());
    }
    assert!(watch.look(160, &WHOLE.map(|(step, rank, _)| (step, rank, 1))[..3])[0].contains("no file of rank 3"));
}

#[test]
fn files_in_the_way_are_told_once() {
    let mut watch = Watch::new(false);
    let foreign = watch.look(0, &[(1, 4, 1)]);
    assert_eq!(foreign, ["r_1_4: rank 4 is not one of 0 to 3; hint: correct --ranks"]);
    assert!(watch.look(1, &[(1, 4, 1)]).is_empty());

    let twin = Found { path: "r_01_2".into(), ..found(1, 2, 9) };
    let mut files: Vec<Found> = WHOLE.iter().map(|&(step, rank, length)| found(step, rank, length)).collect();
    files.push(twin);
    let troubles = watch.steps.look(files.clone(), watch.at(2));
    assert_eq!(troubles.len(), 1);
    assert!(troubles[0].to_string().starts_with("r_01_2: rank 2 of step 1 has another file"), "{troubles:?}");
    assert!(watch.steps.look(files.clone(), watch.at(3)).is_empty());
    assert_eq!(watch.complete(9), None);
    files.pop();
    watch.steps.look(files, watch.at(10));
    assert_eq!(watch.complete(10), Some(1));
}

#[test]
fn packed_steps_may_go_and_may_not_be_written_again() {
    let mut watch = Watch::new(false);
    watch.look(0, &WHOLE);
    watch.steps.packed(1);
    assert!(watch.look(1, &WHOLE[1..]).is_empty());
    assert!(watch.look(2, &[]).is_empty());
    let troubles = watch.look(3, &[(1, 0, 7)]);
    assert!(troubles[0].contains("step 1 was packed already, and is written again"), "{troubles:?}");
    assert_eq!(troubles.len(), 1);
    // Told once, however many files it is.
    assert!(watch.look(4, &WHOLE.map(|(step, rank, _)| (step, rank, 9))).is_empty());
    assert_eq!(watch.complete(99), None);

    let mut watch = Watch::new(true);
    watch.look(0, &WHOLE);
    watch.steps.packed(1);
    // Not before all of them are: half of each time would be of no use.
    assert!(watch.look(1, &[(1, 0, 8), (1, 1, 8), (1, 2, 8), (1, 3, 5)]).is_empty());
    assert_eq!(watch.complete(9), None);
    assert!(watch.look(10, &WHOLE.map(|(step, rank, _)| (step, rank, 8))).is_empty());
    assert_eq!(watch.complete(12), Some(1));
}

#[test]
fn files_that_vanish_are_told() {
    let mut watch = Watch::new(false);
    watch.look(0, &WHOLE[..2]);
    let troubles = watch.look(1, &WHOLE[..1]);
    assert!(troubles[0].starts_with("step 1: files were removed before they were packed"), "{troubles:?}");
    assert!(watch.look(2, &[]).is_empty());
    assert!(watch.steps.unfinished().is_empty());
}

#[test]
fn what_is_left_is_told_at_the_end() {
    let mut watch = Watch::new(false);
    let mut files = WHOLE.to_vec();
    files.push((2, 1, 1));
    watch.look(0, &files);
    let left = watch.steps.unfinished();
    assert_eq!(left[0], (1, "was not packed".to_owned(), false));
    assert_eq!(left[1], (2, "has no file of ranks 0, 2-3".to_owned(), false));
}

fn written(step: u64, rank: u64, modified: i64) -> Found {
    let file = found(step, rank, 1);
    Found { state: State { modified: (modified, 0), ..file.state }, ..file }
}

#[test]
fn what_was_written_first_is_packed_first() {
    let mut watch = Watch::new(false);
    let files = [(8, 10), (7, 20)].into_iter().flat_map(|(step, at)| (0..4).map(move |rank| written(step, rank, at)));
    watch.steps.look(files.collect(), watch.at(0));
    assert_eq!(watch.complete(5), Some(8));
    let complete = watch.steps.complete(watch.at(5)).unwrap();
    assert!(complete.files.values().all(|file| file.followed), "every rank went on to step 7");
    watch.steps.packed(8);
    assert_eq!(watch.complete(5), Some(7));
    let complete = watch.steps.complete(watch.at(5)).unwrap();
    assert!(complete.files.values().all(|file| !file.followed));
}

#[test]
fn the_time_of_writing_is_that_of_files_that_came_meanwhile() {
    let begun = |created, modified| Found { created: Some((created, 0)), ..written(1, created as u64 % 4, modified) };
    let came = [begun(100, 107), begun(101, 103), begun(102, 109), begun(103, 105)];
    let mut watch = Watch::new(true);
    watch.steps.look(came.to_vec(), watch.at(0));
    let written_in = |watch: &Watch, at| watch.steps.complete(watch.at(at)).unwrap().written_in;
    assert_eq!(written_in(&watch, 5), Some(Duration::from_secs(9)));
    watch.steps.packed(1);
    // Written again in place: the files are as old as before.
    let later = |file: &Found| Found { state: State { modified: (500, 0), ..file.state }, ..file.clone() };
    watch.steps.look(came.iter().map(later).collect(), watch.at(10));
    assert_eq!(written_in(&watch, 15), None);
    watch.steps.packed(1);
    let anew = |file: &Found| Found { created: Some((600, 0)), ..written(1, file.rank, 601) };
    watch.steps.look(came.iter().map(anew).collect(), watch.at(20));
    assert_eq!(written_in(&watch, 25), Some(Duration::from_secs(1)));
    // One of them was there before.
    let mut watch = Watch::new(false);
    watch.steps.look(
        came.iter().map(|file| Found { created: file.created.filter(|c| c.0 > 100), ..file.clone() }).collect(),
        watch.at(0),
    );
    assert_eq!(written_in(&watch, 5), None);
}

#[test]
fn sets_keep_the_order_of_their_files_if_that_is_asked() {
    for live in [false, true] {
        let mut watch = Watch::with(true, live);
        let files: Vec<Found> =
            [1, 2].into_iter().flat_map(|step| (0..4).map(move |rank| written(step, rank, step as i64))).collect();
        watch.steps.look(files, watch.at(0));
        watch.steps.postponed(1, watch.at(2));
        assert_eq!(watch.complete(2), Some(2));
        let given_up = watch.steps.packed(2);
        assert_eq!(given_up.len(), usize::from(live));
        watch.steps.retry(watch.at(3));
        assert_eq!(watch.complete(3), if live { None } else { Some(1) });
    }
}

#[test]
fn a_step_that_is_left_counts_again_when_it_is_written_again() {
    let mut watch = Watch::new(true);
    watch.look(0, &WHOLE);
    watch.steps.left(1);
    assert_eq!(watch.complete(9), None);
    assert!(watch.steps.unfinished().is_empty());
    watch.look(10, &WHOLE.map(|(step, rank, _)| (step, rank, 9)));
    assert_eq!(watch.complete(12), Some(1));
}
