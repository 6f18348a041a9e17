use millstream_device::Device;
use millstream_flow::{
    Buffers, Context, Devices, Error, Graph, MessageInfo, Policy, Receiver, Result, Route,
    RoutingPolicy, all_to_all, broadcast, first_available, gather, ring, round_robin, scatter,
    tree_reduce,
};

use crate::common::{KEEP_EVEN, everywhere};

/// Receives everything on any endpoint and returns it through the host's memory.
async fn drain(mut receiver: Receiver<u32>) -> Result<Vec<u32>> {
    let mut items = Vec::new();
    let stream = receiver.device().stream()?;
    while let Some(pending) = receiver.recv().await? {
        stream.wait(&pending)?;
        let download = stream.download(pending.part()?)?;
        pending.release_after(&stream)?;
        items.extend(download.await?);
    }
    Ok(items)
}

/// Sends `messages` of the host through a router with `policy` to all devices.
async fn from_host(
    context: &Context,
    policy: RoutingPolicy,
    messages: Vec<(Vec<u32>, u64)>,
) -> Result<Vec<Vec<u32>>> {
    let graph = Graph::new(context);
    let router = graph.router(policy)?;
    let mut sender = router.sender(context.host())?;
    let receivers = context.devices().iter().map(|device| {
        let receiver = router.receiver(device, Buffers::items(4))?;
        Ok(drain(receiver))
    });
    let receivers = receivers.collect::<Result<Vec<_>>>()?;
    graph
        .run(async move {
            for (message, metadata) in messages {
                sender.send_data(message, metadata)?;
            }
            sender.shutdown()?;
            futures_util::future::try_join_all(receivers).await
        })
        .await
}

fn sorted(received: &[Vec<u32>]) -> Vec<u32> {
    let mut all = received.concat();
    all.sort_unstable();
    all
}

#[test]
fn first_available_delivers_everything_once() {
    everywhere(3, |context| async move {
        let numbers: Vec<u32> = (0..500).collect();
        let received = from_host(&context, first_available(), vec![(numbers.clone(), 0)]).await;
        let received = received.unwrap();
        assert_eq!(sorted(&received), numbers);
        // Assignment is first come first served: each receiver sees ascending items.
        assert!(received.iter().all(|items| items.is_sorted()));
    });
}

#[test]
fn broadcast_gives_everyone_everything() {
    everywhere(3, |context| async move {
        let received =
            from_host(&context, broadcast(), vec![((0..50).collect(), 0), (vec![99], 0)]).await;
        let expected: Vec<u32> = (0..50).chain([99]).collect();
        assert_eq!(received.unwrap(), vec![expected; 3]);
    });
}

