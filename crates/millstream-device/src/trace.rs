//! What devices did, and when: an event log, and a picture of it.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Serialize, Serializer};

use crate::task::Task;

/// One thing that a device, or the host, has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracedOperation {
    /// A kernel's name, or what kind of operation it is; for a copy also from where to where.
    pub name: Arc<str>,
    /// A device such as `host:1`, or `cuda:0` for all virtual devices of that GPU; `host` for
    /// [spans](Trace::span).
    pub device: Arc<str>,
    /// Where operations happen one after the other: a lane of a GPU, which streams share; a stream
    /// of a host device; or a thread of the host.
    pub lane: Arc<str>,
    /// When it began, since the trace was made.
    pub begin: Duration,
    /// When it was over.
    pub end: Duration,
    /// Bytes copied or filled; 0 for kernels and spans.
    pub bytes: u64,
}

/// An event log: what the devices of a set do, from when to when, while they are traced
/// ([`DeviceSetBuilder::trace`](crate::DeviceSetBuilder::trace)). Cheap to clone; clones share the log.
///
/// An operation of a GPU is timed by two events of the driver. This needs a driver for CUDA 12.8 or
/// later and takes the host about 2 us; small kernels then no longer follow each other immediately.
/// The clocks of GPUs are compared with the host's once, when the GPUs are opened, and are accurate
/// to some microseconds. An operation of a host device lasts from when a thread begins it until it
/// is over, including the time it waits for others. Launches that the driver is given as one are
/// one operation.
///
/// An operation is in the log soon after it is over, and certainly when
/// [`DeviceSet::quiesce`](crate::DeviceSet::quiesce) has returned. What a GPU did that has had a
/// fault is not logged, nor are kernels of virtual devices that wait for each other. The log grows
/// by about 150 bytes for each operation, without a limit.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet, Trace};
///
/// let trace = Trace::new();
/// let set = DeviceSet::builder().devices(DeviceList::host(2)).trace(&trace).build()?;
/// let buffer = {
///     let _span = trace.span("make");
///     set.devices()[1].stream()?.uploaded(vec![1_u32, 2, 3])?
/// };
/// set.quiesce()?;
/// let log = trace.operations();
/// let upload = log.iter().find(|operation| &*operation.device == "host:1").ok_or("no upload")?;
/// assert_eq!((&*upload.name, upload.bytes), ("upload", 12));
/// assert!(upload.begin <= upload.end);
/// // For chrome://tracing or ui.perfetto.dev.
/// let mut file = Vec::new();
/// trace.write(&mut file)?;
/// assert!(String::from_utf8(file)?.contains("traceEvents"));
/// # drop(buffer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Trace {
    log: Arc<Log>,
}

struct Log {
    start: Instant,
    operations: Mutex<Vec<TracedOperation>>,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace::new()
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Trace({} operations)", self.log.operations.lock().len())
    }
}

impl Trace {
    /// An empty log, whose time begins now.
    pub fn new() -> Trace {
        let (start, operations) = (Instant::now(), Mutex::new(Vec::new()));
        Trace { log: Arc::new(Log { start, operations }) }
    }

    /// What is over, in the order in which it became known.
    pub fn operations(&self) -> Vec<TracedOperation> {
        self.log.operations.lock().clone()
    }

    /// Logs a span for this thread, from now until the returned value is dropped. A span across an
    /// await belongs to the thread that began it, no matter on which thread it ends.
    pub fn span(&self, name: impl Into<Arc<str>>) -> TraceSpan {
        let thread = thread::current();
        // Names alone may not be unique.
        let lane = format!("{:?} {}", thread.id(), thread.name().unwrap_or_default());
        let lane = lane.trim_end().into();
        TraceSpan(Tracing::begun(self, (name.into(), "host".into(), lane), 0))
    }

    /// Writes the log as Chrome's Trace Event Format, which ui.perfetto.dev and chrome://tracing show.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, writer: impl Write) -> io::Result<()> {
        let operations = self.operations();
        let rows = Rows::of(&operations);
        let mut writer = BufWriter::new(writer);
        serde_json::to_writer(&mut writer, &File { trace_events: Events(&rows, &operations) })?;
        writer.flush()
    }

    /// The time as operations are recorded.
    pub(crate) fn now(&self) -> Duration {
        self.log.start.elapsed()
    }
}

/// What a thread of the host does: see [`Trace::span`].
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct TraceSpan(Tracing);

