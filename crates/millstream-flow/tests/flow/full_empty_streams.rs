//! Streams that wait for packets of full/empty segments, or for kernels that do.

use crate::common::everywhere;
use crate::full_empty_copies::{waiting_after_a_fill, waiting_for_a_kernel, waiting_stream};

#[test]
fn a_stream_waits_for_a_packet() {
    for result in
        everywhere(
            1,
            |context| async move { waiting_stream(&context, &context.devices()[0]).await },
        )
    {
        result.unwrap();
    }
}

#[test]
fn what_a_stream_waits_for_after_a_fill_holds_up_nobody() {
    for result in everywhere(1, |context| async move {
        waiting_after_a_fill(&context, &context.devices()[0]).await
    }) {
        result.unwrap();
    }
}

/// Of host devices, which have no lanes: GPUs run the same.
#[test]
fn streams_that_wait_for_a_kernel_hold_up_no_fills() {
    for result in everywhere(1, |context| async move {
        waiting_for_a_kernel(&context, &context.devices()[0]).await
    }) {
        result.unwrap();
    }
}
