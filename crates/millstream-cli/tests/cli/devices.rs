//! Which devices a command uses.

use serde_json::{Value, json};

use crate::common::{Answer, Folder, command, dataset, refused, succeed};

const VARIABLE: &str = "MILLSTREAM_DEVICES";

/// The names of the devices when `MILLSTREAM_DEVICES` has a value, or none.
fn devices(value: Option<&str>, options: &[&str]) -> Value {
    let mut command = command(&[&["topology", "--json"], options].concat());
    match value {
        Some(value) => command.env(VARIABLE, value),
        None => command.env_remove(VARIABLE),
    };
    let answer: Answer = command.output().unwrap().into();
    assert_eq!(answer.code, Some(0), "{answer:?}");
    serde_json::from_str::<Value>(&answer.stdout).unwrap()["devices"].clone()
}

#[test]
fn the_option_goes_before_the_variable() {
    assert_eq!(devices(Some("host:2"), &[]), json!(["host:0", "host:1"]));
    assert_eq!(
        devices(Some("host:2"), &["--devices", "host:1x2"]),
        json!(["host:0.0", "host:0.1"])
    );
    assert_eq!(devices(Some("nonsense"), &["--devices", "host:1"]), json!(["host:0"]));
}

#[test]
fn without_either_it_is_every_gpu_or_else_four_host_devices() {
    let expected = match millstream::device::gpu_count() {
        0 => (0..4).map(|place| format!("host:{place}")).collect::<Vec<_>>(),
        count => (0..count).map(|place| format!("cuda:{place}")).collect(),
    };
    assert_eq!(devices(None, &[]), json!(expected));
    assert_eq!(devices(Some(""), &[]), json!(expected));
}

#[test]
fn a_variable_that_cannot_be_read_is_named() {
    let mut command = command(&["bfs", &dataset("karate.mtx")]);
    let answer: Answer = command.env(VARIABLE, "host:x").output().unwrap().into();
    assert_eq!((answer.code, &*answer.stdout), (Some(2), ""), "{answer:?}");
    assert!(answer.stderr.contains("MILLSTREAM_DEVICES=host:x"), "{answer:?}");
}

#[test]
fn a_gpu_that_is_not_here_is_refused_with_the_reason() {
    for command in [&["bfs", &dataset("karate.mtx")][..], &["filter"], &["topology"]] {
        let said = refused(&[command, &["--devices", "cuda:1000"]].concat(), 2);
        let reason = match millstream::device::gpu_count() {
            0 => "cuda:1000 needs the CUDA driver: ",
            _ => "there is no cuda:1000: ",
        };
        assert!(said.contains(reason), "{said}");
        let beyond = format!("cuda:{}", usize::MAX);
        let said = refused(&[command, &["--devices", &beyond]].concat(), 2);
        assert!(said.contains(&format!("{beyond:?} names a GPU that no machine has")), "{said}");
    }
}

#[test]
fn a_topology_of_other_devices_is_named() {
    let folder = Folder::new();
    let shape = folder.file("one.json", r#"{"links":[["memory"]]}"#);
    for command in [&["bfs", &dataset("karate.mtx")][..], &["filter"], &["topology"]] {
        let options = ["--devices", "host:2", "--topology", &shape];
        let said = refused(&[command, &options].concat(), 2);
        assert!(
            said.contains(&format!("{shape}: ")) && said.contains("it has 1 devices"),
            "{said}"
        );
    }
}

#[test]
fn help_shows_lists_of_gpus() {
    for command in ["bfs", "filter", "topology"] {
        let help = succeed(&[command, "--help"]);
        for text in ["cuda:0-3", "cuda:0x4", "host:4", "cuda:0,host:1", VARIABLE] {
            assert!(help.contains(text), "{text} is not in {help}");
        }
    }
}
