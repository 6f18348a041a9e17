//! Shortest paths from the library: the way through a small town.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-3` or `host:4`.

use millstream::prelude::*;
use millstream::sssp::UNREACHED;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    set_driver_defaults();
    // A street of 1000 corners, and a road around it with an exit every 100.
    let street = (0..999u32).map(|corner| (corner, corner + 1, 10));
    let road = (0..9u32).map(|exit| (exit * 100, (exit + 1) * 100, 150));
    let one_way: Vec<(u32, u32, u32)> = street.chain(road).collect();
    let back = one_way.iter().map(|&(from, to, minutes)| (to, from, minutes));
    let edges: Vec<_> = one_way.iter().copied().chain(back).collect();
    let graph = CsrGraph::from_weighted_edges(1001, &edges)?;
    let context = Context::builder().devices(Devices::All).build()?;
    let result = context.block_on(async {
        let mut options = SsspOptions::default();
        options.predecessors = true;
        Sssp::with_options(&context, &graph, options).await?.run(&[0]).await
    })??;
    let distances = result.distances.as_integers().ok_or("no integers")?;
    assert_eq!((distances[510], distances[999], distances[1000]), (850, 2340, UNREACHED));
    println!("to corner 510 in 850: {:?}", result.path_to(510).ok_or("no way")?);
    println!("{} work items for {} corners", result.statistics.work_items(), result.reached());
    Ok(())
}
