//! Answers: files of values, and what statistics look like.

use std::io::{BufWriter, Write};
use std::path::Path;

use millstream::bfs::UNREACHED;
use millstream::worklist::WorklistStatistics;
use serde::Serialize;

use crate::error::Error;

/// Traffic of a link, as JSON has it.
#[derive(Debug, Serialize)]
pub(crate) struct Link {
    from: String,
    to: String,
    packets: u64,
    bytes: u64,
}

/// What a device did, as JSON has it.
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
    };
    statistics.iter().map(link).collect()
}

pub(crate) fn per_device(statistics: &WorklistStatistics) -> Vec<PerDevice> {
    let device = |device: &millstream::worklist::DeviceStatistics| PerDevice {
        work_items: device.work_items,
        sent: device.sent,
        received: device.received,
        filtered: device.filtered,
    };
    statistics.devices.iter().map(device).collect()
}

/// A table of names and values.
pub(crate) fn facts(rows: &[(&str, String)]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    for (name, value) in rows {
        table.add_row([(*name).to_string(), value.clone()]);
    }
    table
}

/// A table of the links.
pub(crate) fn link_table(links: &[Link]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(["link", "packets", "bytes"]);
    for link in links {
        let name = format!("{} -> {}", link.from, link.to);
        table.add_row([name, link.packets.to_string(), link.bytes.to_string()]);
    }
    table
}

/// Writes one value for each vertex: `.npy` by extension, else lines
/// `vertex value` with `inf` where unreached. Nothing is left half-written.
pub(crate) fn write_values(path: &Path, values: &[u32]) -> Result<(), Error> {
    let failed = |source| Error::Output { path: path.to_path_buf(), source };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let mut writer = BufWriter::new(file);
    let written = match path.extension().is_some_and(|extension| extension == "npy") {
        true => write_npy(&mut writer, values),
        false => write_lines(&mut writer, values),
    };
    written.map_err(failed)?;
    let file = writer.into_inner().map_err(|error| failed(error.into_error()))?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn write_lines(writer: &mut impl Write, values: &[u32]) -> std::io::Result<()> {
    for (vertex, &value) in values.iter().enumerate() {
        match value {
            UNREACHED => writeln!(writer, "{vertex} inf")?,
            value => writeln!(writer, "{vertex} {value}")?,
        }
    }
    Ok(())
}

/// NumPy's format 1.0: a header padded to 64 bytes, then little-endian numbers.
fn write_npy(writer: &mut impl Write, values: &[u32]) -> std::io::Result<()> {
    let description =
        format!("{{'descr': '<u4', 'fortran_order': False, 'shape': ({},), }}", values.len());
    let padded = (10 + description.len() + 1).next_multiple_of(64) - 11;
    writer.write_all(b"\x93NUMPY\x01\x00")?;
    writer.write_all(&(padded as u16 + 1).to_le_bytes())?;
    writeln!(writer, "{description:<padded$}")?;
    values.iter().try_for_each(|value| writer.write_all(&value.to_le_bytes()))
}
