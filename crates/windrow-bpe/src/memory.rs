//! Memory that may not be there.

/// Makes space for `more` items. An error is the number of bytes that could not be allocated.
pub(crate) fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<(), usize> {
    items.try_reserve(more).map_err(|_| more.saturating_mul(size_of::<T>()))
}
