//! Routing policies: who gets a message \[G §3, Table 1\].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_device::Device;

/// What a routing policy knows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageInfo {
    /// Items in the message.
    pub items: usize,
    /// Position of the message among those of its sender, from 0.
    pub sequence: u64,
    /// A word of the sender's choice.
    pub metadata: u64,
}

/// Where a message goes. An empty route is an error, never a silent drop; a destination that is
/// named twice counts once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Each packet to whichever of these has a free buffer first.
    Any(Vec<Device>),
    /// The whole message to each of these.
    All(Vec<Device>),
    /// The message in equal consecutive parts, one for each of these.
    Parts(Vec<Device>),
}

impl Route {
    /// The destinations named.
    pub fn destinations(&self) -> &[Device] {
        match self {
            Route::Any(devices) | Route::All(devices) | Route::Parts(devices) => devices,
        }
    }
}

/// A programmer's routing policy; closures become one with [`RoutingPolicy::new`]. A router takes
/// a policy as `policy.into()`.
///
/// ```
/// use millstream_device::Device;
/// use millstream_flow::{MessageInfo, Policy, Route};
///
/// /// Small messages go to the first device, large ones to whichever has a free buffer.
/// struct BySize;
///
/// impl Policy for BySize {
///     fn route(&self, message: &MessageInfo, _: &Device, destinations: &[Device]) -> Route {
///         match message.items {
///             ..100 => Route::Any(destinations[..1].to_vec()),
///             _ => Route::Any(destinations.to_vec()),
///         }
///     }
/// }
/// # let _ = millstream_flow::RoutingPolicy::from(BySize);
/// ```
pub trait Policy: Send + Sync {
    /// Chooses the destinations of a message among the router's receivers.
    /// `destinations` are those `source` can reach, in device order, the host last.
    fn route(&self, message: &MessageInfo, source: &Device, destinations: &[Device]) -> Route;

    /// The receivers `source` may ever send to. A receiver's stream ends when
    /// every sender that can reach it has shut down, so chains and trees must
    /// say who comes after whom. `others` holds all receivers but `source`.
    fn reachable(&self, source: &Device, others: &[Device]) -> Vec<Device> {
        let _ = source;
        others.to_vec()
    }
}

/// Decides where a router sends each message.
#[derive(Clone)]
pub struct RoutingPolicy(Arc<dyn Policy>);

impl fmt::Debug for RoutingPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RoutingPolicy")
    }
}

impl<P: Policy + 'static> From<P> for RoutingPolicy {
    fn from(policy: P) -> RoutingPolicy {
        RoutingPolicy(Arc::new(policy))
    }
}

impl RoutingPolicy {
    /// A policy from a function of the message, its source and the
    /// destinations that the source can reach.
    ///
    /// ```
    /// use millstream_flow::{Route, RoutingPolicy};
    ///
    /// let last_only = RoutingPolicy::new(|_, _, destinations| {
    ///     Route::All(destinations.last().cloned().into_iter().collect())
    /// });
    /// # let _ = last_only;
    /// ```
    pub fn new(
        route: impl Fn(&MessageInfo, &Device, &[Device]) -> Route + Send + Sync + 'static,
    ) -> RoutingPolicy {
        Function(route).into()
    }

    pub(crate) fn route(
        &self,
        message: &MessageInfo,
        source: &Device,
        destinations: &[Device],
    ) -> Route {
        self.0.route(message, source, destinations)
    }

    pub(crate) fn reachable(&self, source: &Device, receivers: &[Device]) -> Vec<Device> {
        let others: Vec<Device> =
            receivers.iter().filter(|device| *device != source).cloned().collect();
        let mut reachable = self.0.reachable(source, &others);
        reachable.retain(|device| others.contains(device));
        reachable
    }
}

struct Function<F>(F);

