//! windrow-plan
#![forbid(unsafe_code)]
