//! Accounts of the memory that values take.

use knarr_handover::Limit;
use knarr_testing::account_suite::account_suite;

#[test]
fn a_limit_counts() {
    account_suite(&*Limit::of(1 << 20), 1 << 20);
}
