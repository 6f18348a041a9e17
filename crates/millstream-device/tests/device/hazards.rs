use millstream_device::{
    Awaitable, DeviceBuffer, DeviceList, DeviceSet, Error, Event, Kernel, Read, Result, Shared,
    Stream,
};

use crate::common::{ADD_ONE, on_both, slow_add, until_complete};

static LOOK: Kernel<(Read<u32>,)> = Kernel::new("look", |_, _| Ok(()));
static TOUCH: Kernel<(Shared<u32>,)> = Kernel::new("touch", |_, _| Ok(()));

/// Submits `first` on one stream and `second` on another one, unordered and then ordered; the first must be the hazard, naming buffer and event.
fn conflict<B>(
    set: &DeviceSet,
    buffer: &mut B,
    first: impl Fn(&Stream, &mut B) -> Result<()>,
    second: impl Fn(&Stream, &mut B) -> Result<()>,
) {
    let (one, other) = (set.devices()[0].stream().unwrap(), set.devices()[1].stream().unwrap());
    first(&one, buffer).unwrap();
    let before = set.devices()[0].memory();
    assert!(matches!(second(&other, buffer), Err(Error::Hazard { .. })));
    let event = one.record().unwrap();
    let error = second(&other, buffer).unwrap_err();
    let Error::Hazard { buffer: name, event: named, conflicting, .. } = &error else {
        panic!("{error}")
    };
    assert!(name.contains("the packet"), "{name}");
    assert!(named.contains("host:0 compute stream"), "{named}");
    assert!(conflicting.contains("host:0 compute stream"), "{conflicting}");
    assert_eq!(set.devices()[0].memory().in_use, before.in_use);
    other.wait(&event).unwrap();
    second(&other, buffer).unwrap();
    let last = other.record().unwrap();
    set.block_on(last.completed()).unwrap().unwrap();
}

fn plain(set: &DeviceSet) -> DeviceBuffer<u32> {
    set.devices()[0].buffer(16).unwrap().with_label("the packet")
}

fn read(stream: &Stream, buffer: &mut DeviceBuffer<u32>) -> Result<()> {
    LOOK.launch(stream, 16, (&*buffer,))
}

fn write(stream: &Stream, buffer: &mut DeviceBuffer<u32>) -> Result<()> {
    ADD_ONE.launch(stream, 16, (buffer,))
}

#[test]
fn read_after_write() {
    on_both(|set| conflict(set, &mut plain(set), write, read));
}

#[test]
fn write_after_read() {
    on_both(|set| conflict(set, &mut plain(set), read, write));
}

#[test]
fn write_after_write() {
    on_both(|set| conflict(set, &mut plain(set), write, write));
}

#[test]
fn copies_are_checked_on_both_sides() {
    on_both(|set| {
        let into =
            |stream: &Stream, buffer: &mut DeviceBuffer<u32>| stream.upload(vec![1; 16], buffer);
        let out =
            |stream: &Stream, buffer: &mut DeviceBuffer<u32>| stream.download(&*buffer).map(drop);
        conflict(set, &mut plain(set), into, out);
        conflict(set, &mut plain(set), out, into);
    });
}

#[test]
fn plain_and_atomic_accesses_at_once() {
    on_both(|set| {
        let mut shared = set.devices()[0].shared::<u32>(16).unwrap().with_label("the packet");
        conflict(
            set,
            &mut shared,
            |on, shared| TOUCH.launch(on, 1, (&*shared,)),
            |on, shared| on.fill_shared(shared, 0..16, 1),
        );
        conflict(
            set,
            &mut shared,
            |on, shared| on.download_shared(shared, 0..16).map(drop),
            |on, shared| TOUCH.launch(on, 1, (&*shared,)),
        );
    });
}

#[test]
fn readers_and_atomic_kernels_go_together() {
    on_both(|set| {
        let streams = [set.devices()[0].stream().unwrap(), set.devices()[1].stream().unwrap()];
        let (buffer, shared) = (plain(set), set.host().shared::<u32>(1).unwrap());
        for stream in streams.iter().cycle().take(6) {
            LOOK.launch(stream, 16, (&buffer,)).unwrap();
            TOUCH.launch(stream, 16, (&shared,)).unwrap();
        }
    });
}

#[test]
fn the_host_has_to_wait_before_it_looks() {
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        let mut buffer = set.host().buffer::<u32>(16).unwrap();
        buffer.host_view_mut().unwrap()[3] = 5;
        LOOK.launch(&stream, 16, (&buffer,)).unwrap();
        assert_eq!(buffer.host_view().unwrap()[3], 5);
        assert!(matches!(buffer.host_view_mut(), Err(Error::Hazard { .. })));
        ADD_ONE.launch(&stream, 16, (&mut buffer,)).unwrap();
        let event = stream.record().unwrap();
        // Physical completion is not enough.
        until_complete(set, &event);
        assert!(matches!(buffer.host_view(), Err(Error::Hazard { .. })));
        assert!(buffer.in_flight().unwrap().to_string().contains("add one"));
        event.synchronize().unwrap();
        assert_eq!(buffer.host_view_mut().unwrap()[3], 6);
        // Nor is there anything else to wait for once a stream is gone.
        ADD_ONE.launch(&set.devices()[1].stream().unwrap(), 16, (&mut buffer,)).unwrap();
        assert!(matches!(buffer.host_view(), Err(Error::Hazard { .. })));
        set.quiesce().unwrap();
        assert_eq!(buffer.host_view_mut().unwrap()[3], 7);
        assert!(matches!(plain(set).host_view(), Err(Error::NotHostAccessible { .. })));
    });
}

