//! Lifetime-indexed types: what a round can lend.

use std::marker::PhantomData;

/// A lifetime-indexed type: a stand-in that names the type `Of<'x>` for every `'x`.
///
/// The stand-in is `'static`, so it has a [`TypeId`](std::any::TypeId): two members that name the same family receive the same type.
/// The [module page](super) says why a family can be shortened.
pub trait Family: 'static {
    /// The type with the lifetime filled in.
    type Of<'x>: Send;

    /// The same value, used for a shorter time. The body is just `of`.
    fn shorten<'short, 'long: 'short>(of: Self::Of<'long>) -> Self::Of<'short>;
}

/// Names a family at a call: `&f64` stands for "`&'x f64` for every `'x`". (The lifetime written there does not matter.)
///
/// ```
/// use windrow_sync::Spin;
/// use windrow_sync::rounds::{Rounds, Turn};
///
/// let mut data = (vec![1, 2, 3], 0);
/// let mut team = Rounds::single(&mut data);
/// let mut slot = team.slot();
/// let Ok(Turn::Lead(lead)) = slot.arrive(Spin::NONE) else { unreachable!("a single member leads") };
/// let (items, sum) = lead.round::<&Vec<u64>, &mut u64>(|(items, sum), deal| {
///     deal.part(sum);
///     items
/// });
/// *sum = items.iter().sum();
/// assert_eq!(*sum, 6);
/// ```
pub trait Lend {
    /// The family that the type stands for.
    type Family: Family;
}

/// A [`Lend`] of which each member can get a copy: implemented for every `Lend` whose values are `Copy`.
pub trait LendCopy: Lend<Family: for<'x> Family<Of<'x>: Copy>> {}

impl<L: Lend<Family: for<'x> Family<Of<'x>: Copy>>> LendCopy for L {}

/// The type that `L` names, for the lifetime `'x`.
///
/// ```
/// use windrow_sync::rounds::Lent;
///
/// let text = String::from("shared");
/// let lent: Lent<'_, (&str, u32)> = (&text, 5);
/// assert_eq!(lent, ("shared", 5));
/// ```
pub type Lent<'x, L> = <<L as Lend>::Family as Family>::Of<'x>;

/// The family of `&T`.
#[derive(Debug)]
pub struct Ref<T: ?Sized>(PhantomData<T>);
/// The family of `&mut T`.
#[derive(Debug)]
pub struct Mut<T: ?Sized>(PhantomData<T>);
/// The family of a value that borrows nothing.
#[derive(Debug)]
pub struct Own<T>(PhantomData<T>);

impl<T: ?Sized + Sync + 'static> Family for Ref<T> {
    type Of<'x> = &'x T;
    #[inline]
    fn shorten<'short, 'long: 'short>(of: &'long T) -> &'short T {
        of
    }
}
impl<T: ?Sized + Send + 'static> Family for Mut<T> {
    type Of<'x> = &'x mut T;
    #[inline]
    fn shorten<'short, 'long: 'short>(of: &'long mut T) -> &'short mut T {
        of
    }
}
impl<T: Send + 'static> Family for Own<T> {
    type Of<'x> = T;
    #[inline]
    fn shorten<'short, 'long: 'short>(of: T) -> T {
        of
    }
}
impl<F: Family> Family for Option<F> {
    type Of<'x> = Option<F::Of<'x>>;
    #[inline]
    fn shorten<'short, 'long: 'short>(of: Self::Of<'long>) -> Self::Of<'short> {
        of.map(F::shorten)
    }
}

impl<T: ?Sized + Sync + 'static> Lend for &T {
    type Family = Ref<T>;
}
impl<T: ?Sized + Send + 'static> Lend for &mut T {
    type Family = Mut<T>;
}
impl<T: Send + 'static> Lend for Own<T> {
    type Family = Own<T>;
}
impl<L: Lend> Lend for Option<L> {
    type Family = Option<L::Family>;
}

macro_rules! owned {
    ($($type:ty)*) => {
        $(impl Lend for $type {
            type Family = Own<$type>;
        })*
    };
}
owned!(() bool char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

macro_rules! tuple {
    ($($name:ident)*) => {
        impl<$($name: Family),*> Family for ($($name,)*) {
            type Of<'x> = ($($name::Of<'x>,)*);
            #[inline]
            #[expect(non_snake_case, reason = "the types' names serve for the values, too")]
            fn shorten<'short, 'long: 'short>(($($name,)*): Self::Of<'long>) -> Self::Of<'short> {
                ($($name::shorten($name),)*)
            }
        }
        impl<$($name: Lend),*> Lend for ($($name,)*) {
            type Family = ($($name::Family,)*);
        }
    };
}
tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E G);
