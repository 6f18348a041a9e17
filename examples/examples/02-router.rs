//! A router with a policy of the program's own: urgent messages go to the first device, which is kept
//! free for them; others to whichever other device has a free buffer.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-3` or `host:3`.

use futures_util::future::try_join_all;
use futures_util::try_join;
use millstream::flow::{Error, Route};
use millstream::prelude::*;

const URGENT: u64 = 1;

/// Takes whatever comes. Returns the number of items.
async fn count(mut input: Receiver<u32>) -> Result<usize, Error> {
    let mut items = 0;
    while let Some(pending) = input.recv().await? {
        items += pending.len();
        pending.ready().await?.release()?; // it is here, and its buffer free again
    }
    println!("{} received {items} items", input.device());
    Ok(items)
}

fn main() -> Result<(), Error> {
    set_driver_defaults();
    let context = Context::builder().devices(Devices::All).build()?;
    let graph = Graph::new(&context);
    let policy = RoutingPolicy::new(|message, _, devices| match devices {
        [first, ..] if message.metadata == URGENT => Route::All(vec![first.clone()]),
        [_, others @ ..] if !others.is_empty() => Route::Any(others.to_vec()),
        alone => Route::Any(alone.to_vec()),
    });
    let router = graph.router::<u32>(policy)?;
    let mut feed = router.sender(context.host())?;
    let inputs = context.devices().iter().map(|device| router.receiver(device, Buffers::items(16)));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let feeding = async move {
        for round in 0..8 {
            feed.send_data(vec![round; 40], if round % 4 == 0 { URGENT } else { 0 })?;
        }
        feed.shutdown()
    };
    let counting = try_join_all(inputs.into_iter().map(count));
    let (_, counts) = context.block_on(graph.run(async { try_join!(feeding, counting) }))??;
    assert_eq!(counts.iter().sum::<usize>(), 8 * 40);
    Ok(())
}
