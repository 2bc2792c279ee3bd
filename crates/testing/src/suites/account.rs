//! What an account of a tier has to do, whoever keeps it.

use knarr_tier::{Account, Space};

/// Checks an account of which `limit` is left: at least 100 bytes and 2 inodes.
///
/// # Panics
/// If it does not count as it has to.
pub fn account_suite(account: &Account, limit: Space) {
    let most = limit.bytes;
    let take = |bytes: u64| account.take(Space::bytes(bytes));
    let give_back = |bytes: u64| account.give_back(Space::bytes(bytes));
    assert!(!take(most + 1), "more than there is");
    assert!(!take(u64::MAX), "a number that is too large to be added");
    assert!(take(most - 10) && !take(11) && take(10));
    assert!(take(0) && !take(1));
    give_back(60);
    assert!(!take(61) && take(60));
    // What is needed in any case leaves less for others.
    account.charge(Space::bytes(40));
    give_back(50);
    assert!(!take(11) && take(10));
    give_back(u64::MAX);
    assert!(take(most), "no more is given back than was taken");
    give_back(most);
    // Files count, too, and none of both is taken if one is missing.
    assert!(account.take(Space { bytes: 10, inodes: limit.inodes - 1 }));
    assert!(!account.take(Space { bytes: 1, inodes: 2 }) && !account.take(Space { bytes: most, inodes: 1 }));
    assert_eq!(account.taken(), Space { bytes: 10, inodes: limit.inodes - 1 });
    assert!(account.take(Space::file()) && !account.take(Space::file()));
    account.give_back(Space { bytes: 10, inodes: limit.inodes });
    assert_eq!(account.taken(), Space::default());
    // Many at a time take all of it, and no more.
    let each = most / 64;
    let taken: u64 = std::thread::scope(|scope| {
        let count = || (0..32).filter(|_| take(each)).count() as u64;
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
    });
    assert_eq!(taken, (most / each).min(128));
    give_back(taken * each);
}
