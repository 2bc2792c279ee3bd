//! What an account of memory has to do, whoever keeps it.

use knarr_handover::Account;

/// Checks an account of which `most` bytes are left, at least 100 of them.
///
/// # Panics
/// If it does not count as it has to.
pub fn account_suite(account: &dyn Account, most: u64) {
    assert!(!account.take(most + 1), "more than there is");
    assert!(!account.take(u64::MAX), "a number that is too large to be added");
    assert!(account.take(most - 10) && !account.take(11) && account.take(10));
    assert!(account.take(0) && !account.take(1));
    account.give_back(60);
    assert!(!account.take(61) && account.take(60));
    // What is needed in any case leaves less for others.
    account.charge(40);
    account.give_back(50);
    assert!(!account.take(11) && account.take(10));
    account.give_back(u64::MAX);
    assert!(account.take(most), "no more is given back than was taken");
    account.give_back(most);
    // Many at a time take all of it, and no more.
    let each = most / 64;
    let taken: u64 = std::thread::scope(|scope| {
        let take = || (0..32).filter(|_| account.take(each)).count() as u64;
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
    });
    assert_eq!(taken, (most / each).min(128));
    account.give_back(taken * each);
}
