//! Checked runs notice results that earlier runs have left.

#![allow(clippy::unwrap_used)]

use millstream::flow::{Context, Devices};

use super::bed::Missing;
use super::{Bed, Mode, Moved, Sizes, workloads};

#[test]
fn checked_runs_find_stale_inputs_and_results() {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let steps = [
        (Missing::CopyIn, vec![Mode::Baseline, Mode::ProactiveReturn]),
        (Missing::CopyOut, vec![Mode::Baseline, Mode::EarlyLaunch(Moved::Copied)]),
        (Missing::Wait, [Moved::Mapped, Moved::Pulled].map(Mode::EarlyLaunch).to_vec()),
        (Missing::Wait, [Moved::Mapped, Moved::Pulled].map(Mode::FullOverlap).to_vec()),
    ];
    for work in workloads(Sizes::Small) {
        let mut bed = Bed::new(&context, &context.devices()[0], &work, 4096).unwrap();
        let expected = work.expected();
        for (step, modes) in &steps {
            for &mode in modes {
                assert!(work.is_right(&expected, &bed.checked(mode).unwrap()));
                bed.spoil(mode).unwrap();
                bed.missing = Some(*step);
                let found = bed.run_anew(mode).unwrap();
                bed.missing = None;
                assert!(!work.is_right(&expected, &found), "{} {mode:?} {step:?}", work.name);
            }
        }
    }
}
