//! A program's memory on a device \[G §4.6\], declared once for the host, for the
//! program's twins and for the check of its CUDA C++.

use std::sync::Arc;

use millstream_device::{
    Accesses, Argument, AtomicPod, DeviceBuffer, FieldLayout, Parameter, Pod, Read, Result, Shared,
    SharedBuffer, StructLayout, Value,
};

/// A program's memory on one device, as kernels take it: made by
/// [`problem!`](crate::problem!).
///
/// # Safety
/// The implementation of `bind` must meet the requirements for that of an [`Argument`].
pub unsafe trait Problem: Parameter + Send + Sync + 'static {
    /// Its members, in order.
    #[doc(hidden)]
    const MEMBERS: &'static [MemberLayout];

    /// Passes the members to a kernel.
    ///
    /// # Errors
    /// None, unless a range is wrong.
    fn bind(&self, accesses: &mut Accesses) -> Result<Self::Bound>;
}

/// A parameter that may be a member of a problem, which several kernels use at once:
/// [`Read`], [`Shared`] or [`Value`].
///
/// # Safety
/// The implementation of `bind` must meet the requirements for that of an [`Argument`].
pub unsafe trait Member: Parameter {
    /// What holds it on the host.
    type Holder: Send + Sync + 'static;
    /// Bytes and alignment in CUDA C++.
    const LAYOUT: (usize, usize);

    /// Passes it to a kernel.
    ///
    /// # Errors
    /// None, unless a range is wrong.
    fn bind(holder: &Self::Holder, accesses: &mut Accesses) -> Result<Self::Bound>;
}

/// How a member lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberLayout {
    /// Its name, in Rust and in CUDA C++.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// Alignment of the member in bytes.
    pub alignment: usize,
}

/// A pointer and a length.
const SPAN: (usize, usize) = (16, 8);

// SAFETY: the argument meets the requirements.
unsafe impl<T: Pod + Send + Sync> Member for Read<T> {
    type Holder = Arc<DeviceBuffer<T>>;
    const LAYOUT: (usize, usize) = SPAN;

    fn bind(holder: &Arc<DeviceBuffer<T>>, accesses: &mut Accesses) -> Result<Self::Bound> {
        Argument::<Read<T>>::bind(&**holder, accesses)
    }
}

// SAFETY: the argument meets the requirements.
unsafe impl<T: AtomicPod> Member for Shared<T> {
    type Holder = SharedBuffer<T>;
    const LAYOUT: (usize, usize) = SPAN;

    fn bind(holder: &SharedBuffer<T>, accesses: &mut Accesses) -> Result<Self::Bound> {
        Argument::<Shared<T>>::bind(holder, accesses)
    }
}

// SAFETY: the argument meets the requirements.
unsafe impl<T: Pod + Send + Sync> Member for Value<T> {
    type Holder = T;
    const LAYOUT: (usize, usize) = (size_of::<T>(), align_of::<T>());

    fn bind(holder: &T, accesses: &mut Accesses) -> Result<Self::Bound> {
        Argument::<Value<T>>::bind(*holder, accesses)
    }
}

/// C++ that fails to compile for a class `program` whose `Problem` has another layout.
pub(crate) fn layout_checks<P: Problem>(program: &str) -> String {
    let mut end = 0;
    let field = |&MemberLayout { name, size, alignment }| {
        let offset = usize::next_multiple_of(end, alignment);
        end = offset + size;
        FieldLayout { name, offset, size }
    };
    let fields: Vec<_> = P::MEMBERS.iter().map(field).collect();
    let alignment = P::MEMBERS.iter().map(|member| member.alignment).max().unwrap_or(1);
    let (name, size) = (&format!("{program}::Problem"), end.next_multiple_of(alignment));
    StructLayout { name, size, alignment, fields: &fields }.checks()
}

