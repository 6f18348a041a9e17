//! Dataflow graphs: routers, links and tasks that live and fail together
//! \[G §3\].

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context as TaskContext, Poll};

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, Stream as _};
use millstream_device::{Device, DeviceId, Waits};
use parking_lot::Mutex;

use crate::buffers::Buffers;
use crate::context::Context;
use crate::failure::Failure;
use crate::policy::{RoutingPolicy, first_available};
use crate::receiver::Receiver;
use crate::router::{AnyRouter, Router};
use crate::sender::Sender;
use crate::statistics::LinkStatistics;
use crate::task_thread::TaskThread;
use crate::{Error, Item, Result, Wait};

pub(crate) type Task = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// What the parts of one graph share.
pub(crate) struct GraphShared {
    pub(crate) failure: Arc<Failure>,
    context: Context,
    state: Mutex<State>,
}

struct State {
    sealed: bool,
    routers: Vec<Arc<dyn AnyRouter>>,
    plain_links: HashSet<(DeviceId, DeviceId)>,
}

impl GraphShared {
    /// Adds a router.
    ///
    /// # Errors
    /// [`Error::Sealed`] if the graph runs.
    pub(crate) fn add(&self, router: Arc<dyn AnyRouter>) -> Result<()> {
        let mut state = self.state.lock();
        if state.sealed {
            return Err(Error::Sealed);
        }
        state.routers.push(router);
        Ok(())
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Whether `device` may become an endpoint of this graph.
    pub(crate) fn check_endpoint(&self, device: &Device) -> Result<()> {
        if !self.context.manages(device) {
            return Err(Error::ForeignDevice { device: device.id(), name: device.name() });
        }
        if self.state.lock().sealed { Err(Error::Sealed) } else { Ok(()) }
    }

    fn seal(self: &Arc<Self>) -> Result<()> {
        let waits: Weak<GraphShared> = Arc::downgrade(self);
        self.context.device_set().report_waits_of(waits);
        let routers = self.state.lock().routers.clone();
        routers.iter().try_for_each(|router| router.prepare())?;
        let routers = {
            let mut state = self.state.lock();
            state.sealed = true;
            state.routers.clone()
        };
        routers.iter().try_for_each(|router| router.seal())
    }
}

impl Waits for GraphShared {
    fn waits(&self) -> Vec<String> {
        self.failure.waits().iter().map(Wait::to_string).collect()
    }
}

/// Traffic of a graph's links, and what its calls wait for: readable while the graph runs and afterwards.
#[derive(Clone)]
pub struct GraphStatistics(Arc<GraphShared>);

impl fmt::Debug for GraphStatistics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.links()).finish()
    }
}

impl GraphStatistics {
    /// What the calls of the graph's tasks, and messages that have not gone out, wait for at
    /// present. It helps to find out why a graph hangs, for example from another thread. While the
    /// graph makes progress, the answer is already out of date when it is read, and may include
    /// calls that were given up.
    ///
    /// ```
    /// use millstream_flow::{Buffers, Context, Devices, Error, Graph};
    ///
    /// let context = Context::builder().devices(Devices::host(1)).simulated(1).build()?;
    /// let graph = Graph::new(&context);
    /// let device = &context.devices()[0];
    /// let (feed, mut input) = graph.link::<u32>(device, context.host(), Buffers::items(4))?;
    /// let statistics = graph.statistics();
    /// let hangs = context.block_on(graph.run(async move {
    ///     let first = input.recv().await?; // before anything is sent
    ///     feed.shutdown()?;
    ///     Ok::<_, Error>(first.is_some())
    /// }));
    /// let error = hangs.expect_err("a deadlock").to_string();
    /// assert!(error.contains("host waits for a packet from host:0"), "{error}");
    /// assert!(statistics.waits().is_empty()); // the graph is over
    /// # Ok::<(), Error>(())
    /// ```
    pub fn waits(&self) -> Vec<Wait> {
        self.0.failure.waits()
    }

    /// Every link that carried a packet.
    pub fn links(&self) -> Vec<LinkStatistics> {
        let routers = self.0.state.lock().routers.clone();
        routers.iter().flat_map(|router| router.traffic()).collect()
    }
}

