//! PageRank from the library: both ways to the same ranks.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-3` or `host:4`.

use millstream::pagerank::Algorithm;
use millstream::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    set_driver_defaults();
    // Every page links to its divisors; a prime page has one link, to page 1.
    let links: Vec<(u32, u32)> = (2..1000u32)
        .flat_map(|page| (1..page).filter(move |d| page % d == 0).map(move |d| (page, d)))
        .collect();
    let graph = CsrGraph::from_edges(1000, &links)?;
    let context = Context::builder().devices(Devices::All).build()?;
    let mut first: Vec<usize> = Vec::new();
    for algorithm in [Algorithm::Pull, Algorithm::Push] {
        let mut options = PageRankOptions::default();
        options.algorithm = algorithm;
        let result = context.block_on(async {
            PageRank::with_options(&context, &graph, options).await?.run().await
        })??;
        assert!(result.converged);
        let mut pages: Vec<usize> = (0..1000).collect();
        pages.sort_by(|&one, &other| result.ranks[other].total_cmp(&result.ranks[one]));
        pages.truncate(5);
        println!("{algorithm:?}: {pages:?} after {} iterations", result.iterations);
        assert!(first.is_empty() || first == pages);
        first = pages;
    }
    assert_eq!(first[0], 1);
    Ok(())
}
