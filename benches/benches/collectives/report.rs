//! The measurements, as a table and as a line.

use comfy_table::Table;
use millstream_benches::collective::Collective;

/// Seconds of one operation.
pub struct Times {
    pub millstream: f64,
    /// Where it was measured too.
    pub nccl: Option<f64>,
}

/// An operation on vectors of one size.
pub struct Cell {
    pub bytes: usize,
    pub collective: Collective,
    /// Bytes that each link carries.
    pub traffic: f64,
    pub times: Times,
}

impl Cell {
    /// Millstream's share of NCCL's bandwidth.
    fn ratio(&self) -> Option<f64> {
        Some(self.times.nccl? / self.times.millstream)
    }

    fn speed(&self, seconds: Option<f64>) -> String {
        seconds.map_or("-".to_string(), |seconds| {
            format!("{:.1} {:.1}", seconds * 1e6, self.traffic / seconds / 1e9)
        })
    }
}

/// A row for each size; where NCCL was measured, one for it and one for ratios follow.
pub fn table(cells: &[Cell]) -> Table {
    let mut table = Table::new();
    let names = Collective::ALL.map(|collective| format!("{} us, GB/s", collective.name()));
    table.set_header(["bytes".to_string()].into_iter().chain(names));
    let is_compared = cells.iter().any(|cell| cell.times.nccl.is_some());
    for row in cells.chunk_by(|one, other| one.bytes == other.bytes) {
        let mut add = |name: String, text: &dyn Fn(&Cell) -> String| {
            table.add_row([name].into_iter().chain(row.iter().map(text)));
        };
        add(row[0].bytes.to_string(), &|cell| cell.speed(Some(cell.times.millstream)));
        if is_compared {
            add("NCCL".to_string(), &|cell| cell.speed(cell.times.nccl));
            let ratio = |cell: &Cell| cell.ratio().map(|ratio| format!("{ratio:.2}"));
            add("ratio".to_string(), &|cell| ratio(cell).unwrap_or("-".to_string()));
        }
    }
    table
}

/// The worst ratio of long vectors and that of short ones, with their cells.
pub fn worst(cells: &[Cell]) -> Option<String> {
    let worst = |name: &str, is_meant: fn(usize) -> bool| {
        let ratios = cells.iter().filter(|cell| is_meant(cell.bytes));
        let ratios = ratios.filter_map(|cell| Some((cell.ratio()?, cell)));
        let (ratio, cell) = ratios.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        Some(format!("{name} {ratio:.2} ({} of {} bytes)", cell.collective.name(), cell.bytes))
    };
    let long = worst("from 64 MiB on", |bytes| bytes >= 64 << 20);
    let short = worst("up to 1 MiB", |bytes| bytes <= 1 << 20);
    let parts: Vec<String> = [long, short].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("worst ratio: {}", parts.join(", ")))
}