/// A dataflow graph: built from routers, links and tasks, then run as one.
///
/// ```
/// use millstream_flow::{Buffers, Context, Devices, Graph};
///
/// let context = Context::builder().devices(Devices::host(1)).build()?;
/// let graph = Graph::new(&context);
/// let device = &context.devices()[0];
/// let (mut feed, mut input) = graph.link::<u32>(context.host(), device, Buffers::items(4))?;
/// let (mut output, results) = graph.link::<u32>(device, context.host(), Buffers::items(4))?;
/// let stream = device.stream()?;
/// graph.spawn(async move {
///     while let Some(pending) = input.recv().await? {
///         let mut echo = output.buffer(pending.len()).await?;
///         stream.wait(&pending)?;
///         stream.copy(pending.part()?, echo.part_mut()?)?;
///         pending.release_after(&stream)?;
///         output.send(echo, &stream)?;
///     }
///     output.shutdown()
/// });
/// let echoed = context.block_on(graph.run(async move {
///     feed.send_all((0..10).collect::<Vec<u32>>()).await?;
///     feed.shutdown()?;
///     results.collect().await
/// }))??;
/// assert_eq!(echoed, (0..10).collect::<Vec<u32>>());
/// # Ok::<(), millstream_flow::Error>(())
/// ```
pub struct Graph {
    shared: Arc<GraphShared>,
    tasks: Mutex<Vec<Task>>,
    _end: EndOnDrop,
}

impl fmt::Debug for Graph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.tasks.lock().len();
        formatter.debug_struct("Graph").field("tasks", &tasks).finish_non_exhaustive()
    }
}

impl Graph {
    /// An empty graph on the devices of `context`.
    pub fn new(context: &Context) -> Graph {
        let state = State { sealed: false, routers: Vec::new(), plain_links: HashSet::new() };
        let failure = Arc::<Failure>::default();
        let _end = EndOnDrop(Arc::clone(&failure));
        let shared = GraphShared { failure, context: context.clone(), state: Mutex::new(state) };
        Graph { shared: Arc::new(shared), tasks: Mutex::new(Vec::new()), _end }
    }

    /// Adds a router.
    ///
    /// # Errors
    /// None while the graph is being built.
    pub fn router<T: Item>(&self, policy: RoutingPolicy) -> Result<Router<T>> {
        let router = Router::new(policy, Arc::clone(&self.shared));
        router.join_graph()?;
        Ok(router)
    }

    /// Adds a link between two endpoints, without a router of the program's own.
    ///
    /// # Errors
    /// A link from an endpoint to itself or a second link between the same two
    /// \[G §3\]; as [`Router::receiver`]. The graph is then as before.
    pub fn link<T: Item>(
        &self,
        from: &Device,
        to: &Device,
        buffers: Buffers,
    ) -> Result<(Sender<T>, Receiver<T>)> {
        if from == to {
            return Err(Error::SelfLoop { endpoint: from.name() });
        }
        // Ids alone do not tell: devices of other contexts have the same ones.
        [from, to].into_iter().try_for_each(|end| self.shared.check_endpoint(end))?;
        let link = (from.id(), to.id());
        if !self.shared.state.lock().plain_links.insert(link) {
            return Err(Error::DuplicateLink { from: from.name(), to: to.name() });
        }
        let router = Router::new(first_available(), Arc::clone(&self.shared));
        // Neither end joins the graph before both exist: a refused link leaves nothing behind.
        let ends = || {
            let sender = router.new_sender(from)?;
            let receiver = router.receiver_from([from], to, buffers)?;
            router.join_graph()?;
            Ok((Sender::new(sender), receiver))
        };
        ends().inspect_err(|_| {
            self.shared.state.lock().plain_links.remove(&link);
        })
    }

    /// Adds a task. It is polled by [`Graph::run`], on whatever executor runs that. A task returns
    /// an error of its own as [`Error::task`] wraps it, or boxed.
    pub fn spawn<E: Into<Error>>(
        &self,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.tasks.lock().push(Box::pin(task.map(|result| result.map_err(Into::into))));
    }

