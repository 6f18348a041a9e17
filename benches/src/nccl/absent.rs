//! Takes the place of NCCL in programs that are built without GPUs.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::path::Path;

use crate::collective::Collective;

pub use error::{Error, Result};
pub use series::Series;

mod error;
mod series;

/// There is none.
#[derive(Debug)]
pub struct Nccl<T>(Infallible, PhantomData<T>);

impl<T> Nccl<T> {
    /// # Errors
    /// Always.
    pub fn load(_: &Path, _: &[String], _: usize, _: bool) -> Result<Nccl<T>> {
        Err(Error::WithoutGpus)
    }

    /// Never called.
    pub fn version(&self) -> &str {
        match self.0 {}
    }

    /// Never called.
    pub fn seconds(&mut self, _: Collective, _: Series) -> f64 {
        match self.0 {}
    }
}
