//! Memory, streams and kernels of one benchmark, and the ways in which it can run.

use std::time::{Duration, Instant};

use millstream::device::{
    Argument, Device, DeviceBuffer, GuardedBuffer, Kernel, Parameter, SharedBuffer, Stream,
    StreamKind,
};
use millstream::flow::{Context, EarlyKernel, FullEmpty, FullEmptySegment, PacketShape, Result};

use super::twin::{AtEnd, Coming, Leaving, Present, Pulled, Signature, kernel};
use super::workload::Workload;

/// A way to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Copy, launch, copy back: each begins when the one before has ended.
    Baseline,
    /// The kernel is launched before its data is there.
    EarlyLaunch(Moved),
    /// Tiles of the result leave the device while the kernel runs.
    ProactiveReturn,
    /// Early launch and proactive return.
    FullOverlap(Moved),
}

/// How packets of the inputs get to a kernel that waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// By copies.
    Copied,
    /// Inputs stay in the host's memory, where the kernel reads them.
    Mapped,
    /// Blocks of the kernel fetch inputs from the host's memory, also for other blocks.
    Pulled,
}

/// How long before the data is there a kernel is launched early.
const HEAD_START: Duration = Duration::from_micros(30);

/// Written to all words of the inputs before a checked run. Whether read as offsets, vertices,
/// addresses or bits of floats, this does no harm, and gives other results.
const OTHER: u32 = 1;

/// A step that tests leave out, to see that checked runs notice it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    CopyIn,
    CopyOut,
    /// Kernels do not wait: they read what lies in the host's memory before the data comes.
    Wait,
}

/// Bytes of a packet that a block fetches: four words of 16 bytes for each thread.
const PULLED_BYTES: usize = 16 << 10;

/// The kernels for one kind of output: for inputs that are copied or mapped, and for pulled ones.
#[derive(Debug)]
struct Waiting<Out: Parameter> {
    coming: Kernel<Signature<Coming, Out>>,
    pulled: Kernel<Signature<Pulled, Out>>,
}

/// Everything that one benchmark needs.
#[derive(Debug)]
pub struct Bed<'a> {
    work: &'a Workload,
    context: Context,
    group: FullEmpty,
    /// In the host's memory: the inputs, and, where a copy ends the run, the output.
    data: Vec<DeviceBuffer<u32>>,
    result: DeviceBuffer<u32>,
    /// In the device's memory: inputs without full/empty words.
    inputs: Vec<DeviceBuffer<u32>>,
    output: GuardedBuffer<u32>,
    /// In the device's memory.
    copied: Vec<FullEmptySegment<u32>>,
    /// In the host's memory.
    mapped: Vec<FullEmptySegment<u32>>,
    /// In the device's memory, for packets fetched from the mapped ones.
    pulled: Vec<FullEmptySegment<u32>>,
    /// In the host's memory.
    leaving: FullEmptySegment<u32>,
    table: SharedBuffer<u32>,
    /// In the host's memory: counts the ends that streams have announced.
    ended: SharedBuffer<u32>,
    ends: u32,
    is_checked: bool,
    /// The result as the host saw it right at the end of a checked run.
    seen: Vec<u32>,
    pub(super) missing: Option<Missing>,
    compute: Stream,
    copy: Stream,
    plain: Kernel<Signature<Present, AtEnd>>,
    returning: Kernel<Signature<Present, Leaving>>,
    early: Waiting<AtEnd>,
    full: Waiting<Leaving>,
}

