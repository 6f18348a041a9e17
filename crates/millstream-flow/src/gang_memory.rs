//! The memory in which a gang's kernels meet, and in which each of them reports to the host.

use std::time::Duration;

use millstream_device::{Device, Error as DeviceError, SharedBuffer, patience_ns};

use crate::{Context, Error, Gang, Result};

/// Offsets of the words of `GangBarrier` that tell where it stands: places taken; what was sent to
/// each device; what the first block saw when it last arrived (two counters, the largest number
/// offered, all devices' places, what is kept, and rounds); and each device's tally, which begins
/// with three words of arrivals that rounds use in turn.
const TAKEN: usize = 17;
const SENT: usize = 37;
const STANDING: usize = 48;
const KEPT: usize = STANDING + 4;
const MET: usize = KEPT + 5;
const TALLIES: usize = 64;
const TALLY_WORDS: usize = 32;
const TURNS: u64 = 3;
/// The bits from here on of a word of arrivals tell whether all blocks of the device have arrived.
const ALL_SHIFT: u32 = 56;

/// Memory of one device for kernels that meet in the gang's barrier (`gang_barrier.cuh`). Twins of
/// host devices do not meet by these words; for a host device, the words are in the host's memory,
/// so that host code can look at them.
///
/// ```
/// use std::time::Duration;
///
/// use millstream_flow::{Context, Devices, GangMemory};
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let memory = GangMemory::of_all(&context, 32, 3, Duration::from_secs(1))?;
/// assert_eq!(memory.len(), 2);
/// assert_eq!(memory[0].words.len(), GangMemory::BARRIER_WORDS + 32);
/// assert_eq!(memory[1].report.load(2)?, 0);
/// # Ok::<(), millstream_flow::Error>(())
/// ```
#[derive(Debug)]
pub struct GangMemory {
    /// The words of the barrier, followed by those of the kernel. All are 0 at first.
    pub words: SharedBuffer<u64>,
    /// What the kernel writes at its end, in the host's memory. Its first word is not 0 if the gang
    /// was stopped: see [`GangMemory::check`].
    pub report: SharedBuffer<u64>,
    /// Whose memory it is.
    pub device: Device,
    patience: Duration,
}

impl GangMemory {
    /// Words that the barrier may take on a device; it uses no more than that.
    pub const BARRIER_WORDS: usize = 512;

    /// Memory for each device of a context: `words` more words than the barrier takes, and a report
    /// of `reported` words. The kernels wait for each other for at most `patience`. This
    /// [wakes the links](Context::wake_links).
    ///
    /// # Errors
    /// More devices than [a gang has](Gang::MOST); no memory, or a failed device.
    pub fn of_all(
        context: &Context,
        words: usize,
        reported: usize,
        patience: Duration,
    ) -> Result<Vec<GangMemory>> {
        let devices = context.devices().len();
        if devices > Gang::MOST {
            return Err(Error::NotAGang { devices });
        }
        context.wake_links()?;
        let of = |device: &Device| {
            let owner = if device.is_gpu() { device } else { context.host() };
            Ok(GangMemory {
                words: owner.shared(GangMemory::BARRIER_WORDS.saturating_add(words))?,
                report: context.host().shared(reported)?,
                device: device.clone(),
                patience,
            })
        };
        context.devices().iter().map(of).collect()
    }

    /// The patience in nanoseconds, as kernels take it.
    pub fn patience_ns(&self) -> u64 {
        patience_ns(self.patience)
    }

    /// Fails if a kernel of a gang reports that it was stopped: see [`GangMemory::not_met`].
    ///
    /// # Errors
    /// The devices have not met within their patience; a failed device.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Device ordering
    /// To be called when the gang has run.
    pub async fn check(all: &[&GangMemory], kernel: &str, known: &[(&str, usize)]) -> Result<()> {
        for gang in all {
            if gang.report.load(0)? != 0 {
                return Err(gang.not_met(all, kernel, known).await);
            }
        }
        Ok(())
    }

    /// Why a gang that was stopped on this device has failed. The error names the device that has
    /// not come, if there is one, and says where `all` devices stand: by the barrier's words, and
    /// by those words of their reports that `known` names.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Device ordering
    /// To be called when the gang has run.
    pub async fn not_met(
        &self,
        all: &[&GangMemory],
        kernel: &str,
        known: &[(&str, usize)],
    ) -> Error {
        let mut message = format!("the devices have not met for {:?}", self.patience);
        // How often each device has arrived, as far as this one knows.
        let mut come = Vec::new();
        for its in all {
            match its.standing(known, all.len()).await {
                Ok((standing, has_seen)) => {
                    message += &standing;
                    if its.device == self.device {
                        come = has_seen;
                    }
                }
                Err(error) => return error,
            }
        }
        // When one device gives up, all stop, and late ones still arrive: a device is certainly to
        // blame only if it has arrived less often than this one.
        let own = all.iter().zip(&come).find(|(its, _)| its.device == self.device);
        let own = own.map_or(0, |(_, come)| *come);
        let late = all.iter().zip(&come).find(|(_, come)| **come < own).map(|(its, _)| its);
        let (kernel, device) = (kernel.into(), late.map_or(self, |its| its).device.name());
        DeviceError::KernelFailed { kernel, device, message: message.into() }.into()
    }

    /// Where this one of `devices` devices stands, as text to append to an error; and how often
    /// each device has arrived, by this one's words.
    async fn standing(
        &self,
        known: &[(&str, usize)],
        devices: usize,
    ) -> Result<(String, Vec<u64>)> {
        let words = TALLIES + devices * TALLY_WORDS;
        let words = self.device.stream()?.download_shared(&self.words, 0..words)?.await?;
        let mut text = format!("; {}: ", self.device);
        for (name, word) in known {
            text += &format!("{name} {}, ", self.report.load(*word)?);
        }
        let tallies = words[TALLIES..].chunks(TALLY_WORDS);
        let (counts, kept) = (&words[STANDING..STANDING + 2], &words[KEPT..MET]);
        let (met, places, sent) = (words[MET], words[TAKEN], &words[SENT..SENT + devices]);
        // The first block last arrived after `met` rounds; others may have arrived once more.
        let all = |tally: &[u64], round: u64| tally[(round % TURNS) as usize] >> ALL_SHIFT;
        let come = |tally: &[u64]| met + all(tally, met) + all(tally, met + 1);
        let come: Vec<_> = tallies.map(come).collect();
        text += &format!("met {met} times, the devices came {come:?} times, {places} places, ");
        text += &format!("counts {counts:?}, kept {kept:?}, sent {sent:?}");
        Ok((text, come))
    }
}
