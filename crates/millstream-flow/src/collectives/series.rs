//! The collectives.

use std::fmt;
use std::ops::Range;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use millstream_device::{Awaitable, Completion, DeviceBuffer, Error as DeviceError, Event, Stream};

use super::checks::Checks;
use super::communicator::Communicator;
use super::operands::Operands;
use super::operator::Operator;
use super::plan::{Pattern, Piece};
use crate::gang_permit::GangPermit;
use crate::segmenter;
use crate::{Error, Item, Result};

/// A series of collectives, from [`Communicator::begin`].
///
/// Each call checks its operands, submits the operation to one stream of each device
/// and returns: the operations run in the order of the calls, and the host does not
/// wait. [`Collectives::completed`] waits for all of them; or a program orders its own
/// work by events, before ([`Collectives::wait`]) and after ([`Collectives::record`]).
///
/// Each rank has one buffer, of its own device; `operands` are `&mut buffers`, to work
/// in place, or `(&inputs, &mut outputs)`. Parts of a vector that belong to the ranks
/// are as equal as can be, larger ones first: 10 items of 4 ranks are 3, 3, 2 and 2.
///
/// ```
/// use millstream_flow::{Communicator, Context, Devices, Error, Operator};
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let mut communicator = Communicator::new(&context)?;
/// let run = async {
///     let (mut vectors, mut uploads) = (Vec::new(), Vec::new());
///     for device in context.devices() {
///         let stream = device.stream()?;
///         vectors.push(stream.uploaded(vec![1u32, 2, 3])?);
///         uploads.push(stream.record()?);
///     }
///     // Kept, as their kernels are loaded once for each.
///     let (sum, max) = (Operator::sum(), Operator::max());
///     let mut collectives = communicator.begin().await?;
///     for upload in &uploads {
///         collectives.wait(upload)?;
///     }
///     collectives.all_reduce(&mut vectors, &sum)?;
///     collectives.all_reduce(&mut vectors, &max)?;
///     collectives.completed().await?;
///     let download = context.devices()[1].stream()?.download(&vectors[1])?;
///     assert_eq!(download.await?, [2, 4, 6]);
///     Ok::<(), Error>(())
/// };
/// context.block_on(run)??;
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Each call refuses, and submits nothing for, a wrong number of buffers, a buffer of
/// another device, lengths that do not fit, and buffers whose earlier uses are not
/// ordered before. A failure of a device later on is what [`Collectives::completed`]
/// and every later call give.
///
/// # Cancel safety
/// Dropped, what is submitted still runs to its end. Other gangs of kernels wait for
/// the end of the last operation, not for the drop.
pub struct Collectives<'a> {
    communicator: &'a mut Communicator,
    /// GPUs' kernels hold it until they are over.
    permit: Option<GangPermit>,
    is_closed: bool,
}

impl fmt::Debug for Collectives<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Collectives").field("of", &self.communicator).finish()
    }
}

