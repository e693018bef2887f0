//! Tests of the public surface.

mod hostile;
