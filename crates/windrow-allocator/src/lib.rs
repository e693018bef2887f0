#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(mimalloc)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
