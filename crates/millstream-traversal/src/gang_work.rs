//! What the devices that search a graph together have done, by a gang's kernels or their twins.

use millstream_device::Device;
use millstream_flow::{GangMemory, LinkStatistics};
use millstream_worklist::{DeviceStatistics, WorklistStatistics};

use crate::Result;
use crate::gang_place::GangPlace;

/// Words of a report, in the order of `GangDevice` in `gang_device.cuh`.
#[derive(Clone, Copy)]
enum Reported {
    /// Word 0 says whether the gang was stopped.
    Visited = 1,
    Received,
    Kept,
    Place,
    Sent,
}

/// What one device has done in a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangWork {
    /// Vertices visited.
    pub visited: u64,
    /// Items that came from other devices.
    pub received: u64,
    /// Received items that were news.
    pub kept: u64,
    /// Items sent to each device.
    pub sent: [u64; GangPlace::MOST],
    /// Words of 32 bits stored in every other device's memory.
    pub published: u64,
}

impl GangWork {
    /// Words of a GPU's report that all searches have; a search's own words follow.
    pub const REPORT_WORDS: usize = Reported::Sent as usize + GangPlace::MOST;

    /// What GPUs report of a search by `kernel`. `place` is what errors call a point of its course: a
    /// level, say.
    ///
    /// # Errors
    /// The devices did not meet within their patience; a failed device.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn reported(
        gangs: &[&GangMemory],
        kernel: &str,
        place: &str,
    ) -> Result<Vec<GangWork>> {
        let known = [
            (place, Reported::Place),
            ("visited", Reported::Visited),
            ("received", Reported::Received),
            ("kept", Reported::Kept),
        ];
        let known = known.map(|(name, word)| (name, word as usize));
        GangMemory::check(gangs, kernel, &known).await?;
        let reported = |gang: &&GangMemory| {
            let word = |word: Reported| gang.report.load(word as usize);
            let mut work = GangWork {
                visited: word(Reported::Visited)?,
                received: word(Reported::Received)?,
                kept: word(Reported::Kept)?,
                ..GangWork::default()
            };
            for (to, sent) in work.sent.iter_mut().enumerate() {
                *sent = gang.report.load(Reported::Sent as usize + to)?;
            }
            Ok(work)
        };
        gangs.iter().map(reported).collect()
    }

    /// The statistics of a search in which each of `devices` has done its entry of `all`; an item
    /// takes `item_bytes`.
    pub fn statistics(all: &[GangWork], devices: &[Device], item_bytes: u64) -> WorklistStatistics {
        let mut run = WorklistStatistics::default();
        for (place, (its, from)) in all.iter().zip(devices).enumerate() {
            let mut device = DeviceStatistics::default();
            device.work_items = its.visited;
            device.sent = its.sent.iter().sum();
            (device.received, device.kept) = (its.received, its.kept);
            device.dropped = its.received - its.kept;
            run.devices.push(device);
            for (to, device) in devices.iter().enumerate().filter(|(to, _)| *to != place) {
                let link = LinkStatistics::new(from.name(), device.name());
                let words = size_of::<u32>() as u64;
                run.links.push(link.pushed(its.sent[to], item_bytes).pushed(its.published, words));
            }
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use millstream_flow::{Context, Devices};

    use super::*;

    #[test]
    fn links_have_items_and_words() {
        let context = Context::builder().devices(Devices::host(2)).build().unwrap();
        let mut work = [GangWork::default(), GangWork::default()];
        (work[0].sent[1], work[0].published) = (3, 2);
        (work[1].visited, work[1].received, work[1].kept) = (9, 3, 1);
        let statistics = GangWork::statistics(&work, context.devices(), 8);
        let link = &statistics.links[0];
        assert_eq!((link.from.as_str(), link.to.as_str()), ("host:0", "host:1"));
        assert_eq!((link.packets, link.packets_pushed, link.bytes), (5, 5, 32));
        assert_eq!(link.largest_packet_bytes, 8);
        assert_eq!((statistics.links[1].packets, statistics.links[1].largest_packet_bytes), (0, 0));
        let [first, second] = &statistics.devices[..] else { panic!("two devices") };
        assert_eq!((first.sent, second.sent), (3, 0));
        assert_eq!((second.work_items, second.received, second.dropped), (9, 3, 2));
    }
}
