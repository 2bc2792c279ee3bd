//! The links that there are.

use std::sync::Arc;

use crate::Link;
use crate::peer::Peer;
use crate::tcp::TcpLink;

/// The link that leads to `peer`. Nothing is connected before the first question.
pub fn link_to(peer: Peer) -> Arc<dyn Link> {
    Arc::new(TcpLink::new(peer))
}
