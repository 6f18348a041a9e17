//! How kernels take buffers: what a signature names, and what a call passes.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use smallvec::SmallVec;

use crate::layout::ArgumentWriter;
use crate::ledger::AccessKind;
use crate::memory::{Allocation, DeviceBuffer};
use crate::part::{Part, PartMut};
use crate::shared::{AtomicPod, SharedBuffer};
use crate::task::Place;
use crate::{Error, Result};

/// The buffers that one launch uses, collected while its arguments are bound.
#[derive(Debug, Default)]
pub struct Accesses {
    pub(crate) list: SmallVec<[(Arc<Allocation>, AccessKind); 4]>,
    /// Whether the accesses are counted as [`BoundUses`](crate::bound_uses::BoundUses).
    is_bound: bool,
}

impl Accesses {
    pub(crate) fn of<const N: usize>(list: [(Arc<Allocation>, AccessKind); N]) -> Accesses {
        Accesses { list: list.into_iter().collect(), is_bound: false }
    }

    /// Counts the accesses as bound: the program goes on before they are entered in the ledger.
    pub(crate) fn bind(&mut self) {
        self.list.iter().for_each(|(allocation, kind)| allocation.bound.begin(*kind));
        self.is_bound = true;
    }

    /// The accesses have been entered in the ledger, or never will be.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.is_bound) {
            self.list.iter().for_each(|(allocation, kind)| allocation.bound.end(*kind));
        }
    }

    pub(crate) fn add(&mut self, allocation: &Arc<Allocation>, kind: AccessKind) {
        // Several reads, or several shared uses, of parts of one buffer are a single access.
        let known = self.list.iter().any(|(earlier, earlier_kind)| {
            Arc::ptr_eq(earlier, allocation) && kind == *earlier_kind && kind != AccessKind::Write
        });
        if !known {
            self.list.push((Arc::clone(allocation), kind));
        }
    }
}

impl Drop for Accesses {
    fn drop(&mut self) {
        self.end();
    }
}

/// One parameter of a kernel's signature. [`Read`], [`Write`], [`Shared`],
/// [`Value`] and tuples of parameters are; a program may combine several under
/// names of its own.
///
/// # Safety
/// The ledger has ordered a launch by what was declared when its arguments were
/// [bound](Argument::bind), and kernels take these in the places of their signature. So
/// * `write` and `view` give out what `bound` holds, each part as the parameter that it was bound as,
///   and in the same place each time;
/// * `write` keeps nothing of `bound`, and puts nothing else there;
/// * `join` leaves in `bound` what a kernel may do as if it were both launches: no part in the place
///   of one that was bound as another parameter. It keeps nothing of either.
///
/// ```
/// # use millstream_device::{ArgumentWriter, Parameter, Read, Value};
/// /// Items, and where to begin.
/// struct From;
///
/// type Parts = (Read<u32>, Value<u64>);
///
/// // SAFETY: the parts do, and are all there is.
/// unsafe impl Parameter for From {
///     type Bound = <Parts as Parameter>::Bound;
///     type View<'a> = <Parts as Parameter>::View<'a>;
///
///     fn write(bound: &Self::Bound, to: &mut ArgumentWriter) {
///         Parts::write(bound, to);
///     }
///
///     unsafe fn view(bound: &Self::Bound) -> Self::View<'_> {
///         // SAFETY: the caller's promise.
///         unsafe { Parts::view(bound) }
///     }
/// }
/// ```
///
/// Who does not answer for that, has no parameter. Joined so, a launch would write what each of the
/// two was only to read, beside others who read it:
///
/// ```compile_fail,E0200
/// # use millstream_device::{ArgumentWriter, Parameter, Read, Write};
/// struct Swapped;
///
/// type Parts = (Read<u32>, Write<u32>);
///
/// impl Parameter for Swapped {
///     type Bound = <Parts as Parameter>::Bound;
///     type View<'a> = <Parts as Parameter>::View<'a>;
///
///     fn write(bound: &Self::Bound, to: &mut ArgumentWriter) {
///         Parts::write(bound, to);
///     }
///
///     unsafe fn view(bound: &Self::Bound) -> Self::View<'_> {
///         unsafe { Parts::view(bound) }
///     }
///
///     fn join(bound: &mut Self::Bound, next: Self::Bound) -> Option<Self::Bound> {
///         std::mem::swap(&mut bound.0, &mut bound.1);
///         Some(next)
///     }
/// }
/// ```
pub unsafe trait Parameter {
    /// Whether a kernel that takes it [tells](crate::Tell): not unless the signature is a tuple with a
    /// `Tell`, or with such a tuple.
    #[doc(hidden)]
    const TELLS: bool = false;