impl<'a> Bed<'a> {
    /// Makes everything, with inputs in packets of this many bytes.
    ///
    /// # Errors
    /// No memory, or a kernel that does not compile.
    pub fn new(
        context: &Context,
        device: &Device,
        work: &'a Workload,
        packet_bytes: usize,
    ) -> Result<Bed<'a>> {
        let (host, group) = (context.host(), FullEmpty::new(context, Duration::from_secs(5))?);
        let parameters = work.parameters;
        let segments = |on: &Device, packet_bytes: usize| -> Result<Vec<_>> {
            let shapes = work.inputs.iter().map(|items| {
                PacketShape::new(items.len(), packet_bytes / 4).read_by(device).unseen_by_host()
            });
            shapes.map(|shape| group.segment(on, shape)).collect()
        };
        let leaving = match work.summed {
            Some(len) => PacketShape::new(len, len).written_by(device, parameters.tiles as usize),
            None => PacketShape::new(work.output_len(), parameters.tile as usize * work.words),
        };
        let mut data = Vec::new();
        for items in &work.inputs {
            let mut buffer = host.buffer(items.len())?;
            buffer.host_view_mut()?.copy_from_slice(items);
            data.push(buffer);
        }
        let inputs = work.inputs.iter().map(|items| Ok(device.buffer(items.len())?));
        let compute = device.stream_of(StreamKind::Gang)?;
        let table = device.shared(work.table.len())?;
        compute.upload_shared(work.table.clone(), &table, 0..work.table.len())?;
        compute.record()?.synchronize()?;
        let tiles = parameters.tiles as usize;
        let bed = Bed {
            inputs: inputs.collect::<Result<_>>()?,
            output: device.guarded(work.output_len())?,
            result: host.buffer(work.output_len())?,
            copied: segments(device, packet_bytes)?,
            // Inputs that are read in place become full all at once.
            mapped: segments(host, work.input_bytes())?,
            pulled: segments(device, PULLED_BYTES)?,
            leaving: group.segment(host, leaving)?,
            ended: host.shared(1)?,
            ends: 0,
            is_checked: false,
            seen: Vec::new(),
            missing: None,
            copy: device.stream_of(StreamKind::Copy)?,
            plain: kernel(work, "plain"),
            returning: kernel(work, "return"),
            early: Waiting { coming: kernel(work, "early"), pulled: kernel(work, "early_pulled") },
            full: Waiting { coming: kernel(work, "full"), pulled: kernel(work, "full_pulled") },
            context: context.clone(),
            work,
            group,
            data,
            table,
            compute,
        };
        // Loaded now, so that none is loaded while another waits.
        bed.plain.prepare(device, tiles)?;
        bed.returning.prepare(device, tiles)?;
        bed.early.coming.prepare(device, tiles)?;
        bed.early.pulled.prepare(device, tiles)?;
        bed.full.coming.prepare(device, tiles)?;
        bed.full.pulled.prepare(device, tiles)?;
        Ok(bed)
    }

    /// Seconds from when the data was there to when the host had the result.
    ///
    /// # Errors
    /// Any failure of a device; a packet that did not come.
    pub fn run(&mut self, mode: Mode) -> Result<Duration> {
        match mode {
            Mode::Baseline => self.baseline(),
            Mode::ProactiveReturn => self.proactive_return(),
            Mode::EarlyLaunch(moved) => self.early_launch(moved),
            Mode::FullOverlap(moved) => self.full_overlap(moved),
        }
    }

    /// The result of the last run of a mode.
    ///
    /// # Errors
    /// Nothing has run.
    pub fn answer(&self, mode: Mode) -> Result<Vec<u32>> {
        match mode {
            Mode::Baseline | Mode::EarlyLaunch(_) => Ok(self.result.host_view()?.to_vec()),
            Mode::ProactiveReturn | Mode::FullOverlap(_) => self.returned(),
        }
    }

    fn returned(&self) -> Result<Vec<u32>> {
        let packets = 0..self.leaving.shape().packets();
        let parts = packets.map(|packet| self.leaving.read(packet, <[u32]>::to_vec));
        Ok(parts.collect::<Result<Vec<_>>>()?.concat())
    }

    /// The result of a run that nothing from before can make right: the run before has other
    /// inputs, and what kernels read in the host's memory is written there when its packets
    /// become full. That takes time, so it is none that is measured.
    ///
    /// # Errors
    /// As [`run`](Bed::run).
    pub fn checked(&mut self, mode: Mode) -> Result<Vec<u32>> {
        self.spoil(mode)?;
        self.run_anew(mode)
    }

    /// Overwrites all inputs and results that a mode uses with other values.
    pub(super) fn spoil(&mut self, mode: Mode) -> Result<()> {
        let other = self.work.inputs.each_ref().map(|items| vec![OTHER; items.len()]);
        self.run_with(mode, &other)
    }

    pub(super) fn run_anew(&mut self, mode: Mode) -> Result<Vec<u32>> {
        self.run_with(mode, &self.work.inputs)?;
        match mode {
            Mode::Baseline | Mode::EarlyLaunch(_) => self.answer(mode),
            Mode::ProactiveReturn | Mode::FullOverlap(_) => Ok(std::mem::take(&mut self.seen)),
        }
    }

    fn run_with(&mut self, mode: Mode, inputs: &[Vec<u32>; 3]) -> Result<()> {
        for (buffer, items) in self.data.iter_mut().zip(inputs) {
            buffer.host_view_mut()?.copy_from_slice(items);
        }
        self.is_checked = true;
        let ran = self.run(mode);
        self.is_checked = false;
        ran.map(drop)
    }

    fn is_missing(&self, step: Missing) -> bool {
        cfg!(test) && self.missing == Some(step)
    }

    /// Looks at the result right away, before the end of the kernel can make it right.
    fn look(&mut self) -> Result<()> {
        if self.is_checked {
            self.seen = self.returned()?;
        }
        Ok(())
    }

    fn tiles(&self) -> usize {
        self.work.parameters.tiles as usize
    }

    /// The number of packets that blocks fetch; each of the three inputs has as many.
    fn pulls(&self) -> usize {
        3 * self.pulled.iter().map(|input| input.shape().packets()).max().unwrap_or(0)
    }

    fn copy_in(&mut self) -> Result<()> {
        if self.is_missing(Missing::CopyIn) {
            return Ok(());
        }
        for (from, to) in
            self.data.iter().zip(&mut self.inputs).filter(|(from, _)| !from.is_empty())
        {
            self.compute.copy(from, to)?;
        }
        Ok(())
    }

    fn launch_plain(&mut self) -> Result<()> {
        let inputs = (&self.inputs[0], &self.inputs[1], &self.inputs[2]);
        let arguments = (inputs, &self.output, &self.table, self.work.parameters);
        Ok(self.plain.launch(&self.compute, self.tiles(), arguments)?)
    }

    fn copy_out(&mut self) -> Result<()> {
        if self.is_missing(Missing::CopyOut) {
            return Ok(());
        }
        Ok(self.compute.copy(self.output.part(0..self.output.len())?, &mut self.result)?)
    }

    /// Makes the stream announce when it has come to here.
    fn say_when_ended(&mut self) -> Result<()> {
        self.ends += 1;
        Ok(self.compute.signal(&[(&self.ended, 0, self.ends)])?)
    }

    fn wait_until_ended(&self) -> Result<()> {
        let start = Instant::now();
        while self.ended.load(0)? != self.ends {
            if !self.context.device_set().stay_awake(start.elapsed()) {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    fn baseline(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.copy_in()?;
        self.launch_plain()?;
        self.copy_out()?;
        self.say_when_ended()?;
        self.wait_until_ended()?;
        let time = start.elapsed();
        self.compute.record()?.synchronize()?;
        Ok(time)
    }

    fn proactive_return(&mut self) -> Result<Duration> {
        self.leaving.next_epoch()?;
        let start = Instant::now();
        self.copy_in()?;
        let inputs = (&self.inputs[0], &self.inputs[1], &self.inputs[2]);
        let arguments = (inputs, &self.leaving, &self.table, self.work.parameters);
        self.returning.launch(&self.compute, self.tiles(), arguments)?;
        self.leaving.blocking_wait_full(0..self.leaving.shape().packets())?;
        let time = start.elapsed();
        self.look()?;
        self.compute.record()?.synchronize()?;
        Ok(time)
    }

    fn early_launch(&mut self, moved: Moved) -> Result<Duration> {
        self.begin_epoch(moved)?;
        let kernel = self.launch_early(moved, &self.early, &self.output)?;
        self.copy_out()?;
        self.say_when_ended()?;
        self.await_data();
        let start = Instant::now();
        self.fill(moved)?;
        self.wait_until_ended()?;
        let time = start.elapsed();
        kernel.event().synchronize()?;
        self.group.check()?;
        self.compute.record()?.synchronize()?;
        self.copy.record()?.synchronize()?;
        Ok(time)
    }

    fn full_overlap(&mut self, moved: Moved) -> Result<Duration> {
        self.begin_epoch(moved)?;
        self.leaving.next_epoch()?;
        let kernel = self.launch_early(moved, &self.full, &self.leaving)?;
        self.await_data();
        let start = Instant::now();
        self.fill(moved)?;
        self.leaving.blocking_wait_full(0..self.leaving.shape().packets())?;
        let time = start.elapsed();
        self.look()?;
        kernel.event().synchronize()?;
        self.group.check()?;
        self.copy.record()?.synchronize()?;
        Ok(time)
    }

    fn launch_early<Out: Parameter + 'static>(
        &self,
        moved: Moved,
        kernels: &Waiting<Out>,
        output: impl Argument<Out>,
    ) -> Result<EarlyKernel> {
        fn coming(of: &[FullEmptySegment<u32>]) -> impl Argument<Coming> {
            (&of[0], &of[1], &of[2])
        }
        let (table, parameters) = (&self.table, self.work.parameters);
        let (stream, tiles) = (&self.compute, self.tiles());
        Ok(match moved {
            Moved::Copied => {
                let arguments = (coming(&self.copied), output, table, parameters);
                let early = self.group.launch_early(stream, &kernels.coming, tiles, arguments);
                self.context.block_on(early)??
            }
            Moved::Mapped => {
                let arguments = (coming(&self.mapped), output, table, parameters);
                let early = self.group.launch_early(stream, &kernels.coming, tiles, arguments);
                self.context.block_on(early)??
            }
            Moved::Pulled => {
                let inputs = (coming(&self.mapped), coming(&self.pulled));
                let arguments = (inputs, output, table, parameters);
                let blocks = tiles.max(self.pulls());
                let early = self.group.launch_early(stream, &kernels.pulled, blocks, arguments);
                self.context.block_on(early)??
            }
        })
    }

    /// Stands for other work of the host, while the kernel has been launched and waits.
    fn await_data(&self) {
        let start = Instant::now();
        while start.elapsed() < HEAD_START {
            std::hint::spin_loop();
        }
    }

    /// Makes all packets empty. Mapped inputs already lie where they will be read.
    fn begin_epoch(&mut self, moved: Moved) -> Result<()> {
        if moved == Moved::Copied {
            return self.copied.iter_mut().try_for_each(FullEmptySegment::next_epoch);
        }
        if self.mapped[0].epoch() == 1 {
            for (segment, items) in self.mapped.iter().zip(&self.work.inputs) {
                for packet in 0..segment.shape().packets() {
                    let part = &items[segment.shape().range(packet)];
                    segment.fill(packet, |to| to.copy_from_slice(part))?;
                }
            }
        }
        self.mapped.iter_mut().chain(&mut self.pulled).try_for_each(FullEmptySegment::next_epoch)
    }

    /// Makes the data available: packets of all inputs in turn.
    fn fill(&self, moved: Moved) -> Result<()> {
        let segments = if moved == Moved::Copied { &self.copied } else { &self.mapped };
        let most = segments.iter().map(|segment| segment.shape().packets()).max().unwrap_or(0);
        let is_written = self.is_checked && !self.is_missing(Missing::Wait);
        for packet in 0..most {
            for (segment, data) in segments.iter().zip(&self.data) {
                let range = segment.shape().range(packet);
                match moved {
                    _ if range.is_empty() => {}
                    Moved::Copied => segment.fill_from(&self.copy, packet, data.part(range)?)?,
                    _ if is_written => {
                        let part = &data.host_view()?[range];
                        segment.fill(packet, |to| to.copy_from_slice(part))?;
                    }
                    Moved::Mapped | Moved::Pulled => segment.fill(packet, |_| ())?,
                }
            }
        }
        Ok(())
    }

    /// How long copies in, the kernel, and the copy out take, each without what comes
    /// before and after: by many in a row.
    ///
    /// # Errors
    /// Any failure of a device.
    pub fn parts(&mut self) -> Result<[Duration; 3]> {
        let parts: [fn(&mut Self) -> Result<()>; 3] =
            [Self::copy_in, Self::launch_plain, Self::copy_out];
        let mut times = [Duration::ZERO; 3];
        for (time, part) in times.iter_mut().zip(parts) {
            let (few, many) = (self.repeated(part, 5)?, self.repeated(part, 25)?);
            *time = many.saturating_sub(few) / 20;
        }
        Ok(times)
    }

    fn repeated(&mut self, part: fn(&mut Self) -> Result<()>, times: usize) -> Result<Duration> {
        let mut best = Duration::MAX;
        for _ in 0..4 {
            let start = Instant::now();
            for _ in 0..times {
                part(self)?;
            }
            self.say_when_ended()?;
            self.wait_until_ended()?;
            best = best.min(start.elapsed());
            self.compute.record()?.synchronize()?;
        }
        Ok(best)
    }
}
