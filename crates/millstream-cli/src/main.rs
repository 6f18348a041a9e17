//! The `millstream` command: graph algorithms on one device or many.

mod bfs;
#[cfg(feature = "metis")]
mod c_libraries;
mod cc;
mod convert;
mod destination;
mod devices;
mod error;
mod filter;
mod generate;
mod info;
mod input;
mod interrupt;
mod job;
mod options;
mod output;
mod pagerank;
mod partition;
mod progress;
mod remark;
mod repeat;
mod report;
mod sssp;
mod topology;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

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
    /// Shortest paths: distances and predecessors.
    Sssp(sssp::Arguments),
    /// PageRank: the chance to be at a vertex after many steps.
    Pagerank(pagerank::Arguments),
    /// Connected components, in which directions of arcs do not count.
    Cc(cc::Arguments),
    /// Predicate-based filtering of numbers over a scatter and a gather router.
    Filter(filter::Arguments),
    /// Makes a graph: symmetric, without self-loops, the same for a seed.
    #[command(subcommand)]
    Generate(generate::Arguments),
    /// Reads a graph and writes it in another format.
    Convert(convert::Arguments),
    /// Says what a graph looks like.
    Info(info::Arguments),
    /// Divides a graph and says how well.
    Partition(partition::Arguments),
    /// Shows the devices and how they are connected.
    Topology(topology::Arguments),
}

fn main() -> ExitCode {
    millstream::device::set_driver_defaults();
    // Usage errors end here, with exit code 2.
    let arguments = Arguments::from_arg_matches(&command().get_matches());
    let arguments = arguments.unwrap_or_else(|error| error.exit());
    interrupt::listen();
    let result = match arguments.command {
        Command::Bfs(arguments) => bfs::run(&arguments),
        Command::Sssp(arguments) => sssp::run(&arguments),
        Command::Pagerank(arguments) => pagerank::run(&arguments),
        Command::Cc(arguments) => cc::run(&arguments),
        Command::Filter(arguments) => filter::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Partition(arguments) => partition::run(&arguments),
        Command::Topology(arguments) => topology::run(&arguments),
    };
    let errors: Vec<_> = result.err().into_iter().chain(trace::write().err()).collect();
    errors.iter().for_each(remark::remark);
    errors.first().map_or(ExitCode::SUCCESS, |first| ExitCode::from(first.exit_code()))
}

/// The command line, with what its parts do not say.
fn command() -> clap::Command {
    with_negative_numbers(Arguments::command())
}

/// Takes -1 for a value, not for an option: who reads the value says what is wrong with it.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let allow = |argument: clap::Arg| {
        let takes_values = argument.get_action().takes_values();
        argument.allow_negative_numbers(takes_values)
    };
    command.mut_args(allow).mut_subcommands(with_negative_numbers)
}
