//! Its tests are what it is for.
