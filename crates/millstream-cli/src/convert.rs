//! `millstream convert IN OUT`.

use clap::Args;

use crate::destination::Destination;
use crate::error::Error;
use crate::input::Input;

/// Converts a graph.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    destination: Destination,
}

/// Reads, changes what the options say, and writes.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    arguments.destination.check()?;
    arguments.destination.write(&arguments.input.read()?)
}