impl<'a> Collectives<'a> {
    pub(super) fn new(
        communicator: &'a mut Communicator,
        permit: Option<GangPermit>,
    ) -> Collectives<'a> {
        Collectives { communicator, permit, is_closed: false }
    }

    /// The streams that the operations are submitted to, of each rank.
    pub fn streams(&self) -> &[Stream] {
        &self.communicator.streams
    }

    /// Makes what is submitted next, on every rank, come after an event.
    ///
    /// # Errors
    /// An event of another set of devices, for which nothing is submitted; the first cause, on a
    /// failed stream.
    pub fn wait(&mut self, awaitable: &impl Awaitable) -> Result<()> {
        match self.communicator.wait(awaitable) {
            // The first stream has refused it, so nothing was submitted: all streams are of one set.
            Err(error @ Error::Device(DeviceError::DifferentDeviceSet { .. })) => Err(error),
            waiting => self.noted(waiting),
        }
    }

    /// An event of each rank that is complete when everything submitted so far is over there. This
    /// includes a collective that has given up because a rank did not come in time, whose results
    /// are of no use. So before you use results that only events announced, call
    /// [`Communicator::check`](crate::Communicator::check) or
    /// [`completed`](Collectives::completed), which report that.
    ///
    /// # Errors
    /// The first cause, on a failed stream.
    pub fn record(&mut self) -> Result<Vec<Event>> {
        let events: millstream_device::Result<_> =
            self.streams().iter().map(Stream::record).collect();
        self.noted(events.map_err(Error::from))
    }

    /// Everyone gets the items of rank `root`. All buffers are of one length; out of
    /// place, inputs of other ranks are not used.
    ///
    /// # Errors
    /// See [`Collectives`]; a root that is no rank.
    pub fn broadcast<'b, T: Item>(
        &mut self,
        root: usize,
        operands: impl Into<Operands<'b, T>>,
    ) -> Result<()> {
        let operands = operands.into();
        let checks = self.checks("broadcast", &operands)?;
        checks.root(root)?;
        let len = operands.sources()[root].len();
        checks.outputs(&operands, |_| len)?;
        self.submit(Pattern::Broadcast { root, items: 0..len }, operands, None)
    }

    /// Rank `root` gets the items of all ranks, combined. The inputs and the root's output have the
    /// same length; the output buffers of other ranks keep what they have.
    ///
    /// # Errors
    /// See [`Collectives`]; a root that is no rank.
    pub fn reduce<'b, T: Item>(
        &mut self,
        root: usize,
        operands: impl Into<Operands<'b, T>>,
        operator: &Operator<T>,
    ) -> Result<()> {
        let operands = operands.into();
        let checks = self.checks("reduce", &operands)?;
        checks.root(root)?;
        let len = operands.outputs[root].len();
        checks.inputs(&operands, |_| len)?;
        self.submit(Pattern::Reduce { root, items: 0..len }, operands, Some(operator))
    }

    /// Everyone gets the items of all ranks, combined. All buffers are of one length.
    ///
    /// # Errors
    /// See [`Collectives`].
    pub fn all_reduce<'b, T: Item>(
        &mut self,
        operands: impl Into<Operands<'b, T>>,
        operator: &Operator<T>,
    ) -> Result<()> {
        let operands = operands.into();
        let checks = self.checks("all-reduce", &operands)?;
        let len = operands.outputs.first().map_or(0, |buffer| buffer.len());
        checks.inputs(&operands, |_| len)?;
        checks.outputs(&operands, |_| len)?;
        self.submit(Pattern::AllReduce { items: 0..len }, operands, Some(operator))
    }

    /// Each rank gets its part of the items of all ranks, combined. Inputs are of one
    /// length, outputs of their part's. In place, a rank's result is where its part is,
    /// and the rest of its buffer keeps what it has.
    ///
    /// # Errors
    /// See [`Collectives`].
    pub fn reduce_scatter<'b, T: Item>(
        &mut self,
        operands: impl Into<Operands<'b, T>>,
        operator: &Operator<T>,
    ) -> Result<()> {
        let operands = operands.into();
        let checks = self.checks("reduce-scatter", &operands)?;
        let len = operands.sources().first().map_or(0, |buffer| buffer.len());
        let parts = self.parts(len);
        checks.inputs(&operands, |_| len)?;
        if !operands.is_in_place() {
            checks.outputs(&operands, |rank| parts[rank].len())?;
        }
        self.submit(Pattern::ReduceScatter { parts }, operands, Some(operator))
    }

    /// Everyone gets the items of each rank, one after the other. Inputs are of any
    /// lengths, and all outputs of their sum. In place, each rank gives its part of
    /// its buffer, and all buffers are of one length.
    ///
    /// # Errors
    /// See [`Collectives`].
    pub fn all_gather<'b, T: Item>(&mut self, operands: impl Into<Operands<'b, T>>) -> Result<()> {
        let operands = operands.into();
        let checks = self.checks("all-gather", &operands)?;
        let parts = match operands.inputs {
            None => self.parts(operands.outputs.first().map_or(0, |buffer| buffer.len())),
            Some(inputs) => consecutive(inputs.iter().map(|input| input.len())),
        };
        let len = parts.last().map_or(0, |part| part.end);
        checks.outputs(&operands, |_| len)?;
        self.submit(Pattern::AllGather { parts }, operands, None)
    }

    /// Each rank gives every rank the part of its input that belongs to that rank, and gets the
    /// parts that belong to itself, in the order of the ranks they come from. Inputs may have any
    /// lengths; an output is as long as the parts it gets together. In place, all buffers have the
    /// same length, a multiple of the number of ranks.
    ///
    /// # Errors
    /// See [`Collectives`].
    pub fn all_to_all<'b, T: Item>(&mut self, operands: impl Into<Operands<'b, T>>) -> Result<()> {
        let operands = operands.into();
        let checks = self.checks("all-to-all", &operands)?;
        let ranks = self.communicator.ranks();
        let mut received = vec![0; ranks];
        let row = |input: &DeviceBuffer<T>| {
            let piece = |(items, end): (Range<usize>, &mut usize)| {
                let at = std::mem::replace(end, *end + items.len());
                Piece { items, at }
            };
            segmenter::parts(input.len(), ranks).zip(&mut received).map(piece).collect()
        };
        let pieces = operands.sources().iter().map(row).collect();
        checks.outputs(&operands, |to| match operands.is_in_place() {
            false => received[to],
            true => operands.outputs[0].len().next_multiple_of(ranks),
        })?;
        self.submit(Pattern::AllToAll { pieces }, operands, None)
    }

    /// Makes what is submitted next, on every rank, come after what every rank has
    /// been given so far.
    ///
    /// # Errors
    /// What the communicator has failed with.
    pub fn barrier(&mut self) -> Result<()> {
        self.communicator.check()?;
        let submitted = self.communicator.barrier();
        self.noted(submitted)
    }

    /// Waits for everything submitted. On return the results are there, on every
    /// device, and what the program does next comes after.
    ///
    /// # Errors
    /// The first failure of any device: the results are then worth nothing, and the
    /// communicator is done with.
    ///
    /// # Cancel safety
    /// As dropping the series.
    pub async fn completed(mut self) -> Result<()> {
        let mut ends: FuturesUnordered<_> = self.close()?.into_iter().collect();
        while let Some(end) = ends.next().await {
            if let Err(cause) = end {
                self.communicator.fail(cause.into());
            }
        }
        self.communicator.check()
    }

    /// Ends the series. The permit is released when the last operation is over.
    fn close(&mut self) -> Result<Vec<Completion>> {
        self.is_closed = true;
        let permit = self.permit.take();
        let completed = |stream: &Stream| match &permit {
            Some(permit) => permit.completed(stream),
            None => stream.completed(),
        };
        // Of all streams, even if some have failed.
        let ends: Vec<_> = self.streams().iter().map(completed).collect();
        let ends: millstream_device::Result<_> = ends.into_iter().collect();
        self.noted(ends.map_err(Error::from))
    }

    fn parts(&self, len: usize) -> Vec<Range<usize>> {
        segmenter::parts(len, self.communicator.ranks()).collect()
    }

    fn checks<T: Item>(
        &mut self,
        operation: &'static str,
        operands: &Operands<'_, T>,
    ) -> Result<Checks> {
        self.communicator.check()?;
        let checks = Checks { operation, ranks: self.communicator.ranks() };
        checks.places(operands, &self.communicator.streams)?;
        Ok(checks)
    }

    fn submit<T: Item>(
        &mut self,
        pattern: Pattern,
        operands: Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        let submitted = self.communicator.submit(pattern, operands, operator);
        self.noted(submitted)
    }

    /// Records a failure to submit as the communicator's.
    fn noted<R>(&mut self, submitted: Result<R>) -> Result<R> {
        submitted.inspect_err(|cause| self.communicator.fail(cause.clone()))
    }
}

impl Drop for Collectives<'_> {
    fn drop(&mut self) {
        if !self.is_closed {
            // The communicator reports a failure.
            let _ = self.close();
        }
    }
}

/// Ranges of these lengths, one after the other.
fn consecutive(lens: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let ranges = lens.scan(0, |end, len| {
        let start = *end;
        *end += len;
        Some(start..*end)
    });
    ranges.collect()
}
