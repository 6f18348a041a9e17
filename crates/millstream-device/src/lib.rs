//! Devices, streams, events and memory, typed and checked: the lowest layer of
//! Millstream \[G §4.1\] (Ben-Nun et al., *Groute*, ACM TOPC 7(3), art. 18,
//! 2020).
//!
//! *Host devices* need no GPU: they have memory of their own, in-order streams
//! whose operations really run later, and kernels as Rust closures. They run on
//! threads or, for tests, simulated on one thread in an order that a seed
//! chooses. Every use of a buffer is checked against the order of streams and
//! events when it is submitted (`README.md` in the sources).
//!
//! Programs that use GPUs call [`set_driver_defaults`] first in `main`.
//!
//! | for | start with |
//! |---|---|
//! | devices, how they are connected, and what copies between them take | [`DeviceSet`], [`Device`], [`Topology`], [`TransferTable`] |
//! | memory | [`DeviceBuffer`]; [`SharedBuffer`] of atomics, [`GuardedBuffer`] where kernels and others take turns |
//! | work in order, and waiting for it | [`Stream`], [`Event`], [`Promise`] |
//! | kernels | [`Kernel`], its signature of [`Read`], [`Write`], [`Shared`] and [`Value`], and its code for GPUs: [`CudaSource`] or calls of a library ([`LibraryCall`]), [`Trusted`] |
//! | what the devices do, and when | [`Trace`] |
//! | injected delays, failures and an order by a seed | [`DeviceSetBuilder`], [`Injection`] |

mod backend;
mod bell;
mod block;
mod bound_uses;
mod buffer_reader;
mod cache;
mod calibrate;
mod contain;
#[cfg(feature = "cuda")]
mod cuda;
mod cuda_source;
mod device;
mod device_list;
mod device_set;
mod download;
mod driver_defaults;
mod entered_kernel;
mod environment;
mod error;
mod event;
mod first_cause;
mod gang_parameter;
mod gang_streams;
mod gpus;
mod grid;
mod guarded;
mod host;
mod host_data;
mod injection;
mod kernel;
mod kernel_copy;
mod large_upload;
mod launch;
mod launching;
mod layout;
mod ledger;
mod lent;
mod library_call;
mod location;
mod memory;
mod memory_budget;
mod needs_host;
mod parameter;
mod part;
mod patience;
mod poison;
#[cfg(feature = "cuda")]
mod reactor;
mod shared;
mod stream;
mod stream_kind;
mod struct_layout;
mod sync;
mod task;
mod tell;
mod topology;
mod topology_file;
mod trace;
mod transfer_cache;
mod transfer_table;
mod transfer_way;
mod trusted;
mod turns;
mod waits;

pub use bell::Bell;
pub use buffer_reader::BufferReader;
pub use bytemuck::{Pod, Zeroable};
#[doc(hidden)]
pub use contain::panic_text;
pub use cuda_source::CudaSource;
pub use device::{Device, DeviceId};
pub use device_list::DeviceList;
pub use device_set::{DeviceSet, DeviceSetBuilder};
pub use download::Download;
pub use driver_defaults::set_driver_defaults;
pub use entered_kernel::EnteredKernel;
pub use error::{Error, Result};
pub use event::{Awaitable, Completion, Event, EventStatus, Promise};
pub use gang_parameter::{BoundGang, GangParts, GangPartsMut, GangRead, GangWrite};
pub use gpus::{gpu_count, gpu_fault};
pub use grid::{Block, Grid};
pub use guarded::{Guarded, GuardedBuffer, GuardedItems, Words, WordsView};
pub use host::SimulationReport;
pub use host_data::HostData;
pub use injection::{InjectedFault, Injection};
pub use kernel::{Kernel, KernelFault, KernelResult, Step};
pub use launch::BoundKernel;
pub use launching::Launching;
pub use layout::ArgumentWriter;
pub use ledger::InFlight;
pub use library_call::LibraryCall;
pub use location::{Location, NvLinks};
pub use memory::DeviceBuffer;
pub use memory_budget::MemoryUse;
pub use millstream_kernels::spills;
#[doc(hidden)]
pub use needs_host::NeedsHost;
pub use parameter::{Accesses, Argument, Bound, Parameter, Read, Shared, SharedSet, Value, Write};
pub use part::{Part, PartMut};
pub use patience::patience_ns;
pub use shared::{AtomicPod, SharedBuffer};
pub use stream::{FailureListener, Stream};
pub use stream_kind::StreamKind;
pub use struct_layout::{FieldLayout, StructLayout};
pub use tell::Tell;
pub use topology::{LinkKind, Topology};
pub use trace::{Trace, TraceSpan, TracedOperation};
pub use transfer_table::{Transfer, TransferTable};
pub use transfer_way::TransferWay;
pub use trusted::Trusted;
pub use waits::Waits;
