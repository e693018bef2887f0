//! The global pool. One test: a process has one such pool.

use rayon_core::{ThreadPoolBuilder, current_num_threads, scope};

#[test]
fn the_global_pool_is_built_once() {
    ThreadPoolBuilder::new().num_threads(3).thread_name(|i| format!("global {i}")).build_global().unwrap();
    assert_eq!(current_num_threads(), 3);
    let name = scope(|_| std::thread::current().name().map(str::to_owned));
    assert!(name.is_some_and(|name| name.starts_with("global ")));
    let again = ThreadPoolBuilder::new().build_global().unwrap_err();
    assert_eq!(again.to_string(), "The global thread pool has already been initialized.");
}
