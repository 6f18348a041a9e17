//! A link between two devices: one fills packets, the other adds them up.

use millstream::prelude::*;

static COUNT_UP: Kernel<(Write<u32>, Value<u32>)> = Kernel::new("count_up", |_, (items, first)| {
    items.iter_mut().zip(first..).for_each(|(item, value)| *item = value);
    Ok(())
});

fn main() -> Result<(), millstream::flow::Error> {
    let context = Context::builder().devices(Devices::host(2)).build()?;
    let [first, second] = context.devices() else { return Ok(()) };
    let graph = Graph::new(&context);
    // Packets of 1000 items, three buffers posted ahead.
    let (mut output, mut input) =
        graph.link::<u32>(first, second, Buffers::items(1000).count(3))?;

    let stream = first.stream()?;
    graph.spawn(async move {
        for round in 0..5 {
            let mut message = output.buffer(2500).await?;
            COUNT_UP.launch(&stream, 2500, (&mut message, round * 2500))?;
            output.send(message, &stream)?; // goes out when the kernel is done
        }
        output.shutdown()
    });

    let stream = second.stream()?;
    let sum = graph.run(async move {
        let mut sum = 0u64;
        while let Some(pending) = input.recv().await? {
            stream.wait(&pending)?; // the device waits, the host does not
            let items = stream.download(pending.part()?)?;
            println!(
                "message {} at {}: {} items",
                pending.sequence(),
                pending.offset(),
                pending.len()
            );
            pending.release_after(&stream)?; // the buffer goes back when it has been read
            sum += items.await?.into_iter().map(u64::from).sum::<u64>();
        }
        Ok::<_, millstream::flow::Error>(sum)
    });
    let sum = context.block_on(sum)??;
    assert_eq!(sum, (0..12_500u64).sum::<u64>());
    println!("sum {sum}");
    Ok(())
}
