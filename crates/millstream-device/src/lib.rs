//! Devices, streams, events and memory of Millstream, with a driver that needs no GPU.