impl Drop for TraceSpan {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// An operation that enters the log once it is over.
#[derive(Debug)]
pub(crate) struct Tracing {
    trace: Trace,
    operation: TracedOperation,
}

impl Tracing {
    /// An operation of a device's lane, which has not begun yet.
    pub(crate) fn of(
        trace: &Trace,
        (device, lane): (Arc<str>, Arc<str>),
        (name, task): (&Arc<str>, &Task),
    ) -> Tracing {
        let (name, bytes) = match task {
            Task::Copy(copies) => {
                let ends = copies.first().map(|(from, to)| [from, to]);
                let ends = ends.map(|ends| ends.map(|place| place.allocation().device.name()));
                let name = match ends {
                    Some([source, sink]) => format!("{name} {source} to {sink}").into(),
                    None => Arc::clone(name),
                };
                (name, copies.iter().map(|(from, _)| from.bytes()).sum())
            }
            Task::Upload { to, .. } | Task::Fill { to, .. } => (Arc::clone(name), to.bytes()),
            Task::Signal(_) | Task::Launch(_) => (Arc::clone(name), 0),
        };
        Tracing::begun(trace, (name, device, lane), bytes as u64)
    }

    fn begun(trace: &Trace, names: (Arc<str>, Arc<str>, Arc<str>), bytes: u64) -> Tracing {
        let ((name, device, lane), now) = (names, trace.now());
        let operation = TracedOperation { name, device, lane, begin: now, end: now, bytes };
        Tracing { trace: trace.clone(), operation }
    }

    /// The operation begins only now.
    pub(crate) fn begin(&mut self) {
        self.operation.begin = self.trace.now();
    }

    /// The operation is over.
    pub(crate) fn end(&mut self) {
        self.end_at(self.operation.begin, self.trace.now());
    }

    /// The operation is over, and took place between these times.
    pub(crate) fn end_at(&mut self, begin: Duration, end: Duration) {
        let operation = TracedOperation { begin, end, ..self.operation.clone() };
        self.trace.log.operations.lock().push(operation);
    }
}

/// The file, in the trace event format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    trace_events: Events<'a>,
}

struct Events<'a>(&'a Rows<'a>, &'a [TracedOperation]);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Events(rows, operations) = self;
        let times = operations.iter().map(|operation| rows.event(operation));
        serializer.collect_seq(rows.names().into_iter().chain(times))
    }
}

#[derive(Serialize)]
struct TraceEvent<'a> {
    name: &'a str,
    /// X: an operation, with beginning and duration. M: the name of a row.
    ph: &'static str,
    pid: usize,
    tid: usize,
    /// In microseconds, both.
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    args: Details<'a>,
}

#[derive(Default, Serialize)]
struct Details<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// The devices, and their lanes, in the order of their names.
struct Rows<'a> {
    devices: Vec<&'a str>,
    lanes: Vec<(&'a str, &'a str)>,
}

impl<'a> Rows<'a> {
    fn of(operations: &'a [TracedOperation]) -> Rows<'a> {
        let lanes = operations.iter().map(|operation| (&*operation.device, &*operation.lane));
        let lanes: Vec<_> = lanes.collect::<BTreeSet<_>>().into_iter().collect();
        let mut devices: Vec<_> = lanes.iter().map(|(device, _)| *device).collect();
        devices.dedup();
        Rows { devices, lanes }
    }

    /// The numbers of a row: of its device and of its lane.
    fn numbers(&self, device: &str, lane: &str) -> (usize, usize) {
        let lane = self.lanes.binary_search(&(device, lane)).unwrap_or_default();
        (self.devices.binary_search(&device).unwrap_or_default(), lane)
    }

    fn names(&self) -> Vec<TraceEvent<'a>> {
        let name = |kind, (device, lane), name| {
            let (pid, tid) = self.numbers(device, lane);
            let args = Details { name: Some(name), bytes: None };
            TraceEvent { name: kind, ph: "M", pid, tid, ts: None, dur: None, args }
        };
        let lanes = self.lanes.iter();
        lanes
            .flat_map(|&(device, lane)| {
                let row = (device, lane);
                [name("process_name", row, device), name("thread_name", row, lane)]
            })
            .collect()
    }

    fn event(&self, operation: &'a TracedOperation) -> TraceEvent<'a> {
        let TracedOperation { name, device, lane, begin, end, bytes } = operation;
        let (pid, tid) = self.numbers(device, lane);
        let microseconds = |time: Duration| Some(time.as_nanos() as f64 / 1000.0);
        let args = Details { name: None, bytes: (*bytes > 0).then_some(*bytes) };
        let (ts, dur) = (microseconds(*begin), microseconds(end.saturating_sub(*begin)));
        TraceEvent { name, ph: "X", pid, tid, ts, dur, args }
    }
}