/// Defines a program's memory on one device, and what its callbacks see of it.
///
/// The members are kernel parameters: [`Read`] (held by an
/// `Arc<DeviceBuffer<T>>`, seen as `&[T]`), [`Shared`] (a `SharedBuffer<T>`, seen as
/// atomics) and [`Value`] (a `T`). The struct `Problem` of the CUDA C++ has the same
/// members in the same order, spans for buffers; the compiler checks it.
///
/// ```
/// use millstream_device::{Read, Shared, Value};
/// use millstream_flow::{Context, Devices};
///
/// millstream_worklist::problem! {
///     /// Widths for all vertices, and rows of some.
///     struct Rows, RowsView {
///         offsets: Read<u64>,
///         widths: Shared<u32>,
///         limit: Value<u32>,
///     }
/// }
///
/// fn row(view: &RowsView<'_>, vertex: usize) -> u64 {
///     view.offsets[vertex].min(u64::from(view.limit))
/// }
///
/// let context = Context::builder().devices(Devices::host(1)).build()?;
/// let device = &context.devices()[0];
/// let offsets = device.stream()?.uploaded(vec![0, 3, 5])?.into();
/// let rows = Rows { offsets, widths: device.shared(9)?, limit: 4 };
/// # let _ = (rows, row);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! problem {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $Problem:ident
            $(<$($generic:ident: $bound:path),+>)?, $View:ident {
            $(
                $(#[$member_attribute:meta])*
                $member_visibility:vis $member:ident: $parameter:ty
            ),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $Problem$(<$($generic: $bound),+>)? {
            $(
                $(#[$member_attribute])*
                $member_visibility $member: <$parameter as $crate::internals::Member>::Holder,
            )+
        }

        #[doc = concat!("What callbacks see of a [`", stringify!($Problem), "`].")]
        $visibility struct $View<'a $($(, $generic: $bound)+)?> {
            $(
                $(#[$member_attribute])*
                #[allow(dead_code)]
                $member_visibility $member: <$parameter as $crate::internals::Parameter>::View<'a>,
            )+
        }

        impl$(<$($generic: $bound),+>)? ::std::fmt::Debug for $Problem$(<$($generic),+>)? {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.write_str(stringify!($Problem))
            }
        }

        impl<'a $($(, $generic: $bound)+)?> ::std::fmt::Debug for $View<'a $($(, $generic)+)?> {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.write_str(stringify!($View))
            }
        }

        // SAFETY: each member meets the requirements, in its place.
        unsafe impl$(<$($generic: $bound),+>)? $crate::internals::Parameter
            for $Problem$(<$($generic),+>)?
        {
            type Bound = ($(<$parameter as $crate::internals::Parameter>::Bound,)+);
            type View<'a> = $View<'a $($(, $generic)+)?>;

            fn write(bound: &Self::Bound, to: &mut $crate::internals::ArgumentWriter) {
                let ($($member,)+) = bound;
                to.structure(|to| {
                    $(<$parameter as $crate::internals::Parameter>::write($member, to);)+
                });
            }

            unsafe fn view(bound: &Self::Bound) -> Self::View<'_> {
                let ($($member,)+) = bound;
                $View {
                    $(
                        // SAFETY: the caller's promise covers every member.
                        $member: unsafe {
                            <$parameter as $crate::internals::Parameter>::view($member)
                        },
                    )+
                }
            }
        }

        // SAFETY: each member meets the requirements.
        unsafe impl$(<$($generic: $bound),+>)? $crate::Problem for $Problem$(<$($generic),+>)? {
            const MEMBERS: &'static [$crate::internals::MemberLayout] = &[
                $($crate::internals::MemberLayout {
                    name: stringify!($member),
                    size: <$parameter as $crate::internals::Member>::LAYOUT.0,
                    alignment: <$parameter as $crate::internals::Member>::LAYOUT.1,
                },)+
            ];

            fn bind(
                &self,
                accesses: &mut $crate::internals::Accesses,
            ) -> $crate::internals::Result<Self::Bound> {
                Ok(($(<$parameter as $crate::internals::Member>::bind(&self.$member, accesses)?,)+))
            }
        }
    };
}
