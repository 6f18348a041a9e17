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
mod weights;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use mimalloc::MiMalloc;
use output::printed_answer;

/// It keeps the memory of one run for the next: see `docs/measurements/host-devices.md`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

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
    /// PageRank: the probability of being at a vertex after many steps.
    Pagerank(pagerank::Arguments),
    /// Connected components; the directions of arcs do not count.
    Cc(cc::Arguments),
    /// Predicate-based filtering of numbers over a scatter and a gather router.
    Filter(filter::Arguments),
    /// Makes a graph: symmetric, without self-loops, the same for a seed.
    #[command(subcommand)]
    Generate(generate::Arguments),
    /// Reads a graph and writes it in another format.
    Convert(convert::Arguments),
    /// Describes a graph.
    Info(info::Arguments),
    /// Divides a graph and reports how well.
    Partition(partition::Arguments),
    /// Shows the devices and how they are connected.
    Topology(topology::Arguments),
}

fn main() -> ExitCode {
    millstream::device::set_driver_defaults();
    let matches = command().try_get_matches();
    let arguments = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return help_or_usage(&error),
    };
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

/// Prints help, which is an answer, or what is wrong with the command line.
fn help_or_usage(error: &clap::Error) -> ExitCode {
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    // If standard error takes nothing, the exit code says enough.
    let printed = if error.use_stderr() { Ok(()) } else { printed_answer(printed) };
    match printed {
        Ok(()) => ExitCode::from(error.exit_code() as u8),
        Err(error) => {
            remark::remark(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// The command line, with settings that apply to all its parts.
fn command() -> clap::Command {
    with_negative_numbers(Arguments::command())
}

/// Takes -1 for a value, not for an option, so that the value's parser can say what is wrong with it.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let allow = |argument: clap::Arg| {
        let takes_values = argument.get_action().takes_values();
        argument.allow_negative_numbers(takes_values)
    };
    command.mut_args(allow).mut_subcommands(with_negative_numbers)
}
