//! Answers: files of values, and what statistics look like.

use std::fmt::Display;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use comfy_table::Table;
use millstream::bfs::UNREACHED;
use millstream::device::TransferWay;
use millstream::graph::write::{CompressedFile, OutputFile, extension};
use millstream::worklist::DeviceStatistics;
use serde::Serialize;

use crate::error::Error;
use crate::options::Predecessors;

/// Traffic of a link, as in JSON output.
#[derive(Debug, Serialize)]
pub(crate) struct Link {
    from: String,
    to: String,
    packets: u64,
    bytes: u64,
    ways: Ways,
}

/// Packets of a link, by transfer way.
#[derive(Debug, Serialize)]
struct Ways {
    copy: u64,
    push: u64,
    host: u64,
}

/// What a device did, as in JSON output.
#[derive(Debug, Serialize)]
pub(crate) struct PerDevice {
    pub(crate) work_items: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) filtered: u64,
}

pub(crate) fn links(statistics: &[millstream::flow::LinkStatistics]) -> Vec<Link> {
    let link = |link: &millstream::flow::LinkStatistics| Link {
        from: link.from.clone(),
        to: link.to.clone(),
        packets: link.packets,
        bytes: link.bytes,
        ways: Ways {
            copy: link.packets_by(TransferWay::Copy),
            push: link.packets_by(TransferWay::Push),
            host: link.packets_by(TransferWay::Host),
        },
    };
    statistics.iter().map(link).collect()
}

pub(crate) fn per_device(statistics: &[DeviceStatistics]) -> Vec<PerDevice> {
    let device = |device: &DeviceStatistics| PerDevice {
        work_items: device.work_items,
        sent: device.sent,
        received: device.received,
        filtered: device.filtered,
    };
    statistics.iter().map(device).collect()
}

/// Prints an answer, as one JSON object or as a table.
pub(crate) fn answer<R: Serialize>(
    report: &R,
    as_json: bool,
    table: impl FnOnce(&R) -> String,
) -> Result<(), Error> {
    let text = match as_json {
        true => serde_json::to_string(report).map_err(io::Error::from),
        false => Ok(table(report)),
    };
    printed_answer(text.and_then(|text| writeln!(io::stdout(), "{text}")))
}

/// The error if an answer could not be printed.
pub(crate) fn printed_answer(printed: io::Result<()>) -> Result<(), Error> {
    let failed = |source| Error::Output { path: "standard output".into(), source };
    unless_seen_enough(printed).map_err(failed)
}

/// A 32-bit real as the shortest decimal that identifies it.
pub(crate) fn shortest(real: f64) -> Option<f64> {
    (real as f32).to_string().parse().ok()
}

/// A table without lines; print it by [`Table::trim_fmt`], without blanks at the ends of rows.
pub(crate) fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table
}

/// A table of names and values.
pub(crate) fn facts(rows: &[(&str, String)]) -> String {
    let mut table = plain_table();
    for (name, value) in rows {
        table.add_row([(*name).to_string(), value.clone()]);
    }
    table.trim_fmt()
}

const LINK_HEADER: [&str; 6] = ["link", "packets", "bytes", "copy", "push", "host"];

/// A table of what each link has moved; idle links share one row.
pub(crate) fn link_table(links: &[Link]) -> String {
    let mut table = plain_table();
    table.set_header(LINK_HEADER);
    let idle = links.iter().filter(|link| link.packets == 0).count();
    for link in links.iter().filter(|link| link.packets > 0) {
        let name = format!("{} -> {}", link.from, link.to);
        let numbers = [link.packets, link.bytes, link.ways.copy, link.ways.push, link.ways.host];
        table.add_row([name].into_iter().chain(numbers.map(|number| number.to_string())));
    }
    if idle > 0 {
        let name = if idle == links.len() { "all" } else { "others" };
        let zeros = [0; LINK_HEADER.len() - 1].map(|number: u32| number.to_string());
        table.add_row([format!("{name} {idle}")].into_iter().chain(zeros));
    }
    table.trim_fmt()
}

/// A value of a vertex; `NONE` stands for "no value".
pub(crate) trait VertexValue: Copy + PartialEq + Display {
    const NONE: Self;
    /// How NumPy calls the type.
    const NUMPY: &str;

    fn write_bytes(self, writer: &mut impl Write) -> io::Result<()>;
}

impl VertexValue for u32 {
    const NONE: u32 = UNREACHED;
    const NUMPY: &str = "<u4";

    fn write_bytes(self, writer: &mut impl Write) -> io::Result<()> {
        writer.write_all(&self.to_le_bytes())
    }
}

impl VertexValue for u64 {
    const NONE: u64 = u64::MAX;
    const NUMPY: &str = "<u8";

    fn write_bytes(self, writer: &mut impl Write) -> io::Result<()> {
        writer.write_all(&self.to_le_bytes())
    }
}

impl VertexValue for f32 {
    const NONE: f32 = f32::INFINITY;
    const NUMPY: &str = "<f4";

    fn write_bytes(self, writer: &mut impl Write) -> io::Result<()> {
        writer.write_all(&self.to_le_bytes())
    }
}

impl VertexValue for f64 {
    // Never equal to a value: every vertex has one.
    const NONE: f64 = f64::NAN;
    const NUMPY: &str = "<f8";

    fn write_bytes(self, writer: &mut impl Write) -> io::Result<()> {
        writer.write_all(&self.to_le_bytes())
    }
}

/// Checks that a file can be written, before there is an answer to lose.
pub(crate) fn check_writable(path: &Path) -> Result<(), Error> {
    checked_place(path).map(drop)
}

