//! Connected components of edges that are never all in memory together.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-3` or `host:4`.

use millstream::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    set_driver_defaults();
    let context = Context::builder().devices(Devices::All).build()?;
    // Numbers that differ by 6 or by 10 are joined: there are two components, the even and the odd numbers.
    let vertices = 100_000;
    let edges = [6, 10].into_iter().flat_map(|step| (step..vertices).map(move |v| (v, v - step)));
    // Small packets, so that every device gets some.
    let mut options = CcOptions::default();
    options.packet_bytes = 1 << 12;
    let search = Cc::run_streamed(&context, vertices, edges, options);
    let result = context.block_on(search)??;
    assert_eq!(result.sizes(), [(0, 50_000), (1, 50_000)]);
    for (device, statistics) in context.devices().iter().zip(&result.statistics.devices) {
        println!("{device}: {} edges, {} pairs merged", statistics.hooked, statistics.merged);
    }
    Ok(())
}
