//! What a driver's stream may still be at when a GPU has had a fault.

use parking_lot::Mutex;

use super::pending::{Held, let_go};
use crate::Result;

/// What the points of a lane held that failed with another GPU: nobody waits for those any more, and
/// yet this GPU may copy and compute on. Dropped, it is leaked.
#[derive(Default)]
pub(super) struct Kept(Mutex<Vec<Held>>);

impl Kept {
    pub(super) fn add(&self, held: &mut Vec<Held>) {
        self.0.lock().append(held);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Lets go of all that was there before, once the driver's stream `has_ended`. Of a GPU that has
    /// failed itself nobody ever knows.
    pub(super) fn let_go_if(&self, has_ended: impl FnOnce() -> Result<bool>) {
        let mut kept = std::mem::take(&mut *self.0.lock());
        if kept.is_empty() {
            return;
        }
        match has_ended() {
            Ok(true) => let_go(kept),
            Ok(false) => self.add(&mut kept),
            Err(_) => std::mem::forget(kept),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        std::mem::forget(std::mem::take(self.0.get_mut()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Error;

    #[test]
    fn what_a_stream_may_be_at_goes_when_that_has_ended_or_never() {
        let in_use = Arc::new(());
        let of_a_point = || vec![Held::Other(Box::new(Arc::clone(&in_use)))];
        let users = || Arc::strong_count(&in_use) - 1;
        let kept = Kept::default();
        kept.let_go_if(|| unreachable!("nothing is kept"));
        kept.add(&mut of_a_point());
        kept.let_go_if(|| Ok(false));
        assert!(users() == 1 && !kept.is_empty());
        kept.let_go_if(|| {
            // Later than what the answer is about.
            kept.add(&mut of_a_point());
            Ok(true)
        });
        assert!(users() == 1 && !kept.is_empty());
        kept.let_go_if(|| Err(Error::Start { reason: "its own fault".to_string() }));
        assert!(users() == 1 && kept.is_empty());
        kept.add(&mut of_a_point());
        drop(kept);
        assert_eq!(users(), 2);
    }
}
