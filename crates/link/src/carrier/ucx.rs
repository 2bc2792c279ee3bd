//! UCX as a carrier: InfiniBand and its kin.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use knarr_ucx as ucx;

use super::contract::{Carrier, End, Stream};

/// UCX, loaded when it is needed.
pub(super) struct Ucx;

/// Where Linux shows devices for InfiniBand and RoCE.
const DEVICES: &str = "/sys/class/infiniband";

impl Carrier for Ucx {
    fn name(&self) -> &'static str {
        "ucx"
    }

    fn version(&self) -> Result<String, String> {
        ucx::load().map(|ucx| ucx.version().to_owned())
    }

    fn has_devices(&self) -> bool {
        has_active_port(Path::new(DEVICES))
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

/// True if a port of one of the devices is up: its state is `4: ACTIVE`.
fn has_active_port(devices: &Path) -> bool {
    let within = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut ports = within(devices).flat_map(|device| within(&device.join("ports")).collect::<Vec<_>>());
    ports.any(|port| fs::read_to_string(port.join("state")).is_ok_and(|state| state.contains("ACTIVE")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_are_down_do_not_count() {
        let devices = std::env::temp_dir().join(format!("knarr-infiniband-{}", std::process::id()));
        assert!(!has_active_port(&devices));
        let state = |port: &str, state: &str| {
            let port = devices.join("mlx5_0/ports").join(port);
            fs::create_dir_all(&port).unwrap();
            fs::write(port.join("state"), state).unwrap();
        };
        state("1", "1: DOWN\n");
        assert!(!has_active_port(&devices));
        state("2", "4: ACTIVE\n");
        assert!(has_active_port(&devices));
        fs::remove_dir_all(devices).unwrap();
    }
}
