//! Programs that forget an ordering fail the same way every time, naming the
//! buffer and the event; their correct twins pass.

use millstream_flow::{Buffers, Context, Error, Graph, Result};

use crate::common::{ADD, everywhere};

/// Runs `broken` and its twin everywhere: the first fails with an error that
/// names all of `words`, the second does not.
fn fails_but_twin_passes<F>(words: &[&str], case: impl Fn(Context, bool) -> F)
where
    F: Future<Output = Result<()>>,
{
    for error in everywhere(2, |context| case(context, true)) {
        let text = error.expect_err("the broken program passed").to_string();
        for word in words {
            assert!(text.contains(word), "{word:?} is missing in: {text}");
        }
    }
    for result in everywhere(2, |context| case(context, false)) {
        result.expect("the correct twin failed");
    }
}

#[test]
fn no_wait_for_a_packet() {
    fails_but_twin_passes(
        &["add", "packet buffer", "copy", "event"],
        |context, broken| async move {
            let graph = Graph::new(&context);
            let device = context.devices()[0].clone();
            let (mut feed, mut input) =
                graph.link::<u32>(context.host(), &device, Buffers::items(8)).unwrap();
            graph.spawn(async move {
                let stream = device.stream()?;
                let mut sum = device.buffer::<u32>(8)?;
                while let Some(pending) = input.recv().await? {
                    if !broken {
                        stream.wait(&pending)?;
                    }
                    ADD.launch(&stream, 8, (&pending, &mut sum, 1))?;
                    pending.release_after(&stream)?;
                }
                Ok::<_, Error>(())
            });
            let main = async move {
                feed.send_all(vec![1; 32]).await?;
                feed.shutdown()
            };
            graph.run(main).await
        },
    );
}

#[test]
fn release_before_the_event_of_the_kernel() {
    fails_but_twin_passes(&["add", "packet buffer", "event"], |context, broken| async move {
        let graph = Graph::new(&context);
        let device = context.devices()[0].clone();
        let (mut feed, mut input) =
            graph.link::<u32>(context.host(), &device, Buffers::items(8)).unwrap();
        graph.spawn(async move {
            let (stream, other) = (device.stream()?, device.stream()?);
            let mut sum = device.buffer::<u32>(8)?;
            while let Some(pending) = input.recv().await? {
                stream.wait(&pending)?;
                other.wait(&pending)?;
                ADD.launch(&stream, 8, (&pending, &mut sum, 1))?;
                if !broken {
                    other.wait(&stream.record()?)?;
                }
                pending.release_after(&other)?;
            }
            Ok::<_, Error>(())
        });
        let main = async move {
            feed.send_all(vec![1; 32]).await?;
            feed.shutdown()
        };
        graph.run(main).await
    });
}

#[test]
fn reuse_of_a_send_buffer_in_flight() {
    fails_but_twin_passes(&["fill", "outbox", "copy", "event"], |context, broken| async move {
        let graph = Graph::new(&context);
        let device = context.devices()[0].clone();
        let (mut output, results) =
            graph.link::<u32>(&device, context.host(), Buffers::items(8)).unwrap();
        let main = async move {
            let send = async move {
                let stream = device.stream()?;
                let mut buffer = device.buffer::<u32>(8)?.with_label("outbox");
                for round in 0..4 {
                    let sent = output.send_from(&buffer, &stream, 0)?;
                    if !broken {
                        sent.await?;
                    }
                    stream.fill(&mut buffer, round)?;
                }
                output.shutdown()
            };
            futures_util::try_join!(send, results.collect()).map(|_| ())
        };
        graph.run(main).await
    });
}

#[test]
fn a_buffer_dropped_in_flight() {
    fails_but_twin_passes(&["dropped", "packet buffer", "event"], |context, broken| async move {
        let graph = Graph::new(&context);
        let device = context.devices()[0].clone();
        let (mut feed, mut input) =
            graph.link::<u32>(context.host(), &device, Buffers::items(8)).unwrap();
        graph.spawn(async move {
            while let Some(pending) = input.recv().await? {
                if broken {
                    drop(pending);
                } else {
                    drop(pending.ready().await?);
                }
            }
            Ok::<_, Error>(())
        });
        let main = async move {
            feed.send_all(vec![1; 32]).await?;
            feed.shutdown()
        };
        graph.run(main).await
    });
}
