//! One call site of windrow for every cell.
//!
//! windrow may remember the cost of a call site. In a program, different loops are different call sites, and so are the cells here: 31
//! places in the source, each with a separate closure type.

use windrow::prelude::*;

use crate::cells::RECORDED;
use crate::work::{Item, work};

/// The loop of a call site.
pub type Site = fn(&[Item], &mut [u64]);

macro_rules! site {
    () => {
        |items, out| items.par_iter().zip(out.par_iter_mut()).for_each(|(item, out)| *out = work(*item))
    };
}

#[rustfmt::skip]
/// The call sites, one for each cell.
pub static FOR_EACH: [Site; RECORDED] = [
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
    site!(), site!(), site!(),
];
