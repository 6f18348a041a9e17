//! Reads graphs: edge lists and Matrix Market, plain or compressed with gzip.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::{CsrGraph, GraphError, Weights};

/// What to do with a graph while it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Adds the reverse of every arc.
    pub symmetrize: bool,
    /// Keeps one arc of several between the same vertices, the lightest.
    pub dedupe: bool,
    /// Leaves out arcs from a vertex to itself.
    pub drop_self_loops: bool,
}

/// Why a file is not a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system, or broken compression.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// A line that is not what its format wants.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// The whole is not what its parts say.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Arcs as they are read.
#[derive(Debug, Default)]
struct Arcs {
    ends: Vec<(u32, u32)>,
    /// As many as arcs, or none.
    weights: Vec<f64>,
    /// At least as many as the largest id plus one.
    vertices: u64,
}

/// Reads a graph; the content decides between Matrix Market and an edge list.
///
/// # Errors
/// A file that cannot be read or is not a graph, with the line and the reason.
pub fn read_graph(path: &Path, options: &ReadOptions) -> Result<CsrGraph, ReadError> {
    let io = |source| ReadError::Io { path: path.to_path_buf(), source };
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let is_gzip = file.fill_buf().map_err(io)?.starts_with(&[0x1f, 0x8b]);
    let mut text = String::new();
    let read = match is_gzip {
        true => MultiGzDecoder::new(file).read_to_string(&mut text),
        false => file.read_to_string(&mut text),
    };
    read.map_err(io)?;
    let arcs = match text.starts_with("%%MatrixMarket") {
        true => matrix_market(&text),
        false => edge_list(&text),
    };
    let arcs = arcs.map_err(|(line, reason)| match line {
        0 => ReadError::Content { path: path.to_path_buf(), reason },
        line => ReadError::Line { path: path.to_path_buf(), line, reason },
    })?;
    build(arcs, options)
        .map_err(|error| ReadError::Content { path: path.to_path_buf(), reason: error.to_string() })
}

/// Line (0 for the whole file) and reason.
type Fault = (u64, String);

fn edge_list(text: &str) -> Result<Arcs, Fault> {
    let mut arcs = Arcs::default();
    for (line, content) in numbered_lines(text) {
        let mut fields = fields(content);
        let source = vertex(fields.next(), line)?;
        let target = vertex(fields.next(), line)?;
        arcs.ends.push((source, target));
        arcs.vertices = arcs.vertices.max(u64::from(source.max(target)) + 1);
        if let Some(weight) = fields.next() {
            arcs.weights.push(self::weight(weight, line)?);
        }
        if !arcs.weights.is_empty() && arcs.weights.len() != arcs.ends.len() {
            return Err((line, "some lines have a weight and some have none".to_string()));
        }
    }
    if arcs.ends.is_empty() {
        return Err((0, "no arc in the file".to_string()));
    }
    Ok(arcs)
}

fn matrix_market(text: &str) -> Result<Arcs, Fault> {
    let banner = text.lines().next().unwrap_or_default().to_ascii_lowercase();
    let words: Vec<&str> = banner.split_whitespace().collect();
    let (has_weights, symmetric) = match words[..] {
        [_, "matrix", "coordinate", field, symmetry] => {
            let has_weights = match field {
                "pattern" => false,
                "integer" | "real" => true,
                other => return Err((1, format!("field {other:?} is not supported"))),
            };
            let symmetric = match symmetry {
                "general" => false,
                "symmetric" => true,
                other => return Err((1, format!("symmetry {other:?} is not supported"))),
            };
            (has_weights, symmetric)
        }
        _ => return Err((1, "not a coordinate matrix".to_string())),
    };
    let mut lines = numbered_lines(text);
    let (line, sizes) = lines.next().ok_or((1, "no line with the sizes".to_string()))?;
    let sizes: Vec<u64> = fields(sizes).map_while(|field| field.parse().ok()).collect();
    let [rows, columns, entries] = sizes[..] else {
        return Err((line, "the sizes are not three numbers".to_string()));
    };
    let mut arcs = Arcs { vertices: rows.max(columns), ..Arcs::default() };
    let mut read = 0;
    for (line, content) in lines {
        let mut fields = fields(content);
        let mut end = |most: u64| match vertex(fields.next(), line)? {
            0 => Err((line, "ids start at 1".to_string())),
            id if u64::from(id) > most => Err((line, format!("id {id} is larger than {most}"))),
            id => Ok(id - 1),
        };
        let (source, target) = (end(rows)?, end(columns)?);
        let mirror = symmetric && source != target;
        arcs.ends.push((source, target));
        arcs.ends.extend(mirror.then_some((target, source)));
        if has_weights {
            let field = fields.next().ok_or((line, "no weight".to_string()))?;
            let weight = weight(field, line)?;
            arcs.weights.push(weight);
            arcs.weights.extend(mirror.then_some(weight));
        }
        read += 1;
    }
    if read != entries {
        return Err((0, format!("{read} entries, but the sizes say {entries}")));
    }
    Ok(arcs)
}

/// Lines that are neither empty nor comments, numbered from 1.
fn numbered_lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    let lines = text.lines().zip(1u64..).map(|(content, line)| (line, content.trim()));
    lines.filter(|(_, content)| !content.is_empty() && !content.starts_with(['#', '%']))
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', '\t', ',']).filter(|field| !field.is_empty())
}

