//! Crates that use rayon, and programs whose parts wait for each other, give what they give on rayon.

use std::panic::catch_unwind;
use std::sync::{Barrier, mpsc};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().expect("the system has threads")
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count as u64).map(|n| (n.wrapping_mul(6_364_136_223_846_793_005) >> 33) as u8).collect()
}

#[test]
fn blake3_hashes_as_it_does_alone() {
    let data = bytes(3 << 20);
    let parallel = blake3::Hasher::new().update_rayon(&data).finalize();
    assert_eq!(parallel, blake3::hash(&data));
}

#[test]
fn rdst_sorts() {
    use rdst::RadixSort;
    let mut sorted: Vec<u64> = (0..300_000u64).map(|n| n.wrapping_mul(6_364_136_223_846_793_005)).collect();
    let mut expected = sorted.clone();
    expected.sort_unstable();
    sorted.radix_sort_unstable();
    assert_eq!(sorted, expected);
}

#[test]
fn dssim_compares_with_the_same_result_on_every_pool() {
    let pixels = |seed: u8| -> Vec<rgb::RGB<u8>> {
        bytes(3 * 96 * 96).chunks(3).map(|p| rgb::RGB::new(p[0] ^ seed, p[1], p[2])).collect()
    };
    let compare = || {
        let dssim = dssim_core::Dssim::new();
        let image = |seed| dssim.create_image_rgb(&pixels(seed), 96, 96).expect("an image of this size");
        f64::from(dssim.compare(&image(0), image(16)).0)
    };
    let alone = pool(1).install(compare);
    assert!(alone > 0.0);
    assert_eq!(pool(4).install(compare), alone);
}

#[test]
fn instant_distance_finds_what_it_was_given() {
    #[derive(Clone)]
    struct Point(f32, f32);
    impl instant_distance::Point for Point {
        fn distance(&self, other: &Self) -> f32 {
            (self.0 - other.0).hypot(self.1 - other.1)
        }
    }
    let points: Vec<Point> = bytes(2000).chunks(2).map(|p| Point(p[0].into(), p[1].into())).collect();
    let map = instant_distance::Builder::default().seed(1).build(points.clone(), (0..points.len()).collect());
    let mut search = instant_distance::Search::default();
    let found =
        points.iter().filter(|point| map.search(point, &mut search).next().is_some_and(|it| it.distance == 0.0));
    assert!(found.count() > 970);
}

#[test]
fn tokei_counts_as_it_does_on_one_thread() {
    let count = || {
        let (mut languages, folder) = (tokei::Languages::new(), concat!(env!("CARGO_MANIFEST_DIR"), "/../src"));
        languages.get_statistics(&[folder], &[], &tokei::Config::default());
        let rust = &languages[&tokei::LanguageType::Rust];
        (rust.reports.len(), rust.code, rust.comments, rust.blanks)
    };
    let alone = pool(1).install(count);
    assert!(alone.0 >= 5 && alone.1 > 500, "{alone:?}");
    assert_eq!(pool(4).install(count), alone);
}

#[test]
fn a_half_waits_for_the_other() {
    let (tx, rx) = mpsc::channel();
    assert_eq!(pool(2).join(move || rx.recv().unwrap(), move || tx.send(1).unwrap()).0, 1);
}

#[test]
fn the_body_of_a_scope_waits_for_its_task() {
    let (tx, rx) = mpsc::channel();
    let got = pool(2).scope(move |s| {
        s.spawn(move |_| tx.send(1).unwrap());
        rx.recv().unwrap()
    });
    assert_eq!(got, 1);
}

#[test]
fn as_many_items_as_threads_wait_for_each_other() {
    for threads in [2, 4] {
        let barrier = Barrier::new(threads);
        let wait = || (0..threads).into_par_iter().with_max_len(1).for_each(|_| _ = barrier.wait());
        pool(threads).install(wait);
    }
}

#[test]
fn an_item_receives_what_another_one_sends() {
    let (tx, rx) = mpsc::sync_channel(1);
    let rx = std::sync::Mutex::new(rx);
    let exchange = || {
        (0..2).into_par_iter().for_each(|n| match n {
            0 => assert_eq!(rx.lock().unwrap().recv(), Ok(7)),
            _ => tx.send(7).unwrap(),
        });
    };
    pool(2).install(exchange);
}

#[test]
fn a_panic_ends_an_endless_bridge() {
    let endless = || (0u64..).par_bridge().panic_fuse().for_each(|n| assert!(n != 1000, "enough"));
    assert!(catch_unwind(|| pool(2).install(endless)).is_err());
}
