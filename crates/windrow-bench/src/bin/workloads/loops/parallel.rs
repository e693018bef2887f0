// Loops that fold parts, parallel. Compiled for rayon and for windrow: `library`.

use std::collections::HashMap;

use library::prelude::*;

pub(crate) fn wordcount(data: &Data, _: &mut Room) -> u64 {
    let parts = data.words.par_iter().fold(HashMap::new, |mut counts: HashMap<&str, u64>, word| {
        *counts.entry(word).or_insert(0) += 1;
        counts
    });
    let counts = parts.reduce(HashMap::new, |mut counts, part| {
        part.into_iter().for_each(|(word, count)| *counts.entry(word).or_insert(0) += count);
        counts
    });
    counts.values().map(|count| count * count).sum()
}

pub(crate) fn group(data: &Data, _: &mut Room) -> u64 {
    let parts = data.records.par_iter().fold(Groups::new, |mut groups, (key, value)| {
        groups.entry(key).or_default().push(*value);
        groups
    });
    let groups = parts.reduce(Groups::new, |mut groups, part| {
        part.into_iter().for_each(|(key, group)| groups.entry(key).or_default().extend(group));
        groups
    });
    digest_of_groups(&groups)
}

pub(crate) fn mapvals(data: &Data, _: &mut Room) -> u64 {
    data.map.par_iter().map(|(key, value)| key ^ value).reduce(|| 0, |a, b| a ^ b)
}

pub(crate) fn btvals(data: &Data, _: &mut Room) -> u64 {
    data.tree.par_iter().map(|(key, value)| key ^ value).reduce(|| 0, |a, b| a ^ b)
}

pub(crate) fn hist(data: &Data, _: &mut Room) -> u64 {
    let zeros = || vec![0_u32; COUNTERS];
    let parts = data.numbers.par_iter().fold(zeros, |mut counts, x| {
        counts[*x as usize % COUNTERS] += 1;
        counts
    });
    let counts = parts.reduce(zeros, |mut counts, part| {
        counts.iter_mut().zip(part).for_each(|(count, more)| *count += more);
        counts
    });
    sample(&counts, u64::from)
}

pub(crate) fn fmax(data: &Data, _: &mut Room) -> u64 {
    data.floats.par_iter().copied().reduce(|| f64::NEG_INFINITY, f64::max).to_bits()
}

pub(crate) fn minmax(data: &Data, _: &mut Room) -> u64 {
    let parts = data.numbers.par_iter().fold(|| (u64::MAX, 0), |(low, high), x| (low.min(*x), high.max(*x)));
    let ends = parts.reduce(|| (u64::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    ends.0 ^ ends.1
}
