//! The shapes of other machines, on host devices: the ways of links, and collectives.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_device::TransferWay;
use millstream_flow::{Context, Devices, Error, ResidentCollectives};

use crate::collective_model::all_types;
use crate::common::assert_nothing_leaked;
use crate::shape_cases::{QUADRUPLETS, Shape, every_pair};

const SHAPES: [Shape; 3] = [
    QUADRUPLETS,
    Shape {
        name: "two-quadruplets-interleaved.json",
        text: include_str!(
            "../../../millstream-device/tests/shapes/two-quadruplets-interleaved.json"
        ),
        pairs: [
            ".hchchch", "h.hchchc", "ch.hchch", "hch.hchc", "chch.hch", "hchch.hc", "chchch.h",
            "hchchch.",
        ],
    },
    Shape {
        name: "nvlink-cube-mesh.json",
        text: include_str!("../../../millstream-device/tests/shapes/nvlink-cube-mesh.json"),
        pairs: [
            ".cccchhh", "c.cchchh", "cc.chhch", "ccc.hhhc", "chhh.ccc", "hchhc.cc", "hhchcc.c",
            "hhhcccc.",
        ],
    },
];

/// On threads and simulated.
fn contexts(shape: &Shape, way: Option<TransferWay>) -> [Context; 2] {
    let builder = || {
        let builder = Context::builder().devices(Devices::host(8)).topology(shape.topology());
        way.into_iter().fold(builder, |builder, way| builder.transfer(way))
    };
    [builder(), builder().simulated(5)].map(|builder| builder.build().unwrap())
}

#[test]
fn every_file_is_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../millstream-device/tests/shapes");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let files: BTreeSet<_> = files.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(files, SHAPES.map(|shape| shape.name.to_string()).into());
}

#[test]
fn each_pair_takes_the_way_of_its_shape() {
    for shape in &SHAPES {
        for (asked_for, ways) in [
            (None, ["copy", "host"]),
            (Some(TransferWay::Copy), ["copy", "two copies"]),
            (Some(TransferWay::Push), ["push", "host"]),
            (Some(TransferWay::Host), ["host", "host"]),
        ] {
            for context in contexts(shape, asked_for) {
                context.block_on(every_pair(&context, shape, ways)).unwrap().unwrap();
                assert_nothing_leaked(&context);
            }
        }
    }
}

#[test]
fn collectives_of_every_shape() {
    for shape in &SHAPES {
        for context in contexts(shape, None) {
            context.block_on(all_types(&context, 19, 40)).unwrap().unwrap();
            assert_nothing_leaked(&context);
        }
    }
}

/// Their twins would reach what GPUs of that shape do not.
#[test]
fn resident_collectives_need_all_to_be_peers() {
    for shape in &SHAPES {
        for context in contexts(shape, None) {
            assert!(!ResidentCollectives::are_possible(&context), "{}", shape.name);
            let refused = ResidentCollectives::new(&context, 1, 1, Duration::from_secs(5));
            assert!(matches!(refused, Err(Error::NotAGang { devices: 8 })), "{refused:?}");
        }
    }
}
