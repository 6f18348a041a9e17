//! A block on a thread of the operating system; its threads are coroutines.
//!
//! A coroutine runs until it waits for others, or for a random number of atomic
//! operations; then another one runs, mostly the one that could longest, for a while the one
//! that could last.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Instant;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::addresses::table;
use crate::execute::{Fault, Launch};
use crate::stacks::{SmallStack, give_back, take};
use crate::turns::Turn;
use crate::warp::{State, Values, Wait, meet};

/// Atomic operations of a thread before others run, at most.
const MOST_STEPS: u64 = 48;

/// Times that threads of a block run before other blocks do, at most.
const MOST_RUNS: u32 = 4096;

/// How much slower the devices' clock is than the host's.
const SLOWNESS: u128 = 50;
/// Barriers of a block.
const BARRIERS: usize = 16;

/// Where a thread stands, as threads.hpp reads it.
#[repr(C)]
pub(crate) struct Thread {
    thread: [u32; 3],
    block: [u32; 3],
    threads: [u32; 3],
    grid: [u32; 3],
}

/// What threads.hpp calls.
#[repr(C)]
pub(crate) struct Hooks {
    step: extern "C" fn() -> u32,
    exchange: extern "C" fn(u32, u32, u64, *mut Values),
    barrier: extern "C" fn(u32, u32, u32) -> u32,
    time: extern "C" fn() -> u64,
    trap: extern "C" fn(),
    multiprocessors: extern "C" fn() -> u32,
    table: extern "C" fn() -> *const AtomicU16,
    stray: extern "C" fn(u64, u32),
}

pub(crate) static HOOKS: Hooks =
    Hooks { step, exchange, barrier, time, trap, multiprocessors, table, stray };

struct Fiber {
    coroutine: Option<Coroutine<(), (), (), SmallStack>>,
    yielder: *const Yielder<(), ()>,
}

/// Who is at a barrier.
#[derive(Clone, Copy, Default)]
struct Barrier {
    /// How many it waits for; 0: all that have not ended.
    threads: u32,
    arrived: u32,
    /// How many of them say so.
    say_so: u32,
}

/// A block that runs on this thread.
struct Block {
    fibers: Vec<Fiber>,
    states: Vec<State>,
    /// Lanes of each warp that are in an operation, or have ended.
    arrived: Vec<u32>,
    barriers: [Barrier; BARRIERS],
    /// Threads that have not ended.
    alive: u32,
    /// Threads that can run.
    ready: VecDeque<usize>,
    /// Whether the last of them runs next.
    backwards: bool,
    current: usize,
    random: u64,
    fault: Option<String>,
}

thread_local! {
    static BLOCK: Cell<*mut Block> = const { Cell::new(std::ptr::null_mut()) };
}

/// Runs one block to its end.
///
/// # Errors
/// See [`crate::execute::run`].
pub(crate) fn run(
    launch: &Launch,
    place: [u32; 3],
    seed: u64,
    stop: &AtomicBool,
) -> Result<(), Fault> {
    let [x, y, z] = launch.threads;
    let threads: Vec<Thread> = (0..x * y * z)
        .map(|at| Thread {
            thread: [at % x, at / x % y, at / x / y],
            block: place,
            threads: launch.threads,
            grid: launch.grid,
        })
        .collect();
    let mut block = Block {
        fibers: Vec::with_capacity(threads.len()),
        states: vec![State::default(); threads.len()],
        arrived: missing_lanes(threads.len()),
        barriers: [Barrier::default(); BARRIERS],
        alive: threads.len() as u32,
        ready: (0..threads.len()).collect(),
        backwards: seed.is_multiple_of(2),
        current: 0,
        random: seed | 1,
        fault: None,
    };
    for thread in &threads {
        block.fibers.push(fiber(launch, thread)?);
    }
    launch.kernel.begin();
    // From here on the block is used through this pointer alone, by one coroutine at a time.
    let block: *mut Block = &mut block;
    BLOCK.set(block);
    let result = schedule(block, stop);
    BLOCK.set(std::ptr::null_mut());
    // SAFETY: no coroutine runs any more.
    let block = unsafe { &mut *block };
    let mut are_whole = true;
    for mut coroutine in block.fibers.drain(..).filter_map(|fiber| fiber.coroutine) {
        if !coroutine.done() {
            // SAFETY: kernels own nothing that would have to be dropped.
            unsafe { coroutine.force_reset() };
        }
        are_whole &= give_back(coroutine.into_stack());
    }
    let result = result.and_then(|()| match are_whole {
        true => Ok(()),
        false => Err(Fault("a thread's stack was too small".to_string())),
    });
    result.map_err(|fault| Fault(format!("{}, block {place:?}: {}", launch.kernel.name, fault.0)))
}

