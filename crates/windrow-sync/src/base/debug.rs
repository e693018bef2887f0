//! `Debug` of types whose fields another thread may be using, or that hold foreign values. It prints their name and what is safe to read.

macro_rules! show_as {
    ($name:literal: [$($generics:tt)*] $type:ty $(, |$it:ident| $($field:ident: $value:expr),*)?) => {
        impl<$($generics)*> std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $(let $it = self;)?
                f.debug_struct($name)$($(.field(stringify!($field), &$value))*)?.finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use show_as;
