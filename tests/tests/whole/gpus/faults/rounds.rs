//! Rounds of the host-driven worklist that are refused a launch.

use millstream::device::{InjectedFault, Injection};
use millstream::graph::partition;
use millstream::sssp::{Delta, SsspOptions};
use millstream::worklist::Worker;

use super::super::child::in_child;
use super::{LIMIT, builder, works};
use crate::{near_far, sssp};

/// Behind kernels that bring items back, too, which the same stream has been given before.
#[test]
fn launches_that_are_refused() {
    in_child(concat!(module_path!(), "::launches_that_are_refused"), LIMIT, || {
        let road = near_far::road(20, 20, 100);
        for (kernel, occurrence) in
            [("process", 0), ("process", 3), ("process", 4), ("process", 9), ("undefer", 2)]
        {
            let faults = vec![InjectedFault::new(kernel).occurrence(occurrence)];
            let injection = Injection { faults, ..Injection::default() };
            let context = builder().injection(injection).build().unwrap();
            let mut options = SsspOptions::default();
            options.worklist.worker = Worker::HostDriven;
            options.delta = Delta::Step(50.0);
            let parts = partition::contiguous_blocks(&road, context.devices().len());
            let error = sssp::run(&context, &road, parts, options, &[0]).unwrap_err().to_string();
            assert!(error.contains(&format!("injected failure of {kernel}")), "{error}");
            context.device_set().quiesce().unwrap();
            assert_eq!(context.device_set().faults_left(), []);
            context.devices().iter().for_each(works);
        }
    });
}
