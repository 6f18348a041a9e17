//! One device's worklist as the host twins of its kernels see it \[G §4.3\].

use std::sync::atomic::{AtomicU64, Ordering};

use millstream_device::{KernelFault, KernelResult};

use crate::common::{CommonView, DEFERRED, OUTBOXES, READY};
use crate::program::{Flags, Here, Program, View};
use crate::queue::{CONTROL_WORDS, QueueView};
use crate::statistics::{COUNTERS, Counter};
use crate::status::{self, LOWEST_DEFERRED, READY_NEWS};
use crate::sync::{Fault, seeded};

/// Items that a block processes together: few enough for the first-level cache.
const ITEMS_AT_ONCE: usize = 64;

/// One device's worklist as its kernels see it.
pub(crate) struct DeviceView<'p, 'a, P: Program> {
    pub(crate) program: &'p P,
    pub(crate) here: Here,
    pub(crate) problem: View<'a, P>,
    pub(crate) queues: Vec<QueueView<'a>>,
    /// The number of items of the worklist.
    items: usize,
    pub(crate) status: &'a [AtomicU64],
    pub(crate) report: &'a [AtomicU64],
    /// Items whose priority value is higher than this are deferred.
    pub(crate) threshold: u32,
}

impl<'p, 'a, P: Program> DeviceView<'p, 'a, P> {
    pub(crate) fn new(
        program: &'p P,
        (here, items): (Here, usize),
        common: CommonView<'a, P>,
    ) -> Self {
        let (problem, (bits, entries, control, _), status, _, report, _, ()) = common;
        let count = control.len() / CONTROL_WORDS;
        let bits = bits.chunks_exact(bits.len() / count);
        let entries = entries.chunks_exact(entries.len() / count);
        let queues = bits.zip(entries).zip(control.chunks_exact(CONTROL_WORDS));
        let view = |((bits, ring), control)| QueueView { bits, ring, control };
        let queues = queues.map(view).collect();
        let threshold = u32::MAX;
        DeviceView { program, here, problem, queues, items, status, report, threshold }
    }

    pub(crate) fn with_threshold(self, threshold: u32) -> Self {
        DeviceView { threshold, ..self }
    }