#[test]
fn scatter_splits_evenly() {
    everywhere(3, |context| async move {
        let received = from_host(&context, scatter(), vec![((0..20).collect(), 0)]).await.unwrap();
        let lens: Vec<usize> = received.iter().map(Vec::len).collect();
        assert_eq!(lens, [7, 7, 6]);
        assert_eq!(received.concat(), (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn round_robin_takes_turns() {
    everywhere(3, |context| async move {
        let messages = (0..7).map(|turn| (vec![turn], 0)).collect();
        let received = from_host(&context, round_robin(), messages).await.unwrap();
        assert_eq!(received, [vec![0, 3, 6], vec![1, 4], vec![2, 5]]);
    });
}

#[test]
fn all_to_all_follows_the_metadata() {
    everywhere(4, |context| async move {
        let messages = [3, 0, 3, 1].map(|to| (vec![to as u32 * 10; 6], to)).to_vec();
        let received = from_host(&context, all_to_all(), messages).await.unwrap();
        assert_eq!(received, [vec![0; 6], vec![10; 6], vec![], vec![30; 12]]);
    });
}

/// The word of a send buffer is the policy's and the receiver's; the next message has its own.
#[test]
fn send_buffers_have_metadata() {
    everywhere(2, |context| async move {
        let graph = Graph::new(&context);
        let router = graph.router::<u32>(all_to_all()).unwrap();
        let mut output = router.sender(context.host()).unwrap();
        let stream = context.host().stream().unwrap();
        for device in context.devices() {
            let mut input = router.receiver(device, Buffers::items(4)).unwrap();
            let own = device.index().unwrap();
            graph.spawn(async move {
                let mut expected = [0, 1, 0].into_iter().filter(|to| *to == own);
                while let Some(pending) = input.recv().await? {
                    assert_eq!(Some(pending.metadata() as usize), expected.next());
                    pending.ready().await?.release()?;
                }
                assert_eq!(expected.next(), None);
                Ok::<_, Error>(())
            });
        }
        let run = graph.run(async move {
            for to in [None, Some(1), None] {
                let mut buffer = output.buffer(1).await?;
                buffer.host_view_mut()?.fill(7);
                if let Some(to) = to {
                    buffer.set_metadata(to);
                }
                output.send(buffer, &stream)?;
            }
            output.shutdown()
        });
        run.await.unwrap();
    });
}

#[test]
fn a_policy_without_an_answer_is_an_error() {
    everywhere(2, |context| async move {
        let nowhere = RoutingPolicy::new(|_, _, _| Route::Any(Vec::new()));
        let error = from_host(&context, nowhere, vec![(vec![1], 0)]).await.unwrap_err();
        assert!(matches!(error, Error::EmptyRoute { .. }), "{error}");
        let host = context.host().clone();
        let to_itself = RoutingPolicy::new(move |_, _, _| Route::All(vec![host.clone()]));
        let error = from_host(&context, to_itself, vec![(vec![1], 0)]).await.unwrap_err();
        assert!(matches!(error, Error::UnreachableDestination { .. }), "{error}");
    });
}

/// Policies that ask the graph, or panic, when it is sealed.
#[test]
fn policies_are_asked_what_is_reachable_without_locks() {
    struct Reaches<F>(F);
    impl<F: Fn() + Send + Sync + 'static> Policy for Reaches<F> {
        fn reachable(&self, _: &Device, receivers: &[Device]) -> Vec<Device> {
            (self.0)();
            receivers.to_vec()
        }

        fn route(&self, _: &MessageInfo, _: &Device, receivers: &[Device]) -> Route {
            Route::All(receivers.to_vec())
        }
    }
    async fn run(context: &Context, policy: impl Fn(&Graph) -> RoutingPolicy) -> Result<Vec<u32>> {
        let graph = Graph::new(context);
        let router = graph.router::<u32>(policy(&graph))?;
        let mut output = router.sender(context.host())?;
        let results = router.receiver(&context.devices()[0], Buffers::items(4))?;
        let main = async move {
            output.send_all(vec![1, 2, 3]).await?;
            output.shutdown()?;
            drain(results).await
        };
        graph.run(main).await
    }
    everywhere(1, |context| async move {
        let asks = |graph: &Graph| {
            let statistics = graph.statistics();
            Reaches(move || assert!(statistics.links().len() < 2)).into()
        };
        assert_eq!(run(&context, asks).await.unwrap(), [1, 2, 3]);
        let panics = |_: &Graph| Reaches(|| panic!("no way")).into();
        let error = run(&context, panics).await.unwrap_err();
        let is_cause = matches!(&error, Error::TaskPanicked { message } if message == "no way");
        assert!(is_cause, "{error}");
    });
}

/// Panics when it is thrown away, too.
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("asked for");
    }
}

/// Whoever asks the policy: the task that sends, or a device that has counted a message.
#[test]
fn a_policy_that_panics_is_an_error() {
    everywhere(2, |context| async move {
        let says = |_: &MessageInfo, _: &Device, _: &[Device]| -> Route { panic!("no idea") };
        let throws =
            |_: &MessageInfo, _: &Device, _: &[Device]| -> Route { std::panic::panic_any(Panics) };
        let policies = || [RoutingPolicy::new(says), RoutingPolicy::new(throws)];
        for (policy, said) in policies().into_iter().zip(["no idea", "no message"]) {
            let error = from_host(&context, policy, vec![(vec![1], 0)]).await.unwrap_err();
            let is_cause = matches!(&error, Error::TaskPanicked { message } if message == said);
            assert!(is_cause, "{error}");
        }
        for (policy, said) in policies().into_iter().zip(["no idea", "no message"]) {
            let error = counted(&context, policy).await.unwrap_err();
            let is_cause = matches!(&error, Error::TaskPanicked { message } if message == said);
            assert!(is_cause, "{error}");
        }
    });
}

/// From a device to the host, a message that is counted when its kernel has run.
async fn counted(context: &Context, policy: RoutingPolicy) -> Result<()> {
    let graph = Graph::new(context);
    let (host, device) = (context.host(), &context.devices()[0]);
    let router = graph.router::<u32>(policy)?;
    let mut output = router.sender(device)?;
    let mut results = router.receiver(host, Buffers::items(4))?;
    let stream = device.stream()?;
    graph.spawn(async move {
        let mut kept = output.buffer(4).await?;
        let input = stream.uploaded(vec![1, 2, 3, 4])?;
        let count = output.counter()?;
        KEEP_EVEN.launch(&stream, 4, (&input, &mut kept, &count))?;
        output.send_counted(kept, count, &stream)?;
        stream.completed()?.await?;
        output.shutdown()
    });
    graph.run(async move { results.recv().await.map(drop) }).await
}

/// Nobody sends to a leaf of a tree: whoever waits for it hears so when that is certain.
#[test]
fn a_receiver_that_waits_before_the_graph_runs() {
    everywhere(2, |context| async move {
        let graph = Graph::new(&context);
        let router = graph.router::<u32>(tree_reduce(context.devices().to_vec())).unwrap();
        let mut leaf = router.receiver(&context.devices()[1], Buffers::items(2)).unwrap();
        let results = router.receiver(context.host(), Buffers::items(2)).unwrap();
        let _root = router.receiver(&context.devices()[0], Buffers::items(2)).unwrap();
        for device in context.devices() {
            router.sender(device).unwrap().shutdown().unwrap();
        }
        let mut waiting = std::pin::pin!(leaf.recv());
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        let main = async {
            // Only what wakes it polls it again.
            let heard = waiting.await?;
            Ok::<_, Error>((heard.is_none(), results.collect().await?))
        };
        assert_eq!(graph.run(main).await.unwrap(), (true, Vec::new()));
    });
}

#[test]
fn gather_brings_everything_to_the_host() {
    everywhere(3, |context| async move {
        let graph = Graph::new(&context);
        let router = graph.router(gather()).unwrap();
        let results = router.receiver(context.host(), Buffers::items(3)).unwrap();
        for (place, device) in context.devices().iter().enumerate() {
            let mut sender = router.sender(device).unwrap();
            graph.spawn(async move {
                sender.send_all(vec![place as u32; 10]).await?;
                sender.shutdown()
            });
        }
        let items = graph.run(results.collect()).await.unwrap();
        assert_eq!(sorted(&[items]), [vec![0; 10], vec![1; 10], vec![2; 10]].concat());
    });
}

/// Passes what arrives on, with one item more at the end.
async fn pass_on(
    mut input: Receiver<u32>,
    mut output: millstream_flow::Sender<u32>,
    own: u32,
) -> Result<()> {
    let stream = input.device().stream()?;
    while let Some(pending) = input.recv().await? {
        stream.wait(&pending)?;
        let mut copy = output.buffer(pending.len()).await?;
        stream.copy(pending.part()?, copy.part_mut()?)?;
        pending.release_after(&stream)?;
        output.send(copy, &stream)?;
    }
    output.send_all(vec![own]).await?;
    output.shutdown()
}

#[test]
fn a_tree_reduces_to_the_host() {
    for devices in 1..=8 {
        everywhere(devices, |context| async move {
            let graph = Graph::new(&context);
            let router = graph.router(tree_reduce(context.devices().to_vec())).unwrap();
            let results = router.receiver(context.host(), Buffers::items(2)).unwrap();
            for (place, device) in context.devices().iter().enumerate() {
                let receiver = router.receiver(device, Buffers::items(2)).unwrap();
                graph.spawn(pass_on(receiver, router.sender(device).unwrap(), place as u32));
            }
            let items = graph.run(results.collect()).await.unwrap();
            assert_eq!(sorted(&[items]), (0..context.devices().len() as u32).collect::<Vec<_>>());
        });
    }
}

#[test]
fn a_ring_passes_to_the_next() {
    everywhere(4, |context| async move {
        let graph = Graph::new(&context);
        let devices = context.devices();
        let router = graph.router(ring(devices.to_vec())).unwrap();
        let ends = devices.iter().map(|device| {
            let mut sender = router.sender(device)?;
            let receiver = router.receiver(device, Buffers::items(2))?;
            let own = device.index().unwrap_or_default() as u32;
            Ok::<_, Error>(async move {
                sender.send_data(vec![own; 5], 0)?;
                sender.shutdown()?;
                drain(receiver).await
            })
        });
        let ends = ends.collect::<Result<Vec<_>, _>>().unwrap();
        let received = graph.run(futures_util::future::try_join_all(ends)).await.unwrap();
        assert_eq!(received, [vec![3; 5], vec![0; 5], vec![1; 5], vec![2; 5]]);
    });
}

#[test]
fn packets_larger_than_memory_are_refused() {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let graph = Graph::new(&context);
    let router = graph.router::<u32>(broadcast()).unwrap();
    for buffers in [Buffers::items(usize::MAX), Buffers::items(usize::MAX / 4 + 2).count(1)] {
        let refused = router.receiver(&context.devices()[0], buffers);
        let found =
            matches!(refused, Err(Error::Device(millstream_device::Error::OutOfMemory { .. })));
        assert!(found, "{buffers:?}: {refused:?}");
    }
}
