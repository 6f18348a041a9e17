use millstream_device::{DeviceList, DeviceSet, Error, InjectedFault, Injection, gpu_count};

/// As far as there is one: else it says what to do.
#[test]
fn a_gpu_is_opened_if_it_is_there() {
    let opened = DeviceSet::builder().devices("cuda:0".parse().unwrap()).build();
    if gpu_count() > 0 {
        return assert_eq!(opened.unwrap().devices()[0].name(), "cuda:0");
    }
    match opened.unwrap_err() {
        Error::DriverUnavailable { reason, .. } => assert!(reason.contains("host:4"), "{reason}"),
        error => assert_eq!(Some(error), millstream_device::gpu_fault()),
    }
}

#[test]
fn a_set_has_devices() {
    let error = DeviceSet::builder().devices(DeviceList::host(0)).build().unwrap_err();
    assert!(matches!(error, Error::DeviceList { .. }) && error.to_string().contains("no device"));
}

#[test]
fn names_and_endpoints() {
    let set = DeviceSet::builder().devices("host:1x2,host:1".parse().unwrap()).build().unwrap();
    let names = set.devices().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names, ["host:0.0", "host:0.1", "host:1"]);
    assert_eq!(set.topology().names(), names);
    assert!(set.host().is_host_endpoint() && set.host().index().is_none());
    assert_eq!(set.host().to_string(), "host");
    assert_eq!(set.devices()[2].index(), Some(2));
}

#[test]
fn virtual_devices_share_a_budget() {
    let set = DeviceSet::builder()
        .devices("host:2x2".parse().unwrap())
        .memory_budget(100)
        .build()
        .unwrap();
    let _buffer = set.devices()[0].buffer::<u8>(70).unwrap();
    assert!(matches!(
        set.devices()[1].buffer::<u8>(31),
        Err(Error::OutOfMemory { in_use: 70, .. })
    ));
    assert!(set.devices()[2].buffer::<u8>(100).is_ok());
}

#[test]
fn more_devices_than_there_can_be_are_refused() {
    for (devices, list) in [
        (DeviceList::host(33), "host:33"),
        (DeviceList::host(usize::MAX), "host:18446744073709551615"),
        (DeviceList::cuda(33), "cuda:0-32"),
        (DeviceList::cuda(usize::MAX), "cuda:0-18446744073709551614"),
    ] {
        let error = DeviceSet::builder().devices(devices).build().unwrap_err();
        assert!(error.to_string().contains("more than 32"), "{error}");
        assert!(matches!(error, Error::DeviceList { list: name, .. } if name == list), "{list}");
    }
    assert_eq!(
        DeviceSet::builder().devices(DeviceList::host(32)).build().unwrap().devices().len(),
        32
    );
}

/// Else a test of faults would test nothing.
#[test]
fn faults_are_of_devices_that_there_are() {
    let open = |device: &str| {
        let faults = vec![InjectedFault::new("copy").on(device)];
        let injection = Injection { faults, ..Injection::default() };
        DeviceSet::builder().devices(DeviceList::host(2)).injection(injection).build()
    };
    for device in ["host:0", "host:1", "host"] {
        open(device).unwrap();
    }
    let error = open("host:7").unwrap_err();
    assert!(matches!(error, Error::Injection { .. }));
    assert!(error.to_string().contains("no device host:7, only host:0, host:1, host"), "{error}");
}