#[test]
fn waiting_on_the_host_orders_what_it_submits_next() {
    on_both(|set| {
        let (one, other) = (set.devices()[0].stream().unwrap(), set.devices()[1].stream().unwrap());
        let mut buffer = plain(set);
        write(&one, &mut buffer).unwrap();
        assert!(buffer.covered_by(&one, "a send").is_ok());
        let refused = buffer.covered_by(&other, "a send").unwrap_err();
        assert!(matches!(refused, Error::Hazard { .. }));
        assert!(refused.to_string().starts_with("a send after host:1 compute stream"), "{refused}");
        one.record().unwrap().synchronize().unwrap();
        assert!(buffer.covered_by(&other, "a send").is_ok());
        write(&other, &mut buffer).unwrap();
    });
}

#[test]
fn events_of_another_set_retire_nothing() {
    on_both(|set| {
        let open = || DeviceSet::builder().devices(DeviceList::host(1)).build().unwrap();
        // Ahead on its stream, whose number is that of the other set's.
        let (elsewhere, stream) = (open(), set.devices()[0].stream().unwrap());
        let other = elsewhere.devices()[0].stream().unwrap();
        let events = (0..10).map(|_| other.record().unwrap()).collect::<Vec<_>>();
        let event = events.last().unwrap();
        event.synchronize().unwrap();
        let mut buffer = set.host().buffer::<u32>(16).unwrap();
        slow_add().launch(&stream, 16, (&mut buffer,)).unwrap();
        buffer.retire(event);
        assert!(matches!(buffer.host_view(), Err(Error::Hazard { .. })));
        stream.record().unwrap().synchronize().unwrap();
        assert_eq!(buffer.host_view().unwrap(), [1; 16]);
    });
}

#[test]
fn clocks_travel_through_chains_of_events() {
    on_both(|set| {
        let streams = [0, 1, 0].map(|index: usize| set.devices()[index].stream().unwrap());
        let mut buffer = plain(set);
        write(&streams[0], &mut buffer).unwrap();
        for (from, to) in [(0, 1), (1, 2)] {
            assert!(write(&streams[2], &mut buffer).is_err());
            streams[to].wait(&streams[from].record().unwrap()).unwrap();
        }
        write(&streams[2], &mut buffer).unwrap();
    });
}

#[test]
fn one_launch_must_not_get_a_part_twice() {
    struct Twice<'a>(&'a mut DeviceBuffer<u32>);
    type Pair = (millstream_device::Write<u32>, millstream_device::Write<u32>);
    // SAFETY: both are bound in the accesses, here and now.
    unsafe impl millstream_device::Argument<Pair> for Twice<'_> {
        fn bind(
            self,
            accesses: &mut millstream_device::Accesses,
        ) -> Result<<Pair as millstream_device::Parameter>::Bound> {
            let first = <&mut DeviceBuffer<u32> as millstream_device::Argument<
                millstream_device::Write<u32>,
            >>::bind(self.0, accesses)?;
            Ok((
                first,
                <&mut DeviceBuffer<u32> as millstream_device::Argument<
                    millstream_device::Write<u32>,
                >>::bind(self.0, accesses)?,
            ))
        }
    }
    static PAIR: Kernel<Pair> = Kernel::new("pair", |_, _| Ok(()));
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        let error = PAIR.launch(&stream, 1, Twice(&mut plain(set))).unwrap_err();
        assert!(
            matches!(&error, Error::BoundTwice { buffer, .. } if buffer.contains("the packet")),
            "{error}"
        );
    });
}

#[test]
fn what_stands_for_an_event_can_be_waited_for() {
    struct Pending(Event);
    impl Awaitable for Pending {
        fn event(&self) -> &Event {
            &self.0
        }
    }
    on_both(|set| {
        let (one, other) = (set.devices()[0].stream().unwrap(), set.devices()[1].stream().unwrap());
        let mut buffer = plain(set);
        write(&one, &mut buffer).unwrap();
        other.wait(&Pending(one.record().unwrap())).unwrap();
        write(&other, &mut buffer).unwrap();
    });
}

/// Host code uses shared items beside kernels, and not beside copies, which are not atomic.
#[test]
fn host_code_beside_copies_of_shared_items() {
    on_both(|set| {
        let words = set.host().shared::<u32>(4).unwrap().with_label("the words");
        let stream = set.devices()[0].stream().unwrap();
        let refused = |result: Result<()>| {
            let error = result.unwrap_err();
            assert!(matches!(&error, Error::Hazard { buffer, .. } if buffer.contains("words")));
        };
        stream.fill_shared(&words, 0..4, 5).unwrap();
        refused(words.load(0).map(drop));
        refused(words.store(0, 1));
        stream.record().unwrap().synchronize().unwrap();
        assert_eq!(words.load(0).unwrap(), 5);
        TOUCH.launch(&stream, 1, (&words,)).unwrap();
        assert_eq!(words.swap(0, 6).unwrap(), 5);
        stream.record().unwrap().synchronize().unwrap();
        let download = stream.download_shared(&words, 0..1).unwrap();
        assert_eq!(words.load(0).unwrap(), 6);
        refused(words.swap(0, 7).map(drop));
        assert_eq!(set.block_on(download).unwrap().unwrap(), [6]);
        words.store(0, 7).unwrap();
    });
}
