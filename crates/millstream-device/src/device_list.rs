//! Device lists, as written on a command line.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::environment::variable;

/// Devices to open: a comma list of `host:4` (four host devices), `host:2x3`
/// (two, each as three virtual devices), `cuda:0`, `cuda:0-3`, `cuda:0x4` (one
/// GPU as four virtual devices); 32 devices at most.
///
/// ```
/// use millstream_device::DeviceList;
///
/// let list: DeviceList = "host:2x2".parse()?;
/// assert_eq!(list.len(), 4);
/// assert_eq!(list.to_string(), "host:2x2");
/// # Ok::<(), millstream_device::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceList {
    entries: Vec<Entry>,
}

/// Which driver a device belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    Host,
    Cuda,
}

/// Some devices of one driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) driver: Driver,
    /// First ordinal; always 0 for host devices, whose list gives a count.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// Virtual devices on each.
    pub(crate) virtual_devices: usize,
}

/// The last number that the driver could give a GPU: its numbers are C's `int`s.
const LAST_GPU: usize = i32::MAX as usize;

/// Twice as many as nodes have. If every device sends to every other, the number of links is the
/// square of this, each with packets of its own.
const MOST: usize = 32;

impl DeviceList {
    /// `count` host devices. None, and more than 32, are refused when they are opened.
    pub fn host(count: usize) -> DeviceList {
        let entry = Entry { driver: Driver::Host, first: 0, count, virtual_devices: 1 };
        DeviceList { entries: vec![entry] }
    }

    /// The first `count` GPUs. None, and more than 32, are refused when they are opened.
    pub fn cuda(count: usize) -> DeviceList {
        let entry = Entry { driver: Driver::Cuda, first: 0, count, virtual_devices: 1 };
        DeviceList { entries: vec![entry] }
    }

    /// The devices that `MILLSTREAM_DEVICES` names. If it is unset or empty: every GPU, or four
    /// host devices if there is no GPU.
    ///
    /// # Errors
    /// A value of `MILLSTREAM_DEVICES` that cannot be read.
    pub fn available() -> Result<DeviceList, Error> {
        DeviceList::available_or_fault().map(|(list, _)| list)
    }

    /// As [`DeviceList::available`], with the reason why existing GPUs are not in the list, if there are any.
    pub(crate) fn available_or_fault() -> Result<(DeviceList, Option<Error>), Error> {
        const VARIABLE: &str = "MILLSTREAM_DEVICES";
        let Some(list) = variable(VARIABLE) else {
            return Ok(match crate::gpu_count() {
                0 => (DeviceList::host(4), crate::gpu_fault()),
                count => (DeviceList::cuda(count), None),
            });
        };
        let list = list.to_string_lossy().parse().map_err(|error| match error {
            Error::DeviceList { list, reason } => {
                Error::DeviceList { list: format!("{VARIABLE}={list}"), reason }
            }
            other => other,
        })?;
        Ok((list, None))
    }

    /// Devices in the list, virtual ones counted each.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|entry| entry.count * entry.virtual_devices).sum()
    }

    /// Whether the list names no device.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `count` devices of the list, or all of them if it has fewer;
    /// virtual devices count each.
    ///
    /// ```
    /// use millstream_device::DeviceList;
    ///
    /// let list: DeviceList = "cuda:0-1x2,host:1".parse()?;
    /// assert_eq!(list.first(3).to_string(), "cuda:0x2,cuda:1");
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    #[must_use]
    pub fn first(&self, count: usize) -> DeviceList {
        let mut left = count;
        let mut entries = Vec::new();
        for &entry in &self.entries {
            let whole = entry.count.min(left / entry.virtual_devices);
            left -= whole * entry.virtual_devices;
            entries.push(Entry { count: whole, ..entry });
            // The remainder: some of the virtual devices of the next GPU.
            let next = usize::from(whole < entry.count);
            let part = next * left;
            left -= part;
            let first = match entry.driver {
                Driver::Host => 0,
                Driver::Cuda => entry.first + whole,
            };
            entries.push(Entry { first, count: next, virtual_devices: part, ..entry });
        }
        entries.retain(|entry| entry.count * entry.virtual_devices > 0);
        DeviceList { entries }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl fmt::Display for DeviceList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, entry) in self.entries.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            match entry.driver {
                Driver::Host => write!(formatter, "{comma}host:{}", entry.count)?,
                Driver::Cuda => write!(formatter, "{comma}cuda:{}", entry.first)?,
            }
            if entry.driver == Driver::Cuda && entry.count > 1 {
                write!(formatter, "-{}", entry.first + entry.count - 1)?;
            }
            if entry.virtual_devices > 1 {
                write!(formatter, "x{}", entry.virtual_devices)?;
            }
        }
        Ok(())
    }
}

impl FromStr for DeviceList {
    type Err = Error;

    fn from_str(list: &str) -> Result<DeviceList, Error> {
        let fault = |reason: String| Error::DeviceList { list: list.to_string(), reason };
        let entries = list.split(',').map(|entry| parse_entry(entry.trim()));
        let entries = entries.collect::<Result<Vec<_>, String>>().map_err(fault)?;
        let list = DeviceList { entries };
        if let Some(gpu) = list.gpu_named_twice() {
            return Err(fault(format!(
                "it names cuda:{gpu} twice; two virtual devices of it are cuda:{gpu}x2"
            )));
        }
        list.check_length().map_err(fault)?;
        Ok(list)
    }
}

