//! One block of an array, from its numbers to its bytes and back.
//!
//! Reading order: `views` (ways to see its numbers), `block` (residuals of one of them), `corrections` and `keys` (what is
//! stored apart), `body` (the bytes of all that), `plan` (which way is smallest), `library` (blocks of other codecs).

pub(crate) mod block;
pub(crate) mod body;
pub(crate) mod corrections;
pub(crate) mod keys;
pub(crate) mod library;
pub(crate) mod plan;
pub(crate) mod views;
