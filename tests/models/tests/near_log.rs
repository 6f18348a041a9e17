//! The log of a search by near and far piles, step by step as in `NearFarSearch::take_share` and
//! `NearFarDevice::list` (`crates/millstream-traversal/src/near_far.cuh`, `near_far_device.cuh`),
//! under every interleaving: two blocks take a share each, and put what they find into places that
//! come again.
//!
//! | here | there |
//! |---|---|
//! | `Block::take_share` | `take_share`, after a tally |
//! | `Block::list` | `list`, where there is no room in the block |
//!
//! A block is one thread. An item is the number that it has in the log, so that whoever reads
//! another's sees it.

#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    /// Places of a share are free as soon as this block has taken its part.
    FreeWhenTaken,
}

const PLACES: u32 = 3;
/// In the log when the blocks meet: one for each.
const ITEMS: u32 = 2;

struct Device {
    log: [AtomicU32; PLACES as usize],
    taken: AtomicU32,
}

struct Block {
    device: Arc<Device>,
    mark: u32,
    read: u32,
}

impl Block {
    fn take_share(&mut self, place: u32) {
        let at = self.mark + place;
        let item = self.device.log[(at % PLACES) as usize].load(Ordering::Relaxed);
        assert_eq!(item, at, "another's item");
        self.read = self.mark;
        self.mark += ITEMS;
    }

    /// Where the item is, if there is room for it.
    fn list(&self) -> Option<u32> {
        let at = self.device.taken.fetch_add(1, Ordering::Relaxed);
        let begin = if is_seeded(Fault::FreeWhenTaken as usize) { self.mark } else { self.read };
        if at - begin >= PLACES {
            return None;
        }
        self.device.log[(at % PLACES) as usize].store(at, Ordering::Relaxed);
        Some(at)
    }
}

fn two_blocks() {
    let log = [AtomicU32::new(0), AtomicU32::new(1), AtomicU32::new(9)];
    let device = Arc::new(Device { log, taken: AtomicU32::new(ITEMS) });
    let run = |place: u32| {
        let device = Arc::clone(&device);
        move || {
            let mut block = Block { device, mark: 0, read: 0 };
            block.take_share(place);
            block.list()
        }
    };
    let other = thread::spawn(run(1));
    let mut listed = [run(0)(), other.join().unwrap()];
    listed.sort();
    // One has room; the other ends the search.
    assert_eq!(listed, [None, Some(ITEMS)]);
    let item = device.log[(ITEMS % PLACES) as usize].load(Ordering::Relaxed);
    assert_eq!(item, ITEMS);
}

#[test]
fn shares_are_read_before_their_places_come_again() {
    holds(two_blocks);
}

#[test]
fn a_share_that_is_free_too_early_is_caught() {
    fails_with(Fault::FreeWhenTaken as usize, two_blocks);
}
