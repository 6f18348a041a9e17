//! What cannot be uploaded.

use millstream_device::Device;
use millstream_flow::Context;
use millstream_graph::pieces::InPieces;
use millstream_graph::{CsrGraph, Partition};
use rayon::prelude::*;

use crate::{Error, Result};

/// The most arcs that a vertex may have on a GPU: kernels add up the arcs of 32 rows in 32 bits.
const MOST_ROW_ARCS: u64 = 125_000_000;
/// Kernels take up to 1,024 vertices at once, even past the last one, and number them in 32 bits.
const MOST_VERTICES: u32 = u32::MAX - 1023;

/// Checks that the GPUs, if the context has any, can take the rows of `graph`.
///
/// # Errors
/// [`Error::TooManyArcs`] or [`Error::TooManyVertices`] if they cannot.
pub fn check_rows(context: &Context, graph: &CsrGraph) -> Result<()> {
    if !context.devices().iter().any(Device::is_gpu) {
        return Ok(());
    }
    check_vertices(graph.vertices())?;
    let long = long_row(graph, MOST_ROW_ARCS);
    let refused =
        |row| Err(Error::TooManyArcs { row, arcs: graph.degree(row), most: MOST_ROW_ARCS });
    long.map_or(Ok(()), refused)
}

/// Checks that a device can take a row of `arcs` arcs.
///
/// # Errors
/// [`Error::TooManyArcs`] if it cannot.
pub(crate) fn check_row(device: &Device, row: u32, arcs: u64) -> Result<()> {
    match arcs <= MOST_ROW_ARCS || !device.is_gpu() {
        true => Ok(()),
        false => Err(Error::TooManyArcs { row, arcs, most: MOST_ROW_ARCS }),
    }
}

fn check_vertices(vertices: u32) -> Result<()> {
    match vertices <= MOST_VERTICES {
        true => Ok(()),
        false => Err(Error::TooManyVertices { vertices, most: MOST_VERTICES }),
    }
}

/// A vertex with more than `most` arcs.
fn long_row(graph: &CsrGraph, most: u64) -> Option<u32> {
    if graph.targets().len() as u64 <= most {
        return None;
    }
    let vertices = (0..graph.vertices()).into_par_iter().in_pieces();
    vertices.find_any(|&vertex| graph.degree(vertex) > most)
}

/// Checks that a partition fits `graph` and the devices of `context`.
///
/// # Errors
/// [`Error::Partition`] if it does not.
pub fn check_partition(context: &Context, graph: &CsrGraph, partition: &Partition) -> Result<()> {
    let (devices, graph_vertices) = (context.devices().len(), graph.vertices());
    let (parts, vertices) = (partition.parts(), partition.vertices());
    match parts == devices && vertices == graph_vertices {
        true => Ok(()),
        false => Err(Error::Partition { vertices, parts, graph_vertices, devices }),
    }
}

#[cfg(test)]
mod tests {
    use millstream_flow::Devices;

    use super::*;

    #[test]
    fn rows_that_are_too_long_are_found() {
        let graph = CsrGraph::from_edges(9, &[(0, 1), (5, 1), (5, 2), (5, 8)]).unwrap();
        assert_eq!(long_row(&graph, 2), Some(5));
        assert_eq!(long_row(&graph, 3), None);
        // Host devices take them all.
        let context = Context::builder().devices(Devices::host(2)).build().unwrap();
        assert!(check_rows(&context, &graph).is_ok());
    }

    #[test]
    fn vertices_are_counted_in_32_bits() {
        assert!(check_vertices(MOST_VERTICES).is_ok());
        let refused = check_vertices(MOST_VERTICES + 1).unwrap_err().to_string();
        assert!(refused.contains("4294966273 vertices"), "{refused}");
    }
}