    /// The argument while the launch is queued.
    type Bound: Send + 'static;
    /// What the kernel's host twin sees, on all its threads.
    type View<'a>: Send + Sync;

    /// Writes the argument as a GPU's kernel takes it: see [`ArgumentWriter`].
    fn write(bound: &Self::Bound, to: &mut ArgumentWriter);

    /// Gives the twin its view.
    ///
    /// # Safety
    /// The operation whose accesses were declared while binding is running: the
    /// ledger has ordered it, and nothing that conflicts runs beside it.
    unsafe fn view(bound: &Self::Bound) -> Self::View<'_>;

    /// Merges two launches of a kernel, `next` right after `bound`, into one that does what both
    /// would, or returns `next` if that is impossible. The merged launch has the accesses of both;
    /// both are for the same GPU. It is called while the queue of launches is locked, so it must be
    /// short, not panic, and use no stream.
    fn join(bound: &mut Self::Bound, next: Self::Bound) -> Option<Self::Bound> {
        let _ = bound;
        Some(next)
    }

    /// Whether the last launch in the queue had better wait for others to [join](Parameter::join)
    /// it, because its GPU has not yet come to what it was given before: launched now, it would
    /// wait there, and later ones would need launches of their own. This is asked again until it
    /// returns `false`, but for a tenth of a millisecond at most, and only while nobody else waits
    /// for what is queued. Like `join`, it must be short, not panic, and use no stream.
    fn gathers(bound: &Self::Bound) -> bool {
        let _ = bound;
        false
    }
}

/// Something that a call may pass for parameter `P`.
///
/// # Safety
/// The ledger orders kernels by what `bind` declares, and twins get views accordingly. So `bind`
/// * declares all that the value it returns lets the kernel use, by binding each part in the
///   `accesses` that it is given, and takes nothing out of there;
/// * returns nothing that was bound at another time or in other accesses, unless the memory is used
///   by atomics alone, whoever uses it;
/// * keeps no view of that memory, nor gives one away.
///
/// ```
/// # use millstream_device::{Accesses, Argument, DeviceBuffer, Parameter, Read, Result, Value};
/// /// Items, and where to begin.
/// struct From<'a>(&'a DeviceBuffer<u32>, u64);
///
/// // SAFETY: all that is returned is bound in the accesses, here and now.
/// unsafe impl Argument<(Read<u32>, Value<u64>)> for From<'_> {
///     fn bind(
///         self,
///         accesses: &mut Accesses,
///     ) -> Result<<(Read<u32>, Value<u64>) as Parameter>::Bound> {
///         Argument::<(Read<u32>, Value<u64>)>::bind((self.0, self.1), accesses)
///     }
/// }
/// ```
///
/// Who does not answer for that, has no argument:
///
/// ```compile_fail,E0200
/// # use millstream_device::{Accesses, Argument, DeviceBuffer, Parameter, Result, Write};
/// struct Twice<'a>(&'a mut DeviceBuffer<u32>);
///
/// impl Argument<(Write<u32>, Write<u32>)> for Twice<'_> {
///     fn bind(
///         self,
///         _: &mut Accesses,
///     ) -> Result<<(Write<u32>, Write<u32>) as Parameter>::Bound> {
///         let one = Argument::<Write<u32>>::bind(&mut *self.0, &mut Accesses::default())?;
///         Ok((one, Argument::<Write<u32>>::bind(self.0, &mut Accesses::default())?))
///     }
/// }
/// ```
pub unsafe trait Argument<P: Parameter> {
    /// Declares what the kernel will access, and holds it for the launch.
    ///
    /// # Errors
    /// A range that does not lie in its buffer.
    fn bind(self, accesses: &mut Accesses) -> Result<P::Bound>;
}

