//! The kernels of class S end with the specified values in all forms.

use windrow::Pool;
use windrow_bench::kernels::{ALL, By, Class};

#[test]
fn every_kernel_gives_the_specified_values_in_all_forms() {
    let windrow = Pool::new(4);
    let rayon = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    for (name, make) in ALL {
        let mut kernel = make(Class::S);
        assert!(kernel.check().is_err(), "{name} before its first run");
        for by in [By::Serial, By::Rayon, By::Windrow] {
            match by {
                By::Serial => kernel.run(by),
                By::Rayon => rayon.install(|| kernel.run(by)),
                By::Windrow => windrow.install(|| kernel.run(by)),
            }
            kernel.check().unwrap_or_else(|error| panic!("{name}, {by:?}: {error}"));
        }
    }
}