/// For each warp, the lanes that it does not have.
fn missing_lanes(threads: usize) -> Vec<u32> {
    let lanes = (0..threads).step_by(32).map(|first| (threads - first).min(32));
    lanes.map(|lanes| u32::MAX.checked_shl(lanes as u32).unwrap_or(0)).collect()
}

fn fiber(launch: &Launch, thread: &Thread) -> Result<Fiber, Fault> {
    let (launch, thread): (*const Launch, *const Thread) = (launch, thread);
    let coroutine = Coroutine::with_stack(take()?, move |yielder: &Yielder<(), ()>, ()| {
        with_block(|block| {
            let current = block.current;
            block.fibers[current].yielder = yielder;
        });
        // SAFETY: both outlive the coroutines of `run`.
        let (launch, thread) = unsafe { (&*launch, &*thread) };
        // SAFETY: the arguments of the launch are laid out for its kernel.
        unsafe { launch.kernel.call(&launch.arguments, thread) };
    });
    Ok(Fiber { coroutine: Some(coroutine), yielder: std::ptr::null() })
}

/// Runs threads until all have ended.
fn schedule(block: *mut Block, stop: &AtomicBool) -> Result<(), Fault> {
    let turn = Turn::wait();
    let (mut without_wait, mut ran) = (0, 0);
    loop {
        ran += 1;
        if ran == MOST_RUNS {
            ran = 0;
            turn.pass();
        }
        // SAFETY: between coroutines nobody else has a reference; so below.
        let state = unsafe { &mut *block };
        let Some(next) = state.next() else {
            return match state.alive {
                0 => Ok(()),
                _ => Err(Fault(state.describe_waits())),
            };
        };
        state.current = next;
        let Some(mut coroutine) = state.fibers[next].coroutine.take() else { continue };
        let result = coroutine.resume(());
        // SAFETY: as above; the coroutine is suspended.
        let state = unsafe { &mut *block };
        state.fibers[next].coroutine = Some(coroutine);
        if let Some(fault) = state.fault.take() {
            return Err(Fault(fault));
        }
        match result {
            CoroutineResult::Return(()) => state.end(next),
            CoroutineResult::Yield(()) if state.states[next].wait.is_none() => {
                state.ready.push_back(next);
                without_wait += 1;
                if without_wait < state.ready.len() {
                    continue;
                }
                // All of them may be waiting for another block.
                ran = 0;
                turn.pass();
            }
            CoroutineResult::Yield(()) => {}
        }
        without_wait = 0;
        // Relaxed: whether a device goes on orders nothing.
        if stop.load(Ordering::Relaxed) {
            return Err(Fault("stopped".to_string()));
        }
    }
}

