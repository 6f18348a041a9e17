//! Items of the program that a device reads where they lie.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::Pod;

use crate::block::Block;
use crate::device::{Device, DevicePlace};
use crate::host_data::HostData;
use crate::ledger::AccessKind;
use crate::memory::{Allocation, DeviceBuffer};
use crate::parameter::Accesses;
use crate::stream::Stream;
use crate::task::Task;
use crate::{Error, Result};

impl Stream {
    /// A buffer of this stream's device with these items, which nothing can write from then on. On a host
    /// device, if there are no GPUs beside it, it is the items themselves, for as long as the buffer or an
    /// operation holds them; else a copy ([`Stream::uploaded`]). It counts against the device's budget in
    /// either case, and other streams have to wait for this one before they use it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use millstream_device::{DeviceList, DeviceSet, Error};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let stream = set.devices()[0].stream()?;
    /// let items: Arc<[u32]> = Arc::new([1, 2, 3]);
    /// let mut buffer = stream.lent(Arc::clone(&items))?;
    /// assert_eq!(set.block_on(stream.download(&buffer)?)??, [1, 2, 3]);
    /// assert!(matches!(stream.fill(&mut buffer, 0), Err(Error::Lent { .. })));
    /// assert_eq!(items[..], [1, 2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::uploaded`].
    pub fn lent<T: Pod + Send + Sync>(
        &self,
        data: impl Into<HostData<T>>,
    ) -> Result<DeviceBuffer<T>> {
        let (data, device) = (data.into(), self.device());
        let buffer = match &device.core.place {
            DevicePlace::Host if device.core.host_memory.is_heap() => {
                let len = data.len();
                let buffer = DeviceBuffer::of(Arc::new(Allocation::lent(device, data)?), len);
                // Nothing is copied, but the order must be the same as if it were: whoever would
                // wait for the copy waits.
                let mut accesses = Accesses::of([buffer.allocation().access(AccessKind::Write)]);
                self.submit("lend", &mut accesses, Task::Signal(Vec::new()))?;
                buffer
            }
            // GPUs reach pinned memory only.
            _ => self.uploaded(data)?,
        };
        // Relaxed: nobody else has the buffer yet.
        buffer.allocation().is_lent.store(true, Ordering::Relaxed);
        Ok(buffer)
    }
}

impl Allocation {
    /// Items of the program's, as memory of a host device.
    fn lent<T: Pod + Send + Sync>(device: &Device, data: HostData<T>) -> Result<Allocation> {
        let core = &device.core;
        core.faults.check("allocate", core.name())?;
        let items = data.items();
        let (address, bytes) = (items.as_ptr().expose_provenance(), size_of_val(items) as u64);
        let counted = core.reserve(bytes)?;
        // The items stay where they are: while this holds the owner, nobody can change it or take it apart.
        let block = Block::Adopted { address, owner: Some(Box::new(data)) };
        Ok(Allocation::of(core, block, counted))
    }

    /// # Errors
    /// The memory may only be read, and the operation uses it otherwise.
    pub(crate) fn check_lent(&self, operation: &str, kind: AccessKind) -> Result<()> {
        // Relaxed: whoever has the buffer got it from the thread that lent it.
        if kind == AccessKind::Read || !self.is_lent.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::Lent { operation: operation.to_string(), buffer: self.to_string() })
    }
}