/// The name of a file's option or argument, and the file's path if it is given.
pub(crate) type Named<'a> = (&'a str, Option<&'a PathBuf>);

/// The same for several files, which must all be different, and differ from all input files.
pub(crate) fn check_all_writable<'a>(
    outputs: &[Named<'a>],
    inputs: &[Named<'a>],
) -> Result<(), Error> {
    // An input that does not exist cannot be overwritten.
    let place = |&(name, path): &Named<'a>| Some((name, fs::canonicalize(path?).ok()?));
    let mut places: Vec<_> = inputs.iter().filter_map(place).collect();
    for (option, path) in outputs {
        let Some(place) = path.map(|path| checked_place(path)).transpose()?.flatten() else {
            continue;
        };
        if let Some((other, _)) = places.iter().find(|(_, known)| *known == place) {
            let place = place.display();
            return Err(Error::Usage(format!("{other} and {option} are the same file, {place}")));
        }
        places.push((option, place));
    }
    Ok(())
}

/// The existing file that will be replaced, if any. Failure is a usage error, since another path might do.
fn checked_place(path: &Path) -> Result<Option<PathBuf>, Error> {
    OutputFile::check(path).map_err(|reason| Error::Usage(format!("{}: {reason}", path.display())))
}

/// Writes one value for each vertex, whose ids are `original_ids` or count from 0:
/// `.npy` by extension, else lines `vertex value`, with `inf` where there is none; either compressed by a
/// further extension.
pub(crate) fn write_values<V: VertexValue>(
    path: &Path,
    original_ids: Option<&[u64]>,
    values: &[V],
) -> Result<(), Error> {
    write_file(path, |writer| match extension(path).as_deref() {
        Some("npy") => write_npy(writer, original_ids, values),
        _ => write_lines(writer, original_ids, values),
    })
}

/// Writes a file, of which nothing is left if this fails. A pipe whose reader has closed it is no failure.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<CompressedFile>) -> io::Result<()>,
) -> Result<(), Error> {
    let write = || {
        let mut writer = BufWriter::new(CompressedFile::create(path)?);
        write(&mut writer)?;
        writer.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
    };
    unless_seen_enough(write()).map_err(|source| Error::Output { path: path.to_path_buf(), source })
}

/// Success if a pipe's reader has closed it: that is no failure.
fn unless_seen_enough(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

impl Predecessors {
    /// Writes predecessors as [`write_values`] does, by their original ids, if requested.
    pub(crate) fn write(
        &self,
        original_ids: Option<&[u64]>,
        predecessors: Option<&[u32]>,
    ) -> Result<(), Error> {
        let (Some(path), Some(predecessors)) = (&self.file, predecessors) else { return Ok(()) };
        let Some(ids) = original_ids else { return write_values(path, None, predecessors) };
        let named = |&vertex: &u32| ids.get(vertex as usize).copied().unwrap_or(u64::MAX);
        let predecessors: Vec<u64> = predecessors.iter().map(named).collect();
        write_values(path, original_ids, &predecessors)
    }
}

fn write_lines<V: VertexValue>(
    writer: &mut impl Write,
    original_ids: Option<&[u64]>,
    values: &[V],
) -> io::Result<()> {
    for (vertex, &value) in values.iter().enumerate() {
        let id = original_ids.map_or(vertex as u64, |ids| ids[vertex]);
        match value == V::NONE {
            true => writeln!(writer, "{id} inf")?,
            false => writeln!(writer, "{id} {value}")?,
        }
    }
    Ok(())
}

/// NumPy's format 1.0: a header padded to 64 bytes, then little-endian values, or
/// records of a vertex and its value where vertices have original ids.
fn write_npy<V: VertexValue>(
    writer: &mut impl Write,
    original_ids: Option<&[u64]>,
    values: &[V],
) -> io::Result<()> {
    let kind = match original_ids {
        Some(_) => format!("[('vertex', '<u8'), ('value', '{}')]", V::NUMPY),
        None => format!("'{}'", V::NUMPY),
    };
    let description =
        format!("{{'descr': {kind}, 'fortran_order': False, 'shape': ({},), }}", values.len());
    let padded = (10 + description.len() + 1).next_multiple_of(64) - 11;
    writer.write_all(b"\x93NUMPY\x01\x00")?;
    writer.write_all(&(padded as u16 + 1).to_le_bytes())?;
    writeln!(writer, "{description:<padded$}")?;
    for (vertex, value) in values.iter().enumerate() {
        if let Some(ids) = original_ids {
            ids[vertex].write_bytes(writer)?;
        }
        value.write_bytes(writer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_links_come_as_one() {
        let link = |to: &str, packets| Link {
            from: "host:0".to_string(),
            to: to.to_string(),
            packets,
            bytes: 8 * packets,
            ways: Ways { copy: packets, push: 0, host: 0 },
        };
        let rows = |links: &[Link]| {
            let table = link_table(links);
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            table.lines().skip(1).map(words).collect::<Vec<_>>()
        };
        let some = [link("host:1", 0), link("host:2", 3), link("host:3", 0)];
        assert_eq!(rows(&some), ["host:0 -> host:2 3 24 3 0 0", "others 2 0 0 0 0 0"]);
        assert_eq!(rows(&some[..1]), ["all 1 0 0 0 0 0"]);
        assert_eq!(rows(&some[1..2]), ["host:0 -> host:2 3 24 3 0 0"]);
        assert!(rows(&[]).is_empty());
    }
}
