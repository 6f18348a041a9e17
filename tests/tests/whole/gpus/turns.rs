//! Gangs of several contexts on the same GPUs.

use futures_util::FutureExt;
use millstream::flow::{Communicator, Context, Devices, Gang, Operator};

use super::{Needs, list, scaled, skip};
use crate::collective_model::{download, upload};

/// Two, which share nothing but the GPUs.
fn contexts() -> Option<[Context; 2]> {
    let contexts =
        [0; 2].map(|_| Context::builder().devices(Devices::List(list())).build().unwrap());
    let [one, _] = &contexts;
    if one.devices().len() < 2 {
        skip(Needs::Several, "a rank alone meets nobody");
    } else if !(Gang::is_possible(one) && one.kernels_push()) {
        skip(Needs::Peers, "gangs are of GPUs that reach each other");
    } else {
        return Some(contexts);
    }
    None
}

#[test]
fn a_gang_of_another_context_waits_its_turn() {
    let Some([one, other]) = contexts() else { return };
    let [mut first, mut second] = [&one, &other].map(|context| Communicator::new(context).unwrap());
    let series = one.block_on(first.begin()).unwrap().unwrap();
    assert!(second.begin().now_or_never().is_none());
    one.block_on(series.completed()).unwrap().unwrap();
    other.block_on(second.begin()).unwrap().unwrap();
}

#[test]
fn two_contexts_run_gangs_side_by_side() {
    let Some(contexts) = contexts() else { return };
    std::thread::scope(|scope| {
        for context in &contexts {
            scope.spawn(|| context.block_on(reduce_often(context)).unwrap());
        }
    });
}

async fn reduce_often(context: &Context) {
    let ranks = context.devices().len() as u32;
    let mut communicator = Communicator::new(context).unwrap();
    let sum = Operator::<u32>::sum();
    for round in 0..scaled(200, 10) {
        let items: Vec<_> = (0..ranks).map(|rank| vec![rank + round; 3000]).collect();
        let mut buffers = upload(context, &items).unwrap();
        let mut series = communicator.begin().await.unwrap();
        series.all_reduce(&mut buffers, &sum).unwrap();
        series.completed().await.unwrap();
        let expected = ranks * (ranks - 1) / 2 + ranks * round;
        for found in download(&buffers).await.unwrap() {
            assert_eq!(found, [expected; 3000], "round {round}");
        }
    }
}
