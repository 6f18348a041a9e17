//! `millstream generate kron|social|road|grid|random`.

use clap::{Args, Subcommand, value_parser};
use millstream::graph::generate::{self, GenerateOptions, KEEP_PERMILLE};

use crate::destination::Destination;
use crate::error::Error;
use crate::progress::phase;

/// Which graph.
#[derive(Debug, Subcommand)]
pub(crate) enum Arguments {
    /// The Kronecker graph of Graph500.
    Kron(RMat),
    /// The degrees of a social network.
    Social(RMat),
    /// A lattice with holes, like a road map.
    Road(Road),
    /// A whole lattice.
    Grid(Grid),
    /// Edges between any two vertices.
    Random(Random),
}

#[derive(Debug, Args)]
pub(crate) struct RMat {
    /// Logarithm to base 2 of the number of vertices.
    scale: u32,
    /// Edges drawn for each vertex; at most 2^37 in all.
    edge_factor: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Road {
    #[command(flatten)]
    grid: Grid,
    /// How many of 1000 edges are kept.
    #[arg(
        long,
        value_name = "N",
        default_value_t = KEEP_PERMILLE,
        value_parser = value_parser!(u32).range(..=1000)
    )]
    keep: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Grid {
    /// Vertices in each row.
    width: u32,
    /// Number of rows.
    height: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Random {
    /// Number of vertices.
    vertices: u32,
    /// Edges drawn, at most 2^37.
    edges: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    destination: Destination,
    /// Seed of the random numbers: each gives another graph.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Random weights from 1 to this, the same in both directions; none unless given.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    max_weight: Option<u32>,
}

impl Arguments {
    fn common(&self) -> &Common {
        match self {
            Arguments::Kron(rmat) | Arguments::Social(rmat) => &rmat.common,
            Arguments::Road(road) => &road.grid.common,
            Arguments::Grid(grid) => &grid.common,
            Arguments::Random(random) => &random.common,
        }
    }
}

/// Generates and writes.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Common { destination, seed, max_weight } = arguments.common();
    destination.check()?;
    let options = GenerateOptions { seed: *seed, max_weight: *max_weight };
    let graph = phase("generating", || match arguments {
        Arguments::Kron(rmat) => generate::kron(rmat.scale, rmat.edge_factor, &options),
        Arguments::Social(rmat) => generate::social(rmat.scale, rmat.edge_factor, &options),
        Arguments::Road(Road { grid, keep }) => {
            generate::road(grid.width, grid.height, *keep, &options)
        }
        Arguments::Grid(grid) => generate::grid(grid.width, grid.height, &options),
        Arguments::Random(random) => generate::random(random.vertices, random.edges, &options),
    })?;
    destination.write(&graph)
}
