//! What goes over a link after each sweep: what the other device's rows ask for \[G §4.5\],
//! or all that a device has where they ask for all of it. Twins of `halo.cuh`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_device::{
    CudaSource, DeviceBuffer, Grid, Kernel, KernelResult, Read, Result, Stream, Trusted, Write,
};
use millstream_graph::Partition;
use rayon::prelude::*;

use crate::real::Real;
use crate::sliced_rows::NO_SOURCE;

/// Vertices of one device that another asks for, as one of the two has them.
#[derive(Clone, Debug)]
pub(crate) enum Halo {
    /// All that are the device's: they go as they lie.
    All(Range<usize>),
    /// These, by new id, packed in this order.
    Some(Arc<DeviceBuffer<u32>>),
}

impl Halo {
    /// Shares of a sweep.
    pub(crate) fn len(&self) -> usize {
        match self {
            Halo::All(own) => own.len(),
            Halo::Some(vertices) => vertices.len(),
        }
    }

    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Halo::All(_) => 0,
            Halo::Some(vertices) => vertices.len() * size_of::<u32>(),
        }
    }

    /// Of the vertices `own`, those that are `asked` for.
    pub(crate) fn uploaded(stream: &Stream, own: Range<usize>, asked: &Arc<[u32]>) -> Result<Halo> {
        Ok(match asked.len() < own.len() {
            false => Halo::All(own),
            true => Halo::Some(Arc::new(stream.uploaded(Arc::clone(asked))?)),
        })
    }
}

/// The vertices of each part, by new id and ascending, that rows with such sources ask for;
/// none of their own `part`.
pub(crate) fn asked(sources: &[u32], partition: &Partition, part: usize) -> Vec<Arc<[u32]>> {
    let is_asked: Vec<AtomicBool> =
        (0..partition.vertices()).map(|_| AtomicBool::new(false)).collect();
    sources.par_iter().filter(|&&source| source != NO_SOURCE).for_each(|&source| {
        // Relaxed: read when all is over.
        is_asked[source as usize].store(true, Ordering::Relaxed);
    });
    let of = |owner: usize| {
        let is_asked = |vertex: &u32| is_asked[*vertex as usize].load(Ordering::Relaxed);
        let own = if owner == part { 0..0 } else { partition.range(owner) };
        own.filter(is_asked).collect()
    };
    (0..partition.parts()).map(of).collect()
}

/// Whose shares; from where, and to where: one of the two has all vertices, the other is a packet.
type Signature<R> = (Read<u32>, Read<R>, Write<R>);

/// Kernels that put shares into packets and take them out again.
#[derive(Debug)]
pub(crate) struct HaloKernels<R: Real> {
    pub(crate) pack: Kernel<Signature<R>>,
    pub(crate) unpack: Kernel<Signature<R>>,
}

impl<R: Real> HaloKernels<R> {
    pub(crate) fn new() -> HaloKernels<R> {
        let [pack, unpack] = match R::IS_DOUBLE {
            false => ["pack_f32", "unpack_f32"],
            true => ["pack_f64", "unpack_f64"],
        };
        // SAFETY: the kernels keep to their arguments as the signature says, as their twins do.
        let source = |entry| unsafe { Trusted::new(cuda_source(entry)) };
        HaloKernels {
            pack: Kernel::<Signature<R>>::new("pack", pack_twin::<R>).with_cuda(source(pack)),
            unpack: Kernel::<Signature<R>>::new("unpack", unpack_twin::<R>)
                .with_cuda(source(unpack)),
        }
    }
}

pub(crate) fn cuda_source(entry: &'static str) -> CudaSource {
    CudaSource::new("halo.cuh", entry, include_str!("halo.cuh"))
}

fn pack_twin<R: Real>(
    _: &Grid,
    (vertices, gives, packet): (&[u32], &[R], &mut [R]),
) -> KernelResult {
    for (to, &vertex) in packet.iter_mut().zip(vertices) {
        *to = gives[vertex as usize];
    }
    Ok(())
}

fn unpack_twin<R: Real>(
    _: &Grid,
    (vertices, packet, gives): (&[u32], &[R], &mut [R]),
) -> KernelResult {
    for (&from, &vertex) in packet.iter().zip(vertices) {
        gives[vertex as usize] = from;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_of_others_ask_for() {
        let parts = Partition::from_parts(3, &[0, 0, 1, 1, 2, 2]).unwrap();
        let asked = asked(&[1, 2, NO_SOURCE, 5, 1, 2, 0], &parts, 1);
        assert_eq!(
            asked.iter().map(|asked| &asked[..]).collect::<Vec<_>>(),
            [&[0, 1][..], &[], &[5]]
        );
    }
}
