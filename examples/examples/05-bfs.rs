//! BFS from the library: one uploaded graph, several runs at once, and two ways to
//! search.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-3` or `host:4`.

use futures_util::try_join;
use millstream::bfs::{Algorithm, UNREACHED};
use millstream::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    set_driver_defaults();
    // A binary tree with arcs in both directions.
    let edges: Vec<(u32, u32)> = (1..1023u32)
        .flat_map(|child| [((child - 1) / 2, child), (child, (child - 1) / 2)])
        .collect();
    let graph = CsrGraph::from_edges(1024, &edges)?;
    let context = Context::builder().devices(Devices::All).build()?;
    let runs = async {
        let mut options = BfsOptions::default();
        options.predecessors = true;
        let mut bfs = Bfs::with_options(&context, &graph, options).await?;
        println!("{:?}", bfs.algorithm());
        let (root, leaves) = try_join!(bfs.run(&[0]), bfs.run(&[511, 1022]))?;
        options.algorithm = Algorithm::Asynchronous;
        bfs.set_options(options)?;
        let asynchronous = bfs.run(&[0]).await?;
        Ok::<_, millstream::bfs::Error>((root, leaves, asynchronous))
    };
    let (root, leaves, asynchronous) = context.block_on(runs)??;
    assert_eq!(root.levels, asynchronous.levels);
    assert_eq!((root.max_level(), root.reached()), (Some(9), 1023));
    assert_eq!(root.levels[1023], UNREACHED);
    println!("from the root: {} work items, last level 9", root.statistics.work_items());
    println!("from two leaves: last level {:?}", leaves.max_level());
    for (device, statistics) in context.devices().iter().zip(&root.statistics.devices) {
        println!("{device}: {} items, {} sent", statistics.work_items, statistics.sent);
    }
    Ok(())
}
