//! windrow-sync
