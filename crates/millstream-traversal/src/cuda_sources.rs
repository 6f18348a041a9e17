//! The kernels, for tests that compile them.

use millstream_device::CudaSource;
use millstream_worklist::Program;

use crate::relaxation::{Relaxation, Rule};
use crate::row_width::RowWidth;
use crate::value::Value;
use crate::{
    Vertices, beside, hubs, index_rows, near_far, pack_near_rows, reversed_rows, sort_rows, survey,
};

/// The CUDA C++ of all kernels that a search by a rule runs, for compiling without running.
#[doc(hidden)]
pub fn cuda_sources<R: Rule, V: Value>() -> Vec<CudaSource> {
    let worklist = Vertices::<Relaxation<R, V>>::cuda().into_iter();
    let worklist = worklist.flat_map(|cuda| cuda.cuda_sources::<Vertices<Relaxation<R, V>>>());
    let piles = RowWidth::ALL.into_iter().flat_map(|width| {
        [true, false].map(|grows| near_far::cuda_source::<R, V>(width as u32, grows))
    });
    let sorting = sort_rows::sources(R::WEIGHS).into_iter().chain(reversed_rows::cuda_sources());
    let sorting = sorting.chain(index_rows::cuda_sources());
    let others = [hubs::cuda_source(), survey::cuda_source(), beside::cuda_source()];
    let others = others.into_iter().chain([pack_near_rows::cuda_source::<R>()]);
    worklist.chain(piles).chain(others).chain(sorting).collect()
}
