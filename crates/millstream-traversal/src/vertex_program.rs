//! What worklist programs whose items are vertices with values share: the twin of
//! `vertex_program.cuh`.

use std::ops::Range;

use millstream_device::{Parameter, Trusted};
use millstream_worklist::{CudaProgram, Flags, Here, Problem, Program, View};

use crate::owners::Owners;
use crate::value::{Packet, PacketValue};

/// What a vertex program's callbacks see of its memory on a device.
pub type VertexView<'a, P> = <<P as VertexProgram>::Problem as Parameter>::View<'a>;

/// A program on a distributed worklist whose items are vertices, by new id, which the devices
/// own as [`Owners`] says; [`Vertices`] makes a [`Program`] of it. `docs/worklist.md` walks
/// through one.
///
/// These are the host twins: see [`Program`]. They must not wait.
pub trait VertexProgram: Sized + Send + Sync + 'static {
    /// What goes to the owner of a vertex.
    type Value: PacketValue;
    /// The program's memory on one device.
    type Problem: Problem;

    /// The present value of `vertex`, to be sent to its owner.
    fn value(&self, view: &VertexView<'_, Self>, vertex: u32) -> Self::Value;

    /// Applies a value that has come to `vertex`, here or on the way to its owner. Returns whether
    /// it is news: then the vertex is processed if this device owns it, and passed on otherwise.
    fn receive(
        &self,
        view: &VertexView<'_, Self>,
        vertex: u32,
        value: Self::Value,
        is_own: bool,
    ) -> bool;

    /// As [`Program::priority`].
    fn priority(&self, _view: &VertexView<'_, Self>, _vertex: u32) -> u32 {
        0
    }

    /// As [`Program::process`], of a vertex that the device owns.
    fn process(
        &self,
        view: &VertexView<'_, Self>,
        place: &Place<'_>,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    );

    /// As [`Program::process_block`].
    fn process_block(
        &self,
        view: &VertexView<'_, Self>,
        place: &Place<'_>,
        vertices: &[u32],
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    ) {
        for &vertex in vertices {
            self.process(view, place, vertex, emit, filtered);
        }
    }

    /// As [`Program::cuda`]: a class that derives from `VertexProgram` of `vertex_program.cuh`.
    fn cuda() -> Option<Trusted<CudaProgram>> {
        None
    }
}

/// The device that processes a vertex.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    owners: &'a Owners,
    device: usize,
}

impl Place<'_> {
    /// Whether the device owns `vertex`.
    #[inline]
    pub fn owns(&self, vertex: u32) -> bool {
        self.owned().contains(&vertex)
    }

    /// The vertices that it owns.
    #[inline]
    pub fn owned(&self) -> Range<u32> {
        self.owners.of(self.device)
    }

    /// The place of an owned vertex among its rows.
    #[inline]
    pub fn row(&self, vertex: u32) -> usize {
        (vertex - self.owned().start) as usize
    }

    /// The arcs of an owned vertex, in the row index of its part.
    #[inline]
    pub fn arcs(&self, offsets: &[u64], vertex: u32) -> Range<usize> {
        let row = self.row(vertex);
        offsets[row] as usize..offsets[row + 1] as usize
    }
}

/// A [`VertexProgram`] as a [`Program`].
#[derive(Debug)]
pub struct Vertices<P> {
    owners: Owners,
    program: P,
}

impl<P> Vertices<P> {
    /// `program`, on vertices that have these owners.
    pub fn new(owners: Owners, program: P) -> Vertices<P> {
        Vertices { owners, program }
    }

    fn place(&self, here: &Here) -> Place<'_> {
        Place { owners: &self.owners, device: here.device }
    }
}

impl<P: VertexProgram> Program for Vertices<P> {
    type Packet = Packet<P::Value>;
    type Problem = P::Problem;

    fn pack(&self, view: &View<'_, Self>, _: &Here, vertex: u32) -> Packet<P::Value> {
        Packet::new(self.program.value(view, vertex), vertex)
    }

    fn unpack(&self, _: &View<'_, Self>, _: &Here, packet: &Packet<P::Value>) -> u32 {
        packet.vertex
    }

    fn on_send(&self, _: &View<'_, Self>, here: &Here, vertex: u32) -> Flags {
        if self.place(here).owns(vertex) { Flags::Keep } else { Flags::Pass }
    }

    fn on_receive(&self, view: &View<'_, Self>, here: &Here, packet: &Packet<P::Value>) -> Flags {
        let is_own = self.place(here).owns(packet.vertex);
        match self.program.receive(view, packet.vertex, packet.value, is_own) {
            false => Flags::Drop,
            true if is_own => Flags::Keep,
            true => Flags::Pass,
        }
    }

    fn priority(&self, view: &View<'_, Self>, vertex: u32) -> u32 {
        self.program.priority(view, vertex)
    }

    fn owner(&self, vertex: u32) -> Option<usize> {
        Some(self.owners.owner(vertex))
    }

    fn most_queued(&self, _: usize) -> usize {
        self.owners.most_owned()
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        P::cuda()
    }

    fn process(
        &self,
        view: &View<'_, Self>,
        here: &Here,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    ) {
        self.program.process(view, &self.place(here), vertex, emit, filtered);
    }

    fn process_block(
        &self,
        view: &View<'_, Self>,
        here: &Here,
        vertices: &[u32],
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    ) {
        self.program.process_block(view, &self.place(here), vertices, emit, filtered);
    }
}
