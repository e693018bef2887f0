//! Models of the table: the same code on loom's types, through every interleaving up to a bound of preemptions.
#![cfg(loom)]

mod table;