impl<F> Policy for Function<F>
where
    F: Fn(&MessageInfo, &Device, &[Device]) -> Route + Send + Sync,
{
    fn route(&self, message: &MessageInfo, source: &Device, destinations: &[Device]) -> Route {
        (self.0)(message, source, destinations)
    }
}

/// Each packet goes to the first destination with a free buffer: dynamic load
/// balancing, as in predicate-based filtering \[G Fig. 6\].
pub fn first_available() -> RoutingPolicy {
    RoutingPolicy::new(|_, _, destinations| Route::Any(destinations.to_vec()))
}

/// Each message goes to the next destination in turn.
pub fn round_robin() -> RoutingPolicy {
    let next = AtomicUsize::new(0);
    RoutingPolicy::new(move |_, _, destinations| {
        // Relaxed: only the counter itself is shared.
        let turn = next.fetch_add(1, Ordering::Relaxed);
        let chosen = destinations.get(turn % destinations.len().max(1));
        Route::All(chosen.cloned().into_iter().collect())
    })
}

/// The whole message to every destination.
pub fn broadcast() -> RoutingPolicy {
    RoutingPolicy::new(|_, _, destinations| Route::All(destinations.to_vec()))
}

/// The message in equal parts, one for each destination: static scheduling
/// \[G §5.3\].
pub fn scatter() -> RoutingPolicy {
    RoutingPolicy::new(|_, _, destinations| Route::Parts(destinations.to_vec()))
}

/// Everything goes to the last receiver, which is the host if the host receives.
pub fn gather() -> RoutingPolicy {
    RoutingPolicy::new(|_, _, destinations| {
        Route::All(destinations.last().cloned().into_iter().collect())
    })
}

/// The receiver whose device index is the message's metadata, which
/// [`Sender::send_data`](crate::Sender::send_data) sets; `u64::MAX` is the host.
pub fn all_to_all() -> RoutingPolicy {
    RoutingPolicy::new(|message, _, destinations| {
        let index = |device: &Device| device.index().map_or(u64::MAX, |index| index as u64);
        let chosen = destinations.iter().find(|device| index(device) == message.metadata);
        Route::All(chosen.cloned().into_iter().collect())
    })
}

/// Each device sends to the next one in `order`; any other endpoint (such as the host with the
/// first work) sends to any of them \[G §4.3\].
pub fn ring(order: impl IntoIterator<Item = Device>) -> RoutingPolicy {
    Ring(order.into_iter().collect()).into()
}

struct Ring(Vec<Device>);

impl Policy for Ring {
    fn route(&self, _: &MessageInfo, _: &Device, destinations: &[Device]) -> Route {
        Route::Any(destinations.to_vec())
    }

    fn reachable(&self, source: &Device, others: &[Device]) -> Vec<Device> {
        match self.0.iter().position(|device| device == source) {
            Some(place) => vec![self.0[(place + 1) % self.0.len()].clone()],
            None => others.to_vec(),
        }
    }
}

/// A binary tree over `order`: the device at place `i` sends to the one whose place is `i` with its
/// lowest set bit cleared, and the device at place 0 sends to the receivers that are not in `order`
/// (the host) \[G §4.2, §5.1.4\].
pub fn tree_reduce(order: impl IntoIterator<Item = Device>) -> RoutingPolicy {
    TreeReduce(order.into_iter().collect()).into()
}

struct TreeReduce(Vec<Device>);

impl Policy for TreeReduce {
    fn route(&self, _: &MessageInfo, _: &Device, destinations: &[Device]) -> Route {
        Route::All(destinations.to_vec())
    }

    fn reachable(&self, source: &Device, others: &[Device]) -> Vec<Device> {
        match self.0.iter().position(|device| device == source) {
            Some(place) if place > 0 => vec![self.0[place & (place - 1)].clone()],
            Some(_) => others.iter().filter(|device| !self.0.contains(device)).cloned().collect(),
            None => Vec::new(),
        }
    }
}