fn vertex(field: Option<&str>, line: u64) -> Result<u32, Fault> {
    let field = field.ok_or((line, "an arc needs two vertices".to_string()))?;
    match field.parse() {
        Ok(u32::MAX) | Err(_) => Err((line, format!("{field:?} is not a vertex id"))),
        Ok(vertex) => Ok(vertex),
    }
}

fn weight(field: &str, line: u64) -> Result<f64, Fault> {
    match field.parse::<f64>() {
        Ok(weight) if !weight.is_nan() => Ok(weight),
        _ => Err((line, format!("{field:?} is not a weight"))),
    }
}

fn build(mut arcs: Arcs, options: &ReadOptions) -> Result<CsrGraph, GraphError> {
    let vertices = u32::try_from(arcs.vertices).ok().filter(|&vertices| vertices < u32::MAX);
    let vertices = vertices.ok_or(GraphError::TooManyVertices { vertices: arcs.vertices })?;
    if options.symmetrize {
        let reverses: Vec<_> = arcs.ends.iter().map(|&(from, to)| (to, from)).collect();
        arcs.ends.extend(reverses);
        arcs.weights.extend_from_within(..);
    }
    let has_weights = !arcs.weights.is_empty();
    let weight = |arc: usize| arcs.weights.get(arc).copied().unwrap_or(0.0);
    let mut order: Vec<usize> = (0..arcs.ends.len()).collect();
    if options.drop_self_loops {
        order.retain(|&arc| arcs.ends[arc].0 != arcs.ends[arc].1);
    }
    order.sort_by(|&one, &other| {
        let by_weight = || weight(one).total_cmp(&weight(other));
        arcs.ends[one].cmp(&arcs.ends[other]).then_with(by_weight)
    });
    if options.dedupe {
        order.dedup_by_key(|arc| arcs.ends[*arc]);
    }
    let ends: Vec<_> = order.iter().map(|&arc| arcs.ends[arc]).collect();
    let graph = CsrGraph::from_edges(vertices, &ends)?;
    if !has_weights {
        return Ok(graph);
    }
    let weights: Vec<f64> = order.iter().map(|&arc| weight(arc)).collect();
    let is_integer =
        |weight: &f64| weight.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(weight);
    let weights = match weights.iter().all(is_integer) {
        true => Weights::Integer(weights.into_iter().map(|weight| weight as u32).collect()),
        false => Weights::Real(weights.into_iter().map(|weight| weight as f32).collect()),
    };
    CsrGraph::from_csr(graph.offsets().to_vec(), graph.targets().to_vec(), Some(weights))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, options: &ReadOptions) -> Result<CsrGraph, String> {
        let arcs = match text.starts_with("%%MatrixMarket") {
            true => matrix_market(text),
            false => edge_list(text),
        };
        let arcs = arcs.map_err(|(line, reason)| format!("{line}: {reason}"))?;
        build(arcs, options).map_err(|error| error.to_string())
    }

    #[test]
    fn edge_lists_are_directed_as_written() {
        let graph = read("# comment\n0 2 7\n2,0,3\n0\t1 5\n", &ReadOptions::default()).unwrap();
        assert_eq!((graph.vertices(), graph.neighbors(0)), (3, &[1, 2][..]));
        assert_eq!(graph.weights(), Some(&Weights::Integer(vec![5, 7, 3])));
    }

    #[test]
    fn symmetric_matrices_store_both_arcs() {
        let text = "%%MatrixMarket matrix coordinate pattern symmetric\n% c\n3 3 2\n2 1\n3 3\n";
        let graph = read(text, &ReadOptions::default()).unwrap();
        assert_eq!(graph.targets(), [1, 0, 2]);
    }

    #[test]
    fn options_change_the_arcs() {
        let mut options = ReadOptions { symmetrize: true, dedupe: true, ..ReadOptions::default() };
        options.drop_self_loops = true;
        let graph = read("0 1 9\n1 0 4\n1 1 1\n2 1 2\n", &options).unwrap();
        assert_eq!(graph.targets(), [1, 0, 2, 1]);
        assert_eq!(graph.weights(), Some(&Weights::Integer(vec![4, 4, 2, 2])));
    }

    #[test]
    fn bad_input_names_the_line() {
        for (text, said) in [
            ("", "0: no arc"),
            ("0 1\n1 x\n", "2: \"x\" is not a vertex id"),
            ("0 1\n\n7\n", "3: an arc needs two"),
            ("0 1 2\n1 2\n", "2: some lines"),
            ("0 1 nan\n", "1: \"nan\" is not a weight"),
            ("0 4294967295\n", "1: \"4294967295\" is not a vertex id"),
            ("%%MatrixMarket matrix array real general\n", "1: not a coordinate"),
            ("%%MatrixMarket matrix coordinate complex general\n", "1: field"),
            ("%%MatrixMarket matrix coordinate real hermitian\n", "1: symmetry"),
            ("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n0 1\n", "3: ids start"),
            ("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n3 1\n", "3: id 3"),
            ("%%MatrixMarket matrix coordinate pattern general\n2 2 5\n1 1\n", "0: 1 entries"),
        ] {
            let error = read(text, &ReadOptions::default()).unwrap_err();
            assert!(error.starts_with(said), "{text:?}: {error}");
        }
    }
}
