//! Tasks that threads of their own poll.

use std::future::pending;
use std::sync::{Arc, mpsc};

use futures_util::FutureExt;
use millstream_flow::{Buffers, Context, Devices, Error, Graph, Result};

fn context() -> Context {
    Context::builder().devices(Devices::host(2)).build().unwrap()
}

/// A graph whose `main` waits for a packet that never comes.
fn run(spawn: impl FnOnce(&Graph)) -> Result<()> {
    let context = context();
    let [one, other] = context.devices() else { unreachable!() };
    let graph = Graph::new(&context);
    let (output, mut input) = graph.link::<u32>(one, other, Buffers::items(4)).unwrap();
    spawn(&graph);
    let main = async move {
        let _output = output;
        input.recv().await.map(drop)
    };
    context.block_on(graph.run(main)).unwrap()
}

#[test]
fn its_error_is_the_first_cause() {
    let ended = run(|graph| graph.spawn_on_thread(async { Err(Error::task(std::fmt::Error)) }));
    assert!(matches!(ended, Err(Error::Task(_))), "{ended:?}");
}

#[test]
fn its_panic_is_the_first_cause() {
    let ended = run(|graph| {
        graph.spawn_on_thread(async {
            assert!(std::thread::current().name() != Some("millstream-tasks"), "on its thread");
            Ok::<_, Error>(())
        });
    });
    let Err(Error::TaskPanicked { message }) = &ended else { panic!("{ended:?}") };
    assert_eq!(message, "on its thread");
}

/// What a task drops when it fails is not the cause, however soon others hear of it.
#[test]
fn what_a_failing_task_drops_is_not_the_cause() {
    for (run, panics) in (0..200).map(|run| (run, run % 2 == 0)) {
        let context = context();
        let [one, other] = context.devices() else { unreachable!() };
        let graph = Graph::new(&context);
        let (output, mut input) = graph.link::<u32>(one, other, Buffers::items(4)).unwrap();
        graph.spawn_on_thread(async move {
            let _output = output;
            assert!(!panics, "on purpose");
            Err::<(), _>(Error::task(std::fmt::Error))
        });
        let main = async move { input.recv().await.map(drop) };
        let ended = context.block_on(graph.run(main)).unwrap();
        match panics {
            true => assert!(matches!(ended, Err(Error::TaskPanicked { .. })), "{run}: {ended:?}"),
            false => assert!(matches!(ended, Err(Error::Task(_))), "{run}: {ended:?}"),
        }
    }
}

/// A sender that is dropped without a shutdown is one, if the task goes on.
#[test]
fn what_a_task_drops_that_goes_on_is_the_cause() {
    let context = context();
    let [one, other] = context.devices() else { unreachable!() };
    let graph = Graph::new(&context);
    let (output, mut input) = graph.link::<u32>(one, other, Buffers::items(4)).unwrap();
    graph.spawn_on_thread(async move {
        drop(output);
        pending::<Result<()>>().await
    });
    let main = async move { input.recv().await.map(drop) };
    let ended = context.block_on(graph.run(main)).unwrap();
    assert!(matches!(ended, Err(Error::SenderDropped { .. })), "{ended:?}");
}

#[test]
fn packets_go_from_thread_to_thread() {
    let context = context();
    let [one, other] = context.devices() else { unreachable!() };
    let graph = Graph::new(&context);
    let (mut output, mut input) = graph.link::<u32>(one, other, Buffers::items(4)).unwrap();
    graph.spawn_on_thread(async move {
        for number in 0..100 {
            output.send_all(vec![number; 9]).await?;
        }
        output.shutdown()
    });
    let received = Arc::new(parking_lot::Mutex::new(0));
    let counted = Arc::clone(&received);
    graph.spawn_on_thread(async move {
        while let Some(pending) = input.recv().await? {
            let segment = pending.ready().await?;
            *counted.lock() += segment.len();
            segment.release()?;
        }
        Ok::<_, Error>(())
    });
    context.block_on(graph.run(async { Ok::<_, Error>(()) })).unwrap().unwrap();
    assert_eq!(*received.lock(), 900);
}

#[test]
fn a_run_that_is_dropped_has_dropped_it() {
    let context = context();
    let graph = Graph::new(&context);
    let held = Arc::new(());
    let (its, (begun, hears)) = (Arc::clone(&held), mpsc::channel());
    graph.spawn_on_thread(async move {
        let _its = its;
        begun.send(()).unwrap();
        pending::<Result<()>>().await
    });
    let mut run = Box::pin(graph.run(pending::<Result<()>>()));
    assert!(context.block_on(async { (&mut run).now_or_never().is_none() }).unwrap());
    hears.recv().unwrap();
    drop(run);
    assert_eq!(Arc::strong_count(&held), 1);
    // Nor does one that has not run begin.
    let graph = Graph::new(&context);
    let its = Arc::clone(&held);
    graph.spawn_on_thread(async move {
        let _its = its;
        Ok::<_, Error>(())
    });
    drop(graph);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn a_simulation_polls_it_itself() {
    let context = Context::builder().devices(Devices::host(1)).simulated(7).build().unwrap();
    let graph = Graph::new(&context);
    let caller = std::thread::current().id();
    graph.spawn_on_thread(async move {
        assert_eq!(std::thread::current().id(), caller);
        Ok::<_, Error>(())
    });
    context.block_on(graph.run(async { Ok::<_, Error>(()) })).unwrap().unwrap();
}
