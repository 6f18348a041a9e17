//! The first cause reaches every pending call, within a second, and nothing leaks.

use std::time::{Duration, Instant};

use millstream_device::{Kernel, KernelFault, Write};
use millstream_flow::{Buffers, Context, Devices, Error, Graph, Result};
use parking_lot::Mutex;
use std::sync::Arc;

use crate::common::{assert_nothing_leaked, everywhere};

static BREAK: Kernel<(Write<u32>,)> =
    Kernel::new("break", |_, _| Err(KernelFault::new("out of luck")));

static PANIC: Kernel<(Write<u32>,)> = Kernel::new("panic", |_, _| panic!("a kernel panics"));

/// A graph with a call pending on every kind of wait, in which `culprit` fails.
fn everyone_hears<F>(culprit: impl Fn(Context) -> F, is_cause: impl Fn(&Error) -> bool)
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let start = Instant::now();
    let runs = everywhere(3, |context| {
        let culprit = culprit(context.clone());
        async move {
            let heard = Arc::new(Mutex::new(Vec::new()));
            let graph = Graph::new(&context);
            let (host, devices) = (context.host().clone(), context.devices());
            // A receiver that nothing is sent to.
            let (idle, mut waits) =
                graph.link::<u32>(&devices[0], &devices[1], Buffers::items(2)).unwrap();
            let log = Arc::clone(&heard);
            graph.spawn(async move {
                let _idle = idle;
                let result = waits.recv().await.map(drop);
                log.lock().push(("recv", result.clone().unwrap_err()));
                result
            });
            // A sender whose receiver takes nothing: assignment never ends.
            let (mut stuck, idle) =
                graph.link::<u32>(&host, &devices[2], Buffers::items(2)).unwrap();
            let log = Arc::clone(&heard);
            graph.spawn(async move {
                let _idle = idle;
                let result = stuck.send_all(vec![0; 100]).await;
                log.lock().push(("send", result.clone().unwrap_err()));
                result
            });
            // A sender out of send buffers.
            let (mut full, idle) =
                graph.link::<u32>(&devices[1], &devices[2], Buffers::items(2)).unwrap();
            let log = Arc::clone(&heard);
            graph.spawn(async move {
                let _idle = idle;
                let _held = (full.buffer(1).await?, full.buffer(1).await?);
                let result = full.buffer(1).await.map(drop);
                log.lock().push(("buffer", result.clone().unwrap_err()));
                result
            });
            graph.spawn(culprit);
            let log = Arc::clone(&heard);
            let main = async move {
                std::future::pending::<()>().await;
                drop(log);
                Ok::<_, Error>(())
            };
            let cause = graph.run(main).await.unwrap_err();
            (cause, Arc::into_inner(heard).unwrap().into_inner())
        }
    });
    let took = start.elapsed();
    assert!(took < Duration::from_secs(1) * runs.len() as u32, "{took:?}");
    for (cause, heard) in runs {
        assert!(is_cause(&cause), "{cause}");
        let mut calls: Vec<_> = heard.iter().map(|(call, _)| *call).collect();
        calls.sort_unstable();
        assert_eq!(calls, ["buffer", "recv", "send"]);
        for (call, error) in heard {
            assert_eq!(error.to_string(), cause.to_string(), "{call}");
        }
    }
}

#[test]
fn a_worker_that_panics() {
    everyone_hears(
        |_| async { panic!("the worker panics") },
        |cause| matches!(cause, Error::TaskPanicked { message } if message == "the worker panics"),
    );
}

#[test]
fn a_worker_with_an_error_of_its_own() {
    everyone_hears(
        |_| async { Err(Error::task(std::fmt::Error)) },
        |cause| matches!(cause, Error::Task(_)),
    );
}

async fn launch_and_wait(context: Context, kernel: &Kernel<(Write<u32>,)>) -> Result<()> {
    let device = &context.devices()[0];
    let (stream, mut buffer) = (device.stream()?, device.buffer::<u32>(4)?);
    kernel.launch(&stream, 4, (&mut buffer,))?;
    Ok(stream.completed()?.await?)
}

#[test]
fn a_kernel_that_fails() {
    everyone_hears(
        |context| async move { launch_and_wait(context, &BREAK).await },
        |cause| cause.to_string().contains("out of luck") && matches!(cause, Error::Device(_)),
    );
}

#[test]
fn a_kernel_that_panics() {
    everyone_hears(
        |context| async move { launch_and_wait(context, &PANIC).await },
        |cause| cause.to_string().contains("a kernel panics"),
    );
}

#[test]
fn a_kernel_that_fails_before_a_send() {
    // Nobody waits for the stream: the link itself must find out.
    everywhere(1, |context| async move {
        let graph = Graph::new(&context);
        let device = context.devices()[0].clone();
        let (mut output, mut results) =
            graph.link::<u32>(&device, context.host(), Buffers::items(4)).unwrap();
        graph.spawn(async move {
            let stream = device.stream()?;
            let mut buffer = output.buffer(4).await?;
            BREAK.launch(&stream, 4, (&mut buffer,))?;
            output.send(buffer, &stream)?;
            output.shutdown()
        });
        let main = async move {
            while let Some(pending) = results.recv().await? {
                pending.ready().await?.release()?;
            }
            Ok::<_, Error>(())
        };
        let cause = graph.run(main).await.unwrap_err();
        assert!(cause.to_string().contains("out of luck"), "{cause}");
    });
}

