//! The ranks of a program in Python: a communicator of mpi4py, or one with the same methods.

use knarr_array::comm::{Comm, check_peer};
use knarr_array::comm_suite;
use knarr_array::error::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::raise;

/// Bytes that are sent at once. mpi4py counts what it sends in an int.
const LONGEST_PIECE: usize = 1 << 30;

/// A communicator that nobody else sends messages in: an object with `send` and `recv` of any value.
pub(crate) struct PythonComm {
    comm: Py<PyAny>,
    rank: usize,
    size: usize,
    node: usize,
    /// A message goes in pieces of so many bytes, the last of which is shorter, if need be empty.
    longest_piece: usize,
}

/// The communicator, the rank in it, its size and the lowest rank on the same node.
pub(crate) type Ranks = (Py<PyAny>, usize, usize, usize);

impl PythonComm {
    pub(crate) fn new((comm, rank, size, node): Ranks) -> Self {
        Self { comm, rank, size, node, longest_piece: LONGEST_PIECE }
    }

    /// Calls a method with an argument by position and one by name.
    fn call<'py, T>(
        &self,
        py: Python<'py>,
        method: &str,
        given: T,
        (name, peer): (&str, usize),
    ) -> PyResult<Bound<'py, PyAny>>
    where
        T: pyo3::call::PyCallArgs<'py>,
    {
        let named = PyDict::new(py);
        named.set_item(name, peer)?;
        self.comm.bind(py).call_method(method, given, Some(&named))
    }

    fn send_pieces(&self, to: usize, bytes: &[u8]) -> PyResult<()> {
        let mut rest = bytes;
        loop {
            let (piece, left) = rest.split_at(rest.len().min(self.longest_piece));
            // Other threads of Python may run between two pieces.
            Python::attach(|py| self.call(py, "send", (PyBytes::new(py, piece),), ("dest", to)).map(drop))?;
            if piece.len() < self.longest_piece {
                return Ok(());
            }
            rest = left;
        }
    }

    fn receive_pieces(&self, from: usize) -> PyResult<Vec<u8>> {
        let mut message = Vec::new();
        loop {
            let length = Python::attach(|py| {
                let piece = self.call(py, "recv", (), ("source", from))?;
                let bytes = piece.cast::<PyBytes>()?.as_bytes();
                message.extend_from_slice(bytes);
                PyResult::Ok(bytes.len())
            })?;
            if length < self.longest_piece {
                return Ok(message);
            }
        }
    }
}

fn failed(error: PyErr) -> Error {
    Error::internal(format!("the communicator failed: {error}"))
        .hint("give an mpi4py communicator, or one with the same methods send and recv")
}

impl Comm for PythonComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn node(&self) -> usize {
        self.node
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        check_peer(self, to)?;
        self.send_pieces(to, bytes).map_err(failed)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        check_peer(self, from)?;
        self.receive_pieces(from).map_err(failed)
    }
}

/// Checks that a communicator does what Knarr needs; with `longest_piece` messages go in shorter pieces. Collective.
#[pyfunction]
#[pyo3(signature = (ranks, longest_piece = None))]
pub(crate) fn check_ranks(py: Python<'_>, ranks: Ranks, longest_piece: Option<usize>) -> PyResult<()> {
    let longest_piece = longest_piece.unwrap_or(LONGEST_PIECE).max(1);
    let comm = PythonComm { longest_piece, ..PythonComm::new(ranks) };
    py.detach(|| comm_suite::check(&comm)).map_err(raise)
}
