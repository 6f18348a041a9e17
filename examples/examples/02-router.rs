//! A router: host messages go to whichever device has a free buffer, and a
//! policy of the program's own sends urgent ones to the last device.

use millstream::flow::Route;
use millstream::prelude::*;

const URGENT: u64 = 1;

fn main() -> Result<(), millstream::flow::Error> {
    let context = Context::builder().devices(Devices::host(3)).build()?;
    let graph = Graph::new(&context);
    let policy = RoutingPolicy::new(|message, _, devices| {
        let (last, others) = devices
            .split_last()
            .map_or((&[][..], devices), |(_, others)| (&devices[others.len()..], others));
        Route::Any(if message.metadata == URGENT { last } else { others }.to_vec())
    });
    let router = graph.router::<u32>(policy)?;
    let mut feed = router.sender(context.host())?;
    for device in context.devices() {
        let mut input = router.receiver(device, Buffers::items(16))?;
        graph.spawn(async move {
            let mut items = 0;
            while let Some(pending) = input.recv().await? {
                items += pending.len();
                pending.ready().await?.release()?;
            }
            println!("{} received {items} items", input.device());
            Ok::<_, millstream::flow::Error>(())
        });
    }
    context.block_on(graph.run(async move {
        for round in 0..8 {
            feed.send_data(vec![round; 40], if round % 4 == 0 { URGENT } else { 0 })?;
        }
        feed.shutdown()
    }))?
}