impl Block {
    fn random(&mut self) -> u64 {
        // Xorshift: any numbers will do.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Who runs next: mostly the first or, at times, the last that became able to.
    fn next(&mut self) -> Option<usize> {
        let number = self.random();
        if number.is_multiple_of(64) {
            self.backwards = !self.backwards;
        }
        if !self.ready.is_empty() && number.is_multiple_of(8) {
            let other = (number >> 8) as usize % self.ready.len();
            self.ready.swap(0, other);
        }
        if self.backwards { self.ready.pop_back() } else { self.ready.pop_front() }
    }

    /// A thread has ended: others may have waited for it alone.
    fn end(&mut self, thread: usize) {
        self.states[thread].has_ended = true;
        self.arrived[thread / 32] |= 1 << (thread % 32);
        self.alive -= 1;
        for lane in self.warp_of(thread) {
            self.meet(lane);
        }
        for barrier in 0..BARRIERS {
            self.pass(barrier);
        }
    }

    fn warp_of(&self, thread: usize) -> std::ops::Range<usize> {
        let first = thread / 32 * 32;
        first..self.states.len().min(first + 32)
    }

    /// Lets the lanes that `thread` waits for go on, if all are there.
    fn meet(&mut self, thread: usize) {
        let Some(Wait::Lanes { mask, operation, .. }) = self.states[thread].wait else { return };
        let lanes = self.warp_of(thread);
        let first = lanes.start;
        if self.arrived[thread / 32] & mask != mask {
            return;
        }
        let Some(met) = meet(&self.states[lanes.clone()], mask, operation) else { return };
        for lane in lanes.filter(|lane| mask >> (lane - first) & 1 == 1) {
            if let Some(Wait::Lanes { values, .. }) = self.states[lane].wait.take() {
                // SAFETY: on the stack of a coroutine that waits.
                unsafe { *values = met };
                self.arrived[thread / 32] &= !(1 << (lane - first));
                self.wake(lane);
            }
        }
    }

    /// Lets the threads at a barrier go on, if all are there.
    fn pass(&mut self, which: usize) {
        let Barrier { threads, arrived, say_so } = self.barriers[which];
        if arrived == 0 || arrived < if threads == 0 { self.alive } else { threads } {
            return;
        }
        self.barriers[which] = Barrier::default();
        for thread in 0..self.states.len() {
            if self.states[thread].wait == Some(Wait::Barrier(which)) {
                self.states[thread].wait = None;
                self.states[thread].answer = say_so;
                self.wake(thread);
            }
        }
    }

    /// A thread need not wait any more. The one that runs just goes on.
    fn wake(&mut self, thread: usize) {
        if thread != self.current {
            self.ready.push_back(thread);
        }
    }

    fn describe_waits(&self) -> String {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (thread, state) in self.states.iter().enumerate() {
            let Some(wait) = state.wait else { continue };
            let wait = wait.to_string();
            match groups.iter_mut().find(|(other, _)| *other == wait) {
                Some((_, threads)) => threads.push(thread),
                None => groups.push((wait, vec![thread])),
            }
        }
        let ended = self.states.len() - self.alive as usize;
        format!("threads wait for each other for ever; {ended} have ended; {groups:?}")
    }
}

/// What a hook does with the block that its thread runs.
fn with_block<R>(act: impl FnOnce(&mut Block) -> R) -> R {
    // SAFETY: hooks are called by coroutines of the block that this thread runs, one at a
    // time, and the scheduler holds no reference meanwhile.
    act(unsafe { &mut *BLOCK.get() })
}

/// Lets the scheduler choose who runs next.
fn suspend() {
    let yielder = with_block(|block| block.fibers[block.current].yielder);
    // SAFETY: of the coroutine that runs, which lives.
    unsafe { &*yielder }.suspend(());
}

extern "C" fn step() -> u32 {
    suspend();
    with_block(|block| (block.random() % MOST_STEPS) as u32)
}

extern "C" fn exchange(mask: u32, operation: u32, value: u64, values: *mut Values) {
    let must_wait = with_block(|block| {
        let current = block.current;
        block.states[current].wait = Some(Wait::Lanes { mask, operation, value, values });
        block.arrived[current / 32] |= 1 << (current % 32);
        block.meet(current);
        block.states[current].wait.is_some()
    });
    if must_wait {
        suspend();
    }
}

extern "C" fn barrier(which: u32, threads: u32, says_so: u32) -> u32 {
    let which = which as usize % BARRIERS;
    let must_wait = with_block(|block| {
        let current = block.current;
        block.states[current].wait = Some(Wait::Barrier(which));
        let barrier = &mut block.barriers[which];
        barrier.threads = threads;
        barrier.arrived += 1;
        barrier.say_so += says_so;
        block.pass(which);
        block.states[current].wait.is_some()
    });
    if must_wait {
        suspend();
    }
    with_block(|block| block.states[block.current].answer)
}

/// The devices' clock is slow, as they are: kernels wait as patiently for each other.
extern "C" fn time() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    1_000_000_000 + (START.elapsed().as_nanos() / SLOWNESS) as u64
}

extern "C" fn trap() {
    with_block(|block| block.fault = Some("a trap".to_string()));
    suspend();
}

extern "C" fn stray(address: u64, bytes: u32) {
    with_block(|block| {
        let thread = block.current;
        let text = format!("thread {thread} uses {bytes} bytes at {address:#x}, outside of memory");
        block.fault = Some(text);
    });
    suspend();
}

extern "C" fn multiprocessors() -> u32 {
    crate::driver::multiprocessors()
}
