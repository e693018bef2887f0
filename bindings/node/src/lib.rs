//! The addon of the Node package `windrow`.
//!
//! A thin layer, like the Python package: the scripts in `lib` check arguments of JavaScript and copy them here, and all work runs in
//! [`door`]. There is no state between calls except in the objects of JavaScript, and in the [`environment`]s that are open.

mod chat;
mod door;
mod environment;
mod failure;
mod files;
mod job;
mod jobs;
mod spare;
mod stream;
mod tokenizer;
mod whole;

// Makes its allocator the global one of this addon.
#[cfg(feature = "mimalloc")]
use windrow_allocator as _;

use napi::bindgen_prelude::*;
use napi_derive::napi;

/// Runs for each environment that loads the addon: the main thread's, and those of `worker_threads`.
#[napi(module_exports)]
pub fn init(mut exports: Object<'_>, env: Env) -> Result<()> {
    exports.set("version", env!("CARGO_PKG_VERSION"))?;
    environment::open(&env)
}

/// Frees the memory of an array at once, without the collector of JavaScript. The array is empty from then on.
#[napi]
pub fn give_memory_back(memory: ArrayBuffer<'_>) -> Result<()> {
    memory.detach()
}
