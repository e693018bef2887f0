//! A loop on rayon. Its prelude has the names of windrow's.

use rayon::prelude::*;

use crate::work::{Item, work};

/// The loop, called inside a pool of rayon.
pub(crate) fn on_rayon(items: &[Item], out: &mut [u64]) {
    items.par_iter().zip(out.par_iter_mut()).for_each(|(item, out)| *out = work(*item));
}

#[test]
fn rayon_gives_what_plain_code_gives() {
    let given: Vec<Item> = (1..100).map(|seed| Item { seed, turns: 3 }).collect();
    let mut out = vec![0; given.len()];
    on_rayon(&given, &mut out);
    assert!(out.iter().zip(given).all(|(out, item)| *out == work(item)));
}