/// Items that the kernel reads; the twin sees `&[T]`.
#[derive(Debug)]
pub struct Read<T>(PhantomData<T>);

/// Items that only this kernel uses; the twin sees `&mut [T]`.
#[derive(Debug)]
pub struct Write<T>(PhantomData<T>);

/// Items that many kernels use at once; the twin sees `&[Atomic]`.
#[derive(Debug)]
pub struct Shared<T>(PhantomData<T>);

/// One buffer for each device, which kernels of all of them use at once; the twin
/// sees a `&[Atomic]` for each. At most [`SharedSet::MOST`].
#[derive(Debug)]
pub struct SharedSet<T>(PhantomData<T>);

impl<T> SharedSet<T> {
    /// Buffers at most.
    pub const MOST: usize = 16;
}

/// A value; the twin sees it.
#[derive(Debug)]
pub struct Value<T>(PhantomData<T>);

// SAFETY: what is bound is given out in its place and in the way in which it was bound.
unsafe impl<T: Pod + Send + Sync> Parameter for Read<T> {
    type Bound = Bound;
    type View<'a> = &'a [T];

    fn write(bound: &Bound, to: &mut ArgumentWriter) {
        to.span(bound.0.address(), bound.0.len::<T>());
    }

    unsafe fn view(bound: &Bound) -> &[T] {
        // SAFETY: in range; no write runs beside this operation.
        unsafe { std::slice::from_raw_parts(bound.0.items(), bound.0.len::<T>()) }
    }
}

// SAFETY: what is bound is given out in its place and in the way in which it was bound.
unsafe impl<T: Pod + Send + Sync> Parameter for Write<T> {
    type Bound = Bound;
    type View<'a> = &'a mut [T];

    fn write(bound: &Bound, to: &mut ArgumentWriter) {
        to.span(bound.0.address(), bound.0.len::<T>());
    }

    unsafe fn view(bound: &Bound) -> &mut [T] {
        // SAFETY: in range; nothing else uses the buffer beside this operation,
        // and a launch that names it twice is refused.
        unsafe { std::slice::from_raw_parts_mut(bound.0.items(), bound.0.len::<T>()) }
    }
}

// SAFETY: what is bound is given out in its place and in the way in which it was bound.
unsafe impl<T: AtomicPod> Parameter for Shared<T> {
    type Bound = Bound;
    type View<'a> = &'a [T::Atomic];

    fn write(bound: &Bound, to: &mut ArgumentWriter) {
        to.span(bound.0.address(), bound.0.len::<T>());
    }

    unsafe fn view(bound: &Bound) -> &[T::Atomic] {
        let items = bound.0.items::<T>().cast::<T::Atomic>();
        // SAFETY: in range and aligned, of the same size; whatever runs beside this operation uses
        // the same atomics.
        unsafe { std::slice::from_raw_parts(items, bound.0.len::<T>()) }
    }
}

// SAFETY: what is bound is given out in its place and in the way in which it was bound.
unsafe impl<T: AtomicPod> Parameter for SharedSet<T> {
    type Bound = Arc<[Bound]>;
    type View<'a> = Vec<&'a [T::Atomic]>;

    fn write(bound: &Arc<[Bound]>, to: &mut ArgumentWriter) {
        spans::<T>(bound, to);
    }

