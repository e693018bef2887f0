//! windrow
#![forbid(unsafe_code)]
