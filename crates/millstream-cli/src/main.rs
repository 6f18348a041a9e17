//! The `millstream` command: graph algorithms on one device or many.

mod bfs;
mod error;
mod filter;
mod options;
mod output;
mod partition;
mod topology;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Graph algorithms on asynchronous dataflow, over GPUs or host devices.
#[derive(Debug, Parser)]
#[command(name = "millstream", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Breadth-first search: levels and predecessors.
    Bfs(bfs::Arguments),
    /// Predicate-based filtering of numbers over a scatter and a gather router.
    Filter(filter::Arguments),
    /// Divides a graph and says how well.
    Partition(partition::Arguments),
    /// Shows the devices and how they are connected.
    Topology(topology::Arguments),
}

fn main() -> ExitCode {
    // Usage errors end here, with exit code 2.
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Bfs(arguments) => bfs::run(&arguments),
        Command::Filter(arguments) => filter::run(&arguments),
        Command::Partition(arguments) => partition::run(&arguments),
        Command::Topology(arguments) => topology::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("millstream: {error}");
            error.exit_code()
        }
    }
}
