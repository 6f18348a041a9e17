//! Contexts to run each case on, and kernels to run.

use std::future::Future;
use std::time::Duration;

use millstream_device::{Injection, Kernel, Read, Shared, Value, Write};
use millstream_flow::{Context, Devices};

/// Adds a number to every item.
pub static ADD: Kernel<(Read<u32>, Write<u32>, Value<u32>)> =
    Kernel::new("add", |grid, (input, output, addend)| {
        let _ = grid;
        for (to, from) in output.iter_mut().zip(input) {
            *to = from + addend;
        }
        Ok(())
    });

/// Keeps the even items and counts them.
pub static KEEP_EVEN: Kernel<(Read<u32>, Write<u32>, Shared<u32>)> =
    Kernel::new("keep_even", |_, (input, output, count)| {
        let mut kept = 0;
        for &item in input.iter().filter(|item| **item % 2 == 0) {
            output[kept] = item;
            kept += 1;
        }
        count[0].store(kept as u32, std::sync::atomic::Ordering::Release);
        Ok(())
    });

/// Runs `case` on threads, with and without delays, and on several simulated
/// schedules.
pub fn everywhere<F: Future>(devices: usize, case: impl Fn(Context) -> F) -> Vec<F::Output> {
    let builder = || Context::builder().devices(Devices::host(devices));
    let delay = Some(Duration::from_micros(1)..=Duration::from_micros(200));
    let delayed = Injection { seed: 7, delay, ..Injection::default() };
    let mut contexts = vec![builder(), builder().injection(delayed)];
    contexts.extend((0..6).map(|seed| {
        let reorder = seed % 2 == 1;
        builder().simulated(seed).injection(Injection { seed, reorder, ..Injection::default() })
    }));
    contexts
        .into_iter()
        .map(|builder| {
            let context = builder.build().unwrap();
            let output = context.block_on(case(context.clone())).unwrap();
            assert_nothing_leaked(&context);
            output
        })
        .collect()
}

/// All memory of the context's devices is free again.
pub fn assert_nothing_leaked(context: &Context) {
    context.device_set().quiesce().unwrap();
    for device in context.devices().iter().chain([context.host()]) {
        assert_eq!(device.memory().in_use, 0, "{device} leaks");
    }
}

/// An executor of a dozen lines: parks the thread until woken.
pub fn block_on<F: Future>(future: F) -> F::Output {
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
