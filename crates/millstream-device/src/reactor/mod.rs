//! Completion words and the reactor that watches them; `README.md` beside this
//! file has the protocol.

mod core;

pub(crate) use self::core::{Parking, Waiting, shown};