impl DeviceList {
    /// Whether there are few enough devices to open: a program may ask for any number.
    ///
    /// # Errors
    /// [`Error::DeviceList`] if not.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let fault = |reason| Error::DeviceList { list: self.to_string(), reason };
        self.check_length().map_err(fault)
    }

    fn check_length(&self) -> Result<(), String> {
        match self.len() {
            0 => Err("it has no device".to_string()),
            1..=MOST => Ok(()),
            len => Err(format!("{len} devices are more than {MOST}")),
        }
    }

    fn gpu_named_twice(&self) -> Option<usize> {
        let gpus = self.entries.iter().filter(|entry| entry.driver == Driver::Cuda);
        let mut seen = HashSet::new();
        gpus.flat_map(|entry| entry.first..entry.first + entry.count).find(|gpu| !seen.insert(*gpu))
    }
}

/// What an entry may look like.
const FORMS: &str = "host:4, host:2x3, cuda:0, cuda:0-3 or cuda:0x4";

fn parse_entry(entry: &str) -> Result<Entry, String> {
    let wrong = || format!("{entry:?} is not of a form like {FORMS}");
    let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
    let (driver, rest) = entry.split_once(':').ok_or_else(wrong)?;
    let (devices, virtual_devices) = match rest.split_once('x') {
        Some((devices, count)) => (devices, number(count)?),
        None => (rest, 1),
    };
    let (driver, first, count) = match driver {
        "host" => (Driver::Host, 0, number(devices)?),
        "cuda" => match devices.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                let empty = || format!("{entry:?} ends before it begins");
                (Driver::Cuda, first, last.checked_sub(first).ok_or_else(empty)?.saturating_add(1))
            }
            None => (Driver::Cuda, number(devices)?, 1),
        },
        _ => return Err(format!("{entry:?} names neither host nor cuda, as {FORMS} do")),
    };
    if count == 0 || virtual_devices == 0 {
        return Err(format!("{entry:?} names no device: in host:4 and x4 the number is how many"));
    }
    if count > MOST || virtual_devices > MOST {
        return Err(format!("{entry:?} names more than {MOST} devices"));
    }
    // The last number is less than `first + MOST`: the count is small.
    if first > LAST_GPU - MOST {
        return Err(format!("{entry:?} names a GPU that no machine has"));
    }
    Ok(Entry { driver, first, count, virtual_devices })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        for (list, len) in [
            ("host:4", 4),
            ("host:2x3", 6),
            ("cuda:0", 1),
            ("cuda:1-3", 3),
            ("cuda:0x4", 4),
            ("cuda:0,host:1", 2),
        ] {
            let parsed: DeviceList = list.parse().unwrap();
            assert_eq!((parsed.len(), parsed.to_string().as_str()), (len, list));
        }
    }

    #[test]
    fn lists_are_cut_short() {
        for (list, count, first) in [
            ("host:4", 2, "host:2"),
            ("host:4", 9, "host:4"),
            ("host:2x3", 4, "host:1x3,host:1"),
            ("cuda:4-7", 3, "cuda:4-6"),
            ("cuda:2x4", 2, "cuda:2x2"),
            ("cuda:0,host:2", 2, "cuda:0,host:1"),
            ("cuda:0-1x3,host:2", 5, "cuda:0x3,cuda:1x2"),
        ] {
            let list: DeviceList = list.parse().unwrap();
            let short = list.first(count);
            assert_eq!((short.len(), short.to_string().as_str()), (count.min(list.len()), first));
        }
        assert!(DeviceList::host(2).first(0).is_empty());
    }

    #[test]
    fn bad_lists_say_why() {
        for (list, reason) in [
            ("", "\"\" is not of a form like host:4, host:2x3, cuda:0, cuda:0-3 or cuda:0x4"),
            ("host", "\"host\" is not of a form"),
            ("host:", "\"host:\" is not of a form"),
            ("cuda:0, host:x", "\"host:x\" is not of a form"),
            ("cuda:0-", "\"cuda:0-\" is not of a form"),
            ("cuda:0x", "\"cuda:0x\" is not of a form"),
            ("host:99999999999999999999", "\"host:99999999999999999999\" is not of a form"),
            ("host:0", "no device"),
            ("host:1x0", "no device"),
            ("cuda:3-1", "\"cuda:3-1\" ends before it begins"),
            ("opencl:0", "\"opencl:0\" names neither host nor cuda"),
            ("host:33", "more than 32"),
            ("cuda:0,host:1,cuda:0", "names cuda:0 twice; two virtual devices of it are cuda:0x2"),
            ("cuda:0-3,cuda:2x2", "cuda:2 twice"),
            ("host:40x40", "more than"),
            ("cuda:2147483647", "\"cuda:2147483647\" names a GPU that no machine has"),
            ("cuda:18446744073709551615", "names a GPU that no machine has"),
            ("cuda:18446744073709551614-18446744073709551615x2", "names a GPU that no machine"),
            ("cuda:0-18446744073709551615", "more than 32"),
        ] {
            let error = list.parse::<DeviceList>().unwrap_err().to_string();
            assert!(error.contains(reason), "{list:?}: {error}");
        }
    }
}