    /// An empty tally, for a block.
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            counts: [0; COUNTERS],
            queued: [const { Vec::new() }; OUTBOXES],
            lowest_deferred: None,
            news: vec![false; self.outboxes().len()],
        }
    }

    /// Ends a block: adds its entries to the queues and its counts to the status. Counts may lag behind
    /// what is visible already, since the host trusts them only between kernels.
    pub(crate) fn tell(&self, tally: &Tally) {
        for (queue, items) in self.queues.iter().zip(&tally.queued) {
            queue.add_entries(items);
        }
        if let Some(priority) = tally.lowest_deferred {
            let (word, threshold) = (&self.status[LOWEST_DEFERRED], self.threshold.into());
            status::lower(word, priority.into(), threshold);
        }
        for (word, &count) in self.status.iter().zip(&tally.counts) {
            if count > 0 {
                // Release: pairs with the acquire in `status::publish`.
                word.fetch_add(count, Ordering::AcqRel);
            }
        }
        let has_ready = !tally.queued[READY].is_empty();
        let news = std::iter::once(&has_ready).chain(&tally.news);
        for (word, _) in self.status[READY_NEWS..].iter().zip(news).filter(|&(_, &is)| is) {
            status::raise(word);
        }
    }

    /// Ends a kernel; `packed` is how many items it has packed.
    pub(crate) fn publish(&self, packed: usize) {
        let entries = [READY, DEFERRED].map(|queue| self.queues[queue].entries() as u64);
        status::publish(self.status, self.report, packed as u64, entries);
    }

    pub(crate) fn outboxes(&self) -> &[QueueView<'a>] {
        &self.queues[OUTBOXES..]
    }

    /// The outboxes for a flag: the next device's, the owner's, or those of all other devices.
    pub(crate) fn targets(
        &self,
        item: u32,
        flags: Flags,
    ) -> std::result::Result<std::ops::Range<usize>, KernelFault> {
        match flags {
            Flags::Keep | Flags::Drop => Ok(0..0),
            Flags::Both if self.outboxes().is_empty() => Ok(0..0),
            _ if self.outboxes().is_empty() => Err(KernelFault::new(format!(
                "item {item} is passed on, but there is one device only"
            ))),
            _ if self.here.next.is_some() => Ok(0..1),
            Flags::Both => Ok(0..self.outboxes().len()),
            Flags::Pass => match self.program.owner(item) {
                Some(owner) if owner < self.here.devices && owner != self.here.device => {
                    let outbox = owner - usize::from(owner > self.here.device);
                    Ok(outbox..outbox + 1)
                }
                owner => {
                    let owner = owner.map_or("no device".into(), |owner| format!("device {owner}"));
                    Err(KernelFault::new(format!(
                        "device {} of {} passes item {item} on to its owner, {owner}",
                        self.here.device, self.here.devices
                    )))
                }
            },
        }
    }

    /// Checks that an item exists. GPUs do not check.
    fn check(&self, item: u32) -> KernelResult {
        let items = self.items;
        match (item as usize) < items {
            true => Ok(()),
            false => Err(KernelFault::new(format!(
                "item {item} is beyond the worklist's items, which are {items}"
            ))),
        }
    }

    /// Sends emitted items where their flags say.
    pub(crate) fn split_send(&self, emitted: &[(u32, Flags)], tally: &mut Tally) -> KernelResult {
        for &(item, flags) in emitted {
            self.check(item)?;
            if matches!(flags, Flags::Keep | Flags::Both) {
                tally.count(Counter::Produced, 1);
                self.keep(item, tally);
            }
            if matches!(flags, Flags::Keep | Flags::Drop) {
                continue;
            }
            for outbox in self.targets(item, flags)? {
                let is_new = self.post(outbox, item, tally);
                // Only the fault that the harness seeds leaves remote items to be counted later.
                if !seeded(Fault::CountAfterPublish) {
                    tally.count(Counter::Produced, 1);
                    tally.count(Counter::Consumed, u64::from(!is_new));
                }
            }
        }
        Ok(())
    }

    /// Queues an item for another device; `false` if it merged with one queued before.
    pub(crate) fn post(&self, outbox: usize, item: u32, tally: &mut Tally) -> bool {
        tally.news[outbox] = true;
        self.outboxes()[outbox].push(item)
    }

    /// Makes an item ready, or defers it; it may merge with one queued before.
    #[inline]
    pub(crate) fn keep(&self, item: u32, tally: &mut Tally) {
        if let Some(priority) = self.too_high(item) {
            return self.defer(item, priority, tally);
        }
        let is_new = self.queue(READY, item, tally);
        tally.count(Counter::Consumed, u64::from(!is_new));
    }

    /// The priority of an item, if it is above the threshold, so that the item has to wait.
    pub(crate) fn too_high(&self, item: u32) -> Option<u32> {
        if self.threshold == u32::MAX {
            return None;
        }
        let priority = self.program.priority(&self.problem, item);
        (priority > self.threshold).then_some(priority)
    }

    /// Defers an item, which may merge with one deferred before.
    pub(crate) fn defer(&self, item: u32, priority: u32, tally: &mut Tally) {
        let is_new = self.queue(DEFERRED, item, tally);
        tally.count(Counter::DeferredIn, is_new.into());
        tally.count(Counter::Consumed, u64::from(!is_new));
        let lowest = tally.lowest_deferred.get_or_insert(priority);
        *lowest = priority.min(*lowest);
    }

    /// Puts an item into a queue of this device; `false` if it is in the queue already. Its entry is added
    /// at the end of the block.
    #[inline]
    pub(crate) fn queue(&self, queue: usize, item: u32, tally: &mut Tally) -> bool {
        let is_new = self.queues[queue].mark(item);
        if is_new {
            tally.queued[queue].push(item);
        }
        is_new
    }

    /// Processes a block of items, some at a time: first takes all of these out of the queues, and queues
    /// what they emit last. In between, no atomic operation keeps the processor from fetching the values
    /// of some items while it works on others.
    pub(crate) fn process_items(&self, items: &[u32]) -> KernelResult {
        let (mut tally, mut filtered) = (self.tally(), 0);
        tally.queued[READY].reserve(items.len());
        let room = items.len().min(ITEMS_AT_ONCE);
        let (mut claimed, mut emitted) = (Vec::with_capacity(room), Vec::with_capacity(room));
        for some in items.chunks(ITEMS_AT_ONCE) {
            claimed.extend(some.iter().copied().filter(|&item| self.claim(item, &mut tally)));
            let mut emit = |item| {
                emitted.push((item, self.program.on_send(&self.problem, &self.here, item)));
            };
            let (problem, here) = (&self.problem, &self.here);
            self.program.process_block(problem, here, &claimed, &mut emit, &mut filtered);
            self.split_send(&emitted, &mut tally)?;
            let count = claimed.len() as u64;
            tally.count(Counter::WorkItems, count);
            tally.count(Counter::Consumed, count);
            claimed.clear();
            emitted.clear();
        }
        tally.count(Counter::Filtered, filtered);
        self.tell(&tally);
        Ok(())
    }

    /// Takes a ready item out of its queue; `false` if it is not in the queue any more.
    pub(crate) fn claim(&self, item: u32, tally: &mut Tally) -> bool {
        if !self.queues[READY].claim(item) {
            return false;
        }
        // If the item is also deferred, it is processed now, so it leaves deferral, before its value is
        // read. A plain load first: few items are deferred.
        if self.queues[DEFERRED].has(item) && self.queues[DEFERRED].claim(item) {
            tally.count(Counter::DeferredOut, 1);
            tally.count(Counter::Consumed, 1);
        }
        true
    }

    pub(crate) fn receive_packet(&self, packet: &P::Packet, tally: &mut Tally) -> KernelResult {
        let flags = self.program.on_receive(&self.problem, &self.here, packet);
        let item = self.program.unpack(&self.problem, &self.here, packet);
        self.check(item)?;
        // With direct routing, every device has been sent a copy of its own already.
        let passes = matches!(flags, Flags::Pass)
            || (matches!(flags, Flags::Both) && self.here.next.is_some());
        let keeps = matches!(flags, Flags::Keep | Flags::Both);
        let targets = if passes { self.targets(item, Flags::Pass)? } else { 0..0 };
        tally.count(Counter::Received, 1);
        tally.count(Counter::Kept, u64::from(keeps));
        tally.count(Counter::Passed, u64::from(passes));
        tally.count(Counter::Dropped, u64::from(!keeps && !passes));
        // The received item's own count passes to one of its successors.
        let successors = u64::from(keeps) + targets.len() as u64;
        tally.count(Counter::Produced, successors.saturating_sub(1));
        tally.count(Counter::Consumed, u64::from(successors == 0));
        if keeps {
            self.keep(item, tally);
        }
        for outbox in targets {
            let is_new = self.post(outbox, item, tally);
            tally.count(Counter::Consumed, u64::from(!is_new));
        }
        Ok(())
    }
}

/// What a block has counted and queued; added to the device's status and queues at the block's end.
pub(crate) struct Tally {
    pub(crate) counts: [u64; COUNTERS],
    /// Items that are new in the queues of ready and of deferred items.
    pub(crate) queued: [Vec<u32>; OUTBOXES],
    /// The lowest priority of an item that the block has deferred.
    pub(crate) lowest_deferred: Option<u32>,
    /// For each outbox, whether the block has put items into it.
    pub(crate) news: Vec<bool>,
}

impl Tally {
    #[inline]
    pub(crate) fn count(&mut self, counter: Counter, by: u64) {
        self.counts[counter as usize] += by;
    }
}
