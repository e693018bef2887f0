//! Values that may end a fold or a loop early.

use std::ops::ControlFlow;

/// Arguments and results of the `try_` adaptors: `Option`, `Result`, `ControlFlow`. (`std::ops::Try` is not stable.) Not meant to
/// be implemented outside windrow.
///
/// ```
/// use windrow::prelude::*;
///
/// fn sum(texts: &[&str]) -> Option<u8> {
///     texts.par_iter().map(|text| text.parse().ok()).try_reduce(|| 0, u8::checked_add)
/// }
///
/// assert_eq!(sum(&["100", "50", "7"]), Some(157));
/// assert_eq!(sum(&["100", "fifty"]), None);
/// assert_eq!(sum(&["100", "200"]), None);
/// ```
pub trait Try: Sized {
    /// The content of a value that goes on.
    type Output;
    /// The content of a value that breaks off.
    type Residual;

    /// A value that goes on.
    fn from_output(output: Self::Output) -> Self;
    /// A value that breaks off.
    fn from_residual(residual: Self::Residual) -> Self;
    /// The decision to go on, with the content.
    fn branch(self) -> ControlFlow<Self::Residual, Self::Output>;
}

impl<T> Try for Option<T> {
    type Output = T;
    type Residual = ();

    fn from_output(output: T) -> Self {
        Some(output)
    }
    fn from_residual((): ()) -> Self {
        None
    }
    fn branch(self) -> ControlFlow<(), T> {
        self.map_or(ControlFlow::Break(()), ControlFlow::Continue)
    }
}

impl<T, E> Try for Result<T, E> {
    type Output = T;
    type Residual = E;

    fn from_output(output: T) -> Self {
        Ok(output)
    }
    fn from_residual(residual: E) -> Self {
        Err(residual)
    }
    fn branch(self) -> ControlFlow<E, T> {
        self.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }
}

impl<B, C> Try for ControlFlow<B, C> {
    type Output = C;
    type Residual = B;

    fn from_output(output: C) -> Self {
        ControlFlow::Continue(output)
    }
    fn from_residual(residual: B) -> Self {
        ControlFlow::Break(residual)
    }
    fn branch(self) -> ControlFlow<B, C> {
        self
    }
}