    unsafe fn view(bound: &Arc<[Bound]>) -> Vec<&[T::Atomic]> {
        // SAFETY: the caller's promise covers every buffer.
        bound.iter().map(|bound| unsafe { Shared::<T>::view(bound) }).collect()
    }
}

// SAFETY: no memory is bound.
unsafe impl<T: Pod + Send + Sync> Parameter for Value<T> {
    type Bound = T;
    type View<'a> = T;

    fn write(bound: &T, to: &mut ArgumentWriter) {
        to.value(bound);
    }

    unsafe fn view(bound: &T) -> T {
        *bound
    }
}

/// Items held by a queued launch. Those that are the same items are equal.
#[derive(Debug)]
pub struct Bound(pub(crate) Place);

impl Bound {
    /// Whether some memory is of both.
    ///
    /// ```
    /// use millstream_device::{Accesses, Argument, DeviceList, DeviceSet, Read};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let items = set.devices()[0].buffer::<u32>(4)?;
    /// let mut accesses = Accesses::default();
    /// let mut bind = |range| Argument::<Read<u32>>::bind(items.part(range)?, &mut accesses);
    /// let (first, second, both) = (bind(0..2)?, bind(2..4)?, bind(1..3)?);
    /// assert!(first.overlaps(&both) && second.overlaps(&both) && !first.overlaps(&second));
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    pub fn overlaps(&self, other: &Bound) -> bool {
        let (one, other) = (self.addresses(), other.addresses());
        one.start.max(other.start) < one.end.min(other.end)
    }

    fn addresses(&self) -> Range<usize> {
        let start = self.0.address() as usize;
        start..start + self.0.bytes()
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Bound) -> bool {
        self.addresses() == other.addresses()
    }
}

impl Eq for Bound {}

/// Checks that kernels can take this many buffers together.
///
/// # Errors
/// [`Error::TooManyBuffers`] if they cannot.
pub(crate) fn check_set_length(buffers: usize) -> Result<()> {
    const MOST: usize = SharedSet::<u32>::MOST;
    match buffers {
        ..=MOST => Ok(()),
        buffers => Err(Error::TooManyBuffers { buffers, most: MOST }),
    }
}

/// Writes as many spans as kernels take; those without a buffer are empty.
pub(crate) fn spans<T: Pod>(buffers: &[Bound], to: &mut ArgumentWriter) {
    const MOST: usize = SharedSet::<u32>::MOST;
    let mut spans = [[0_u64; 2]; MOST];
    for (span, Bound(place)) in spans.iter_mut().zip(buffers) {
        *span = [place.address() as u64, place.len::<T>() as u64];
    }
    // Written in one piece: each part costs time, even when there are only a few buffers.
    to.value(&spans);
}

// SAFETY: the part, which this delegates to, declares it.
unsafe impl<T: Pod + Send + Sync> Argument<Read<T>> for &DeviceBuffer<T> {
    fn bind(self, accesses: &mut Accesses) -> Result<Bound> {
        Part::from(self).bind(accesses)
    }
}

// SAFETY: a read of what is returned is declared.
unsafe impl<T: Pod + Send + Sync> Argument<Read<T>> for Part<'_, T> {
    fn bind(self, accesses: &mut Accesses) -> Result<Bound> {
        self.allocation.refuse_guarded()?;
        accesses.add(self.allocation, AccessKind::Read);
        Ok(Bound(Place::new::<T>(self.allocation, &self.range)))
    }
}

// SAFETY: the part, which this delegates to, declares it.
unsafe impl<T: Pod + Send + Sync> Argument<Write<T>> for &mut DeviceBuffer<T> {
    fn bind(self, accesses: &mut Accesses) -> Result<Bound> {
        PartMut::from(self).bind(accesses)
    }
}

// SAFETY: a write of what is returned is declared.
unsafe impl<T: Pod + Send + Sync> Argument<Write<T>> for PartMut<'_, T> {
    fn bind(self, accesses: &mut Accesses) -> Result<Bound> {
        self.allocation.refuse_guarded()?;
        accesses.add(self.allocation, AccessKind::Write);
        Ok(Bound(Place::new::<T>(self.allocation, &self.range)))
    }
}

