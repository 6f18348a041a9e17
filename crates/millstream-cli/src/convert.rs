//! `millstream convert IN OUT`.

use clap::Args;
use millstream::graph::write::WriteError;

use crate::destination::Destination;
use crate::error::Error;
use crate::input::Input;
use crate::weights::{WeightsOption, weights_or_none};

/// Converts a graph.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Weights in place of the graph's own: none, unit, or random:MAX for integers from 1 to MAX (at
    /// most 4294967295), or for reals up to MAX if it has a decimal point (1.0), the same as sssp gives
    /// the graph.
    #[arg(long, value_name = "none|unit|random:MAX", value_parser = weights_or_none)]
    weights: Option<WeightsOption>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    destination: Destination,
}

/// Reads the graph, changes it as the options say, and writes it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    arguments.destination.check()?;
    let graph = arguments.input.read()?;
    let graph = match arguments.weights {
        Some(weights) => weights.given_to(graph)?,
        None => graph,
    };
    arguments.destination.write(&graph).map_err(|error| match error {
        Error::Destination(WriteError::RealWeights { .. }) => {
            let remedy = "--weights none, unit or random:MAX gives it others";
            Error::Usage(format!("{error}; {remedy}"))
        }
        error => error,
    })
}
