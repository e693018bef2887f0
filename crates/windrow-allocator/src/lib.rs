#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

/// True if this crate registers mimalloc on this target.
pub const IS_MIMALLOC: bool = cfg!(mimalloc);

#[cfg(mimalloc)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
