//! All tests of the crate but three programs: `fork.rs`, whose children inherit the threads of all tests, `affinity.rs`, whose calls need
//! the CPUs that other tests fill, and `batch_alloc.rs`, which has an allocator that counts.

mod batch;
mod batch_async;
mod batch_awaits;
mod batch_gauges;
mod batch_jobs;
mod batch_linear;
mod batch_misuse;
mod batch_replies;
mod batch_returns;
mod batch_shards;
mod batches;
mod cancel;
mod examples;
mod explain;
mod faults;
mod join;
mod linear;
mod nested;
mod oracle;
mod overlap;
mod overlap_each;
mod overlap_fork;
mod pool;
mod scope;
mod sort;
mod spawn;
mod split;
mod surface_adaptors;
mod surface_faults;
mod surface_foreign;
mod surface_generic;
mod surface_rayon;
mod surface_searches;
mod surface_sources;
mod team;
mod team_random;
#[cfg(feature = "async-team")]
mod team_tasks;
mod waiting;