#[test]
fn a_receiver_dropped_with_packets_in_flight() {
    everywhere(1, |context| async move {
        let graph = Graph::new(&context);
        let device = &context.devices()[0];
        let (mut feed, mut input) =
            graph.link::<u32>(context.host(), device, Buffers::items(4)).unwrap();
        graph.spawn(async move {
            if let Some(pending) = input.recv().await? {
                pending.ready().await?.release()?;
            }
            Ok::<_, Error>(())
        });
        let cause = graph.run(feed.send_all(vec![0; 1000])).await.unwrap_err();
        assert!(matches!(&cause, Error::ReceiverDropped { to } if to == "host:0"), "{cause}");
    });
}

#[test]
fn a_sender_dropped_without_shutdown() {
    everywhere(1, |context| async move {
        let graph = Graph::new(&context);
        let device = &context.devices()[0];
        let (mut feed, mut input) =
            graph.link::<u32>(context.host(), device, Buffers::items(4)).unwrap();
        graph.spawn(async move {
            while let Some(pending) = input.recv().await? {
                pending.ready().await?.release()?;
            }
            Ok::<_, Error>(())
        });
        let main = async move {
            let result = feed.send_all(vec![0; 10]).await;
            drop(feed);
            result
        };
        let cause = graph.run(main).await.unwrap_err();
        assert!(matches!(&cause, Error::SenderDropped { from } if from == "host"), "{cause}");
    });
}

#[test]
fn an_early_return_is_the_cause_and_not_what_it_drops() {
    everywhere(1, |context| async move {
        let graph = Graph::new(&context);
        let device = context.devices()[0].clone();
        let (mut feed, mut input) =
            graph.link::<u32>(context.host(), &device, Buffers::items(4)).unwrap();
        graph.spawn(async move {
            let _pending = input.recv().await?;
            Err(Error::task(std::fmt::Error))
        });
        let main = async move {
            feed.send_all(vec![0; 10]).await?;
            feed.shutdown()
        };
        let cause = graph.run(main).await.unwrap_err();
        assert!(matches!(&cause, Error::Task(_)), "{cause}");
    });
}

#[test]
fn dropping_the_run_gives_everything_back() {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let graph = Graph::new(&context);
    let device = &context.devices()[0];
    let (mut feed, input) = graph.link::<u32>(context.host(), device, Buffers::items(4)).unwrap();
    {
        let mut run = std::pin::pin!(graph.run(feed.send_all(vec![0; 1000])));
        let mut task = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(run.as_mut().poll(&mut task).is_pending());
    }
    assert!(matches!(feed.shutdown(), Err(Error::Cancelled)));
    drop(input);
    assert_nothing_leaked(&context);
}

#[test]
fn futures_are_send_and_errors_travel() {
    fn is_send<T: Send>(_: &T) {}
    fn travels<T: Send + Sync + 'static>() {}
    travels::<Error>();
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let graph = Graph::new(&context);
    let device = &context.devices()[0];
    let (mut feed, mut input) =
        graph.link::<u32>(context.host(), device, Buffers::items(4)).unwrap();
    is_send(&feed.send_all(vec![1]));
    is_send(&feed.buffer(1));
    is_send(&input.recv());
    is_send(&graph.run(async { Ok::<_, Error>(()) }));
}

/// Tasks that are always ready use up what a round of polling grants; a call that is
/// pending beside them still sees the cause.
#[test]
fn tasks_that_are_always_ready_keep_nobody_from_hearing() {
    let heard = everywhere(1, |context| async move {
        let graph = Graph::new(&context);
        let (idle, mut waits) =
            graph.link::<u32>(context.host(), &context.devices()[0], Buffers::items(2)).unwrap();
        let heard = Arc::new(Mutex::new(None));
        let log = Arc::clone(&heard);
        graph.spawn(async move {
            let _idle = idle;
            let result = waits.recv().await.map(drop);
            *log.lock() = Some(result.clone().unwrap_err().to_string());
            result
        });
        for _ in 0..10 {
            let busy = std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                std::task::Poll::<Result<()>>::Pending
            });
            graph.spawn(busy);
        }
        let mut rounds = 0;
        let main = std::future::poll_fn(move |context| {
            context.waker().wake_by_ref();
            rounds += 1;
            match rounds {
                20 => std::task::Poll::Ready(Err::<(), _>(Error::Ended)),
                _ => std::task::Poll::Pending,
            }
        });
        let cause = graph.run(main).await.unwrap_err();
        (cause.to_string(), heard.lock().take())
    });
    for (cause, heard) in heard {
        assert_eq!(heard, Some(cause));
    }
}

#[test]
fn a_graph_that_is_dropped_lets_nobody_wait() {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let graph = Graph::new(&context);
    let (output, mut input) =
        graph.link::<u32>(context.host(), &context.devices()[0], Buffers::items(2)).unwrap();
    drop(graph);
    let heard = context.block_on(input.recv()).unwrap();
    assert!(matches!(heard.map(drop), Err(Error::Cancelled)));
    assert!(matches!(output.shutdown(), Err(Error::Cancelled)));
    drop(input);
    assert_nothing_leaked(&context);
}
