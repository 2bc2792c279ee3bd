//! UCX as a carrier: InfiniBand and its kin.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use knarr_ucx as ucx;

use super::contract::{Carrier, End, Stream};

/// UCX, loaded when it is needed.
pub(super) struct Ucx;

impl Carrier for Ucx {
    fn name(&self) -> &'static str {
        "ucx"
    }

    fn version(&self) -> Result<String, String> {
        ucx::load().map(|ucx| ucx.version().to_owned())
    }

    fn begin(&self) -> io::Result<Box<dyn End>> {
        Ok(Box::new(ucx::End::new(ucx::load().map_err(io::Error::other)?)?))
    }
}

impl End for ucx::End {
    fn address(&self) -> io::Result<Vec<u8>> {
        self.address()
    }

    fn connect(self: Box<Self>, address: &[u8], beside: TcpStream) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new((*self).connect(address, beside)?))
    }
}

impl Stream for ucx::Stream {
    fn set_patience(&mut self, reads: Duration, writes: Duration) -> io::Result<()> {
        self.set_patience(reads, writes);
        Ok(())
    }
}
