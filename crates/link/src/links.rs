//! The links that there are, and which is taken.

use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

use knarr_array::error::{Error, ErrorKind, Result};

use crate::Link;
use crate::carrier::{CARRIERS, Carrier};
use crate::connection::{Carriers, TCP};
use crate::peer::Peer;
use crate::tcp::TcpLink;

/// Environment variable with the name of what connections go over. Without it, that is TCP.
pub const LINK: &str = "KNARR_LINK";

/// The carriers that this process uses. None is loaded yet.
///
/// # Errors
/// `Config` if the variable [`LINK`] says what there is not.
pub fn carriers() -> Result<Carriers> {
    let all = CARRIERS.iter().copied();
    match std::env::var(LINK).unwrap_or_default().as_str() {
        "" | TCP => Ok(Vec::new()),
        wanted => match all.clone().find(|carrier| carrier.name() == wanted) {
            Some(carrier) => Ok(vec![carrier]),
            None => {
                let names: Vec<&str> = std::iter::once(TCP).chain(all.map(Carrier::name)).collect();
                Err(Error::new(ErrorKind::Config, format!("{LINK} is '{wanted}', which is no link"))
                    .hint(format!("it may be {}", names.join(" or "))))
            }
        },
    }
}

/// Links of this process that somebody uses.
static USED: Mutex<Vec<Weak<TcpLink>>> = Mutex::new(Vec::new());

/// The link that leads to `peer`. Nothing is connected before the first question. All who ask the same peer share one, and
/// with it connections.
pub fn link_to(peer: Peer) -> Arc<dyn Link> {
    // What the variable says was checked by the launcher.
    let new = |peer| Arc::new(TcpLink::over(peer, carriers().unwrap_or_default()));
    let mut used = match USED.try_lock() {
        Ok(used) => used,
        Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
        // By a thread that is not there, perhaps, because this process was forked.
        Err(TryLockError::WouldBlock) => return new(peer),
    };
    used.retain(|link| link.strong_count() > 0);
    let shared = used.iter().filter_map(Weak::upgrade).find(|link| *link.peer() == peer);
    shared.unwrap_or_else(|| {
        let link = new(peer);
        used.push(Arc::downgrade(&link));
        link
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Secret;

    #[test]
    fn who_asks_the_same_peer_shares_a_link() {
        let peer = |node: &str| Peer { node: node.to_owned(), places: Vec::new(), secret: Secret::new().unwrap() };
        let (a, b) = (peer("a"), peer("b"));
        let [one, two] = [&a, &a].map(|peer| link_to(peer.clone()));
        assert!(Arc::ptr_eq(&one, &two) && !Arc::ptr_eq(&one, &link_to(b)));
        // Nobody keeps it for later.
        let weak = Arc::downgrade(&one);
        drop((one, two));
        assert!(weak.upgrade().is_none());
        assert_eq!(link_to(a).node(), "a");
    }
}
