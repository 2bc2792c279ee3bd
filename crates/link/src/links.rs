//! The links that there are, and which is taken.

use std::sync::Arc;

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

/// The link that leads to `peer`. Nothing is connected before the first question.
pub fn link_to(peer: Peer) -> Arc<dyn Link> {
    // What the variable says was checked by the launcher.
    Arc::new(TcpLink::over(peer, carriers().unwrap_or_default()))
}