    /// Adds a task that is polled by a thread of its own while the graph runs: for programs whose
    /// tasks keep one thread busy, such as tasks of many GPUs that call the driver every few
    /// microseconds. It fails and is dropped like any other task, except that when the graph ends,
    /// it may be dropped before its pending calls have seen the cause. If no thread can be started
    /// for it, the graph fails with [`Start`](millstream_device::Error::Start). A simulation polls
    /// it like any other task.
    ///
    /// ```
    /// use millstream_flow::{Context, Devices, Error, Graph};
    ///
    /// let context = Context::builder().devices(Devices::host(1)).build()?;
    /// let graph = Graph::new(&context);
    /// let caller = std::thread::current().id();
    /// graph.spawn_on_thread(async move {
    ///     assert_ne!(std::thread::current().id(), caller);
    ///     Ok::<_, Error>(())
    /// });
    /// context.block_on(graph.run(async { Ok::<_, Error>(()) }))??;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn spawn_on_thread<E: Into<Error>>(
        &self,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let set = self.shared.context.device_set();
        if set.simulation().is_some() {
            return self.spawn(task);
        }
        let task = task.map(|result| result.map_err(Into::into));
        let mut task: Task = Box::pin(AssertUnwindSafe(task).catch_unwind().map(flatten));
        let failure = Arc::clone(&self.shared.failure);
        let task = poll_fn(move |context| failure.polled(|| task.as_mut().poll(context)));
        self.spawn(TaskThread::new(Box::pin(task), set.clone()));
    }

    /// Traffic of this graph's links.
    pub fn statistics(&self) -> GraphStatistics {
        GraphStatistics(Arc::clone(&self.shared))
    }

    /// Seals the graph and runs its tasks and `main` to their ends. They run on the caller's task,
    /// except those [on threads](Graph::spawn_on_thread); no executor is needed.
    ///
    /// # Errors
    /// The first error or panic of any task, of `main` or of a device; every
    /// pending call of the graph ends with the same cause.
    ///
    /// # Cancel safety
    /// Dropping the future drops all tasks and ends the graph; dropping a graph that has never run
    /// does the same. Buffers are freed when the devices are done with them. The drop waits until
    /// tasks [on threads](Graph::spawn_on_thread) have come to their next await.
    ///
    /// # Device ordering
    /// When it resolves, tasks are over. What they have submitted may still run: await its events, or use
    /// [`quiesce`](millstream_device::DeviceSet::quiesce).
    pub async fn run<R, E: Into<Error>>(
        self,
        main: impl Future<Output = Result<R, E>>,
    ) -> Result<R> {
        let failure = Arc::clone(&self.shared.failure);
        self.shared.seal().unwrap_or_else(|error| failure.fail(error));
        let mut main = pin!(AssertUnwindSafe(main).catch_unwind().map(flatten::<R, E>).fuse());
        let mut tasks: FuturesUnordered<_> = std::mem::take(&mut *self.tasks.lock())
            .into_iter()
            .map(|task| AssertUnwindSafe(task).catch_unwind().map(flatten::<(), Error>))
            .collect();
        let mut result = None;
        let outcome = poll_fn(|context| {
            failure.register_runner(context);
            if result.is_none() {
                result = poll_main(main.as_mut(), context, &failure);
            }
            let all_done = poll_tasks(&mut tasks, context, &failure);
            if let Some(cause) = failure.cause() {
                // Poll once more, woken or not, so that every pending call sees its cause.
                let _ = main.as_mut().poll(context);
                for task in Pin::new(&mut tasks).iter_pin_mut() {
                    let _ = task.poll(context);
                }
                return Poll::Ready(Err(cause.clone()));
            }
            match result.take() {
                Some(value) if all_done => Poll::Ready(Ok(value)),
                value => {
                    result = value;
                    Poll::Pending
                }
            }
        });
        let outcome = outcome.await;
        failure.fail(Error::Ended);
        outcome
    }
}

fn poll_main<R>(
    main: Pin<&mut impl Future<Output = Result<R>>>,
    context: &mut TaskContext<'_>,
    failure: &Failure,
) -> Option<R> {
    let polled = main.poll(context);
    let value = match polled {
        Poll::Ready(Ok(value)) => Some(value),
        Poll::Ready(Err(error)) => {
            failure.fail(error);
            None
        }
        Poll::Pending => None,
    };
    failure.promote_suspicion();
    value
}

fn poll_tasks<F: Future<Output = Result<()>>>(
    tasks: &mut FuturesUnordered<F>,
    context: &mut TaskContext<'_>,
    failure: &Failure,
) -> bool {
    loop {
        let polled = Pin::new(&mut *tasks).poll_next(context);
        if let Poll::Ready(Some(Err(error))) = &polled {
            failure.fail(error.clone());
        }
        failure.promote_suspicion();
        match polled {
            Poll::Ready(Some(_)) => {}
            Poll::Ready(None) => return true,
            Poll::Pending => return false,
        }
    }
}

fn flatten<R, E: Into<Error>>(outcome: Result<Result<R, E>, Box<dyn Any + Send>>) -> Result<R> {
    match outcome {
        Ok(result) => result.map_err(Into::into),
        Err(panic) => Err(Error::panicked(panic)),
    }
}

/// Ends all waiting, whatever happens to the graph or to the future that runs it.
struct EndOnDrop(Arc<Failure>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.fail(Error::Cancelled);
        self.0.clear_ports();
    }
}
