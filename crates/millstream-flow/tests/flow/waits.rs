//! Programs whose tasks wait for each other: what waits is told, with the buffers that are held.

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use millstream_flow::{
    Buffers, Context, Devices, Error, Graph, Receiver, Result, Segment, Sender, Wait,
};

/// Runs a program of one link from the host to a device on several simulated schedules. On all, it
/// hangs, and the error says this.
fn hangs<F>(packet_buffers: usize, words: &[&str], case: impl Fn(Sender<u32>, Receiver<u32>) -> F)
where
    F: Future<Output = Result<()>>,
{
    for seed in 0..8 {
        let context = Context::builder().devices(Devices::host(1)).simulated(seed);
        let context = context.build().unwrap();
        let graph = Graph::new(&context);
        let (host, device) = (context.host(), &context.devices()[0]);
        let buffers = Buffers::items(4).count(packet_buffers);
        let (output, input) = graph.link::<u32>(host, device, buffers).unwrap();
        let statistics = graph.statistics();
        let error = context.block_on(graph.run(case(output, input))).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{word:?} is missing in: {error}");
        }
        assert!(statistics.waits().is_empty(), "{:?}", statistics.waits());
    }
}

#[test]
fn a_receiver_keeps_all_its_packets() {
    let words = [
        "host:0 waits for the rest of what was sent, and holds 2 of its 2 packet buffers; ",
        "1 \
        message waits for packet buffers of host:0, which holds 2 of 2 and has not received 0",
    ];
    hangs(2, &words, |mut output, mut input| async move {
        output.send_data(vec![7; 12], 0)?;
        output.shutdown()?;
        let mut kept = Vec::new();
        while let Some(pending) = input.recv().await? {
            kept.push(pending.ready().await?);
        }
        kept.into_iter().try_for_each(millstream_flow::Segment::release)
    });
}

#[test]
fn all_is_sent_before_anything_is_received() {
    let words = [
        "1 message waits for packet buffers of host:0, which holds 0 of 2 and has not \
        received 2",
        "host waits until a message of its own has packet buffers",
    ];
    hangs(2, &words, |mut output, input| async move {
        output.send_all(vec![7; 12]).await?;
        output.shutdown()?;
        drop(input);
        Ok(())
    });
}

#[test]
fn a_sender_is_not_shut_down() {
    let words = ["host:0 waits for a packet from host, and holds 0 of its 2 packet buffers"];
    hangs(2, &words, |mut output, mut input| async move {
        output.send_data(vec![7; 12], 0)?;
        while let Some(pending) = input.recv().await? {
            pending.ready().await?.release()?;
        }
        output.shutdown()
    });
}

#[test]
fn send_buffers_are_held() {
    let words = ["host waits for a send buffer, and all 2 are out"];
    hangs(2, &words, |mut output, input| async move {
        let _kept = (output.buffer(4).await?, output.buffer(4).await?);
        output.buffer(4).await?;
        output.shutdown()?;
        drop(input);
        Ok(())
    });
}

#[test]
fn a_buffer_of_the_program_is_not_copied() {
    let words = ["host waits until a message out of its own buffer is copied", "1 message waits"];
    hangs(1, &words, |mut output, input| async move {
        let host = output.device().clone();
        let stream = host.stream()?;
        let buffer = stream.uploaded(vec![7_u32; 12])?;
        output.send_from(&buffer, &stream, 0)?.await?;
        output.shutdown()?;
        drop(input);
        Ok(())
    });
}

/// On threads nobody can know that nothing more will come: whoever looks is told what waits.
#[test]
fn another_thread_looks() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let graph = Graph::new(&context);
    let router = graph.router::<u32>(millstream_flow::first_available()).unwrap();
    let senders: Vec<_> =
        context.devices().iter().map(|device| router.sender(device).unwrap()).collect();
    let mut input = router.receiver(context.host(), Buffers::items(4).count(3)).unwrap();
    let statistics = graph.statistics();
    assert!(statistics.waits().is_empty(), "before it runs");
    let looks = std::thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_secs(60);
        let expected = Wait::Packet {
            to: "host".to_string(),
            open_senders: vec!["host:1".to_string()],
            held: 0,
            packet_buffers: 3,
        };
        while statistics.waits() != [expected.clone()] {
            assert!(Instant::now() < deadline, "{:?}", statistics.waits());
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    // The second of the senders is shut down when somebody has seen that it is waited for.
    let main = async move {
        let mut senders = senders.into_iter();
        senders.next().unwrap().shutdown()?;
        let last = senders.next().unwrap();
        let seen = async move {
            tell_when_done(looks).await;
            last.shutdown()
        };
        let (received, shut_down) = futures_util::join!(input.recv(), seen);
        assert!(received?.is_none());
        shut_down
    };
    context.block_on(graph.run::<_, Error>(main)).unwrap().unwrap();
}

/// Waits for a thread without blocking the others' one.
async fn tell_when_done(thread: std::thread::JoinHandle<()>) {
    std::future::poll_fn(|context| match thread.is_finished() {
        true => std::task::Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    })
    .await;
    thread.join().unwrap();
}

/// What a waker holds is let go without a lock: here a packet of where it waits.
#[test]
fn a_waker_that_another_replaces_may_hold_a_packet() {
    struct Holds {
        _packet: Mutex<Segment<u32>>,
    }
    impl Wake for Holds {
        fn wake(self: Arc<Self>) {}
    }
    let (told, hear) = mpsc::channel();
    std::thread::spawn(move || {
        let context = Context::builder().devices(Devices::host(1)).build().unwrap();
        let graph = Graph::new(&context);
        let (host, device) = (context.host(), &context.devices()[0]);
        let (mut output, mut input) = graph.link::<u32>(device, host, Buffers::items(4)).unwrap();
        let main = async move {
            output.send_data(vec![7; 4], 0)?;
            let packet = input.recv().await?.unwrap().ready().await?;
            let holds = Waker::from(Arc::new(Holds { _packet: Mutex::new(packet) }));
            let mut wait = |waker: &Waker| {
                let received = std::pin::pin!(input.recv());
                assert!(received.poll(&mut std::task::Context::from_waker(waker)).is_pending());
            };
            wait(&holds);
            // Now only the link has it.
            drop(holds);
            wait(Waker::noop());
            output.send_data(vec![8; 8], 0)?;
            output.shutdown()?;
            let rest = input.collect().await?;
            Ok::<_, Error>(rest)
        };
        told.send(context.block_on(graph.run(main)).unwrap()).unwrap();
    });
    let rest = hear.recv_timeout(Duration::from_secs(20)).expect("all goes on");
    assert_eq!(rest.unwrap(), [8; 8]);
}
