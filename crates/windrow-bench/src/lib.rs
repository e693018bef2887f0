//! windrow-bench
#![forbid(unsafe_code)]