// SAFETY: a shared use of what is returned is declared.
unsafe impl<T: AtomicPod> Argument<Shared<T>> for &SharedBuffer<T> {
    fn bind(self, accesses: &mut Accesses) -> Result<Bound> {
        accesses.add(self.allocation(), AccessKind::Shared);
        Ok(Bound(Place::new::<T>(self.allocation(), &(0..self.len()))))
    }
}

/// More than [`SharedSet::MOST`] are refused.
// SAFETY: each buffer declares its own use.
unsafe impl<T: AtomicPod> Argument<SharedSet<T>> for &[&SharedBuffer<T>] {
    fn bind(self, accesses: &mut Accesses) -> Result<Arc<[Bound]>> {
        check_set_length(self.len())?;
        self.iter().map(|buffer| Argument::<Shared<T>>::bind(*buffer, accesses)).collect()
    }
}

// SAFETY: the kernel uses no memory.
unsafe impl<T: Pod + Send + Sync> Argument<Value<T>> for T {
    fn bind(self, _: &mut Accesses) -> Result<T> {
        Ok(self)
    }
}

macro_rules! tuple {
    ($($parameter:ident $argument:ident $value:ident),+) => {
        // SAFETY: each part keeps the promise, in its place.
        unsafe impl<$($parameter: Parameter),+> Parameter for ($($parameter,)+) {
            const TELLS: bool = $($parameter::TELLS)||+;

            type Bound = ($($parameter::Bound,)+);
            type View<'a> = ($($parameter::View<'a>,)+);

            fn write(bound: &Self::Bound, to: &mut ArgumentWriter) {
                let ($($value,)+) = bound;
                to.structure(|to| {
                    $($parameter::write($value, to);)+
                });
            }

            unsafe fn view(bound: &Self::Bound) -> Self::View<'_> {
                let ($($value,)+) = bound;
                // SAFETY: the caller's promise covers every part.
                unsafe { ($($parameter::view($value),)+) }
            }
        }

        // SAFETY: each part declares its own accesses.
        unsafe impl<$($parameter: Parameter, $argument: Argument<$parameter>),+>
            Argument<($($parameter,)+)> for ($($argument,)+)
        {
            fn bind(self, accesses: &mut Accesses) -> Result<($($parameter::Bound,)+)> {
                let ($($value,)+) = self;
                Ok(($($value.bind(accesses)?,)+))
            }
        }
    };
}

tuple!(P0 A0 a0);
tuple!(P0 A0 a0, P1 A1 a1);
tuple!(P0 A0 a0, P1 A1 a1, P2 A2 a2);
tuple!(P0 A0 a0, P1 A1 a1, P2 A2 a2, P3 A3 a3);
tuple!(P0 A0 a0, P1 A1 a1, P2 A2 a2, P3 A3 a3, P4 A4 a4);
tuple!(P0 A0 a0, P1 A1 a1, P2 A2 a2, P3 A3 a3, P4 A4 a4, P5 A5 a5);
tuple!(P0 A0 a0, P1 A1 a1, P2 A2 a2, P3 A3 a3, P4 A4 a4, P5 A5 a5, P6 A6 a6);
tuple!(P0 A0 a0, P1 A1 a1, P2 A2 a2, P3 A3 a3, P4 A4 a4, P5 A5 a5, P6 A6 a6, P7 A7 a7);
tuple!(P0 A0 a0, P1 A1 a1, P2 A2 a2, P3 A3 a3, P4 A4 a4, P5 A5 a5, P6 A6 a6, P7 A7 a7, P8 A8 a8);
tuple!(P0 A0 a0, P1 A1 a1, P2 A2 a2, P3 A3 a3, P4 A4 a4, P5 A5 a5, P6 A6 a6, P7 A7 a7, P8 A8 a8, P9 A9 a9);
