//! Random cost models, in four regimes of how expensive tiles are.

use windrow_tiling::tile::{Contention, Matmul, Problem};
use windrow_tiling::{Nanos, Rows};

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn uniform(&mut self, (low, high): (f64, f64)) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[(self.next() % among.len() as u64) as usize]
    }
}

/// How expensive tiles are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regime {
    pub(crate) name: &'static str,
    /// The fixed cost of a tile's communication, as a share of the whole communication.
    pub(crate) per_communication: (f64, f64),
    /// The same for the computation.
    pub(crate) per_computation: (f64, f64),
    /// How much slower the rows of very short tiles are computed.
    pub(crate) short: (f64, f64),
    pub(crate) contention: &'static [(f64, f64)],
}

pub(crate) const REGIMES: [Regime; 4] = [
    Regime {
        name: "low overhead",
        per_communication: (0.001, 0.01),
        per_computation: (0.001, 0.01),
        short: (0.0, 0.2),
        contention: &[(1.0, 1.0)],
    },
    Regime {
        name: "overhead as in the guide",
        per_communication: (0.02, 0.08),
        per_computation: (0.0, 0.02),
        short: (0.0, 0.3),
        contention: &[(1.0, 1.0)],
    },
    Regime {
        name: "the same with contention",
        per_communication: (0.02, 0.08),
        per_computation: (0.0, 0.02),
        short: (0.0, 0.3),
        contention: &[(1.15, 1.15), (1.3, 1.05), (1.05, 1.3), (1.0, 1.0)],
    },
    Regime {
        name: "severe expansion",
        per_communication: (0.05, 0.2),
        per_computation: (0.02, 0.1),
        short: (0.5, 3.0),
        contention: &[(1.15, 1.15), (1.3, 1.3)],
    },
];

/// Rows per unit: the alignment of tiles.
pub(crate) const UNIT: u64 = 128;

/// An operation with 1 ms of computation and a quarter to four times as much communication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) units: u64,
    pub(crate) matmul: Matmul,
    compute: (f64, f64, f64),
    communicate: (f64, f64),
    pub(crate) contention: (f64, f64),
}

impl Model {
    /// Draws the number of units too if `units` is `None`.
    pub(crate) fn draw(random: &mut Random, regime: &Regime, units: Option<u64>) -> Model {
        let units = units.unwrap_or_else(|| random.pick(&[16, 32, 48, 64]));
        let n = random.pick(&[1024, 2048, 4096, 8192]);
        let k = random.pick(&[512, 1024, 2048, 3072, 4096, 8192]);
        let (compute, communicate) = (1e6, 1e6 * random.uniform((0.25_f64.ln(), 4_f64.ln())).exp());
        let (fixed_h, fixed_g) =
            (communicate * random.uniform(regime.per_communication), compute * random.uniform(regime.per_computation));
        let each = |whole: f64, fixed: f64| (whole - fixed) / units as f64;
        Model {
            units,
            matmul: Matmul { k, n },
            compute: (fixed_g, each(compute, fixed_g), random.uniform(regime.short)),
            communicate: (fixed_h, each(communicate, fixed_h)),
            contention: random.pick(regime.contention),
        }
    }

    /// Calls `with` with the operation as a problem.
    pub(crate) fn with<R>(&self, with: impl FnOnce(Problem<'_>) -> R) -> R {
        let units = |rows: Rows| rows.0 as f64 / UNIT as f64;
        let (fixed, each, short) = self.compute;
        let compute = |rows: Rows| Nanos(fixed + each * units(rows) * (1.0 + short * (-units(rows) / 3.0).exp()));
        let (fixed, each) = self.communicate;
        let communicate = |rows: Rows| Nanos(fixed + each * units(rows));
        let (compute_slower, communicate_slower) = self.contention;
        with(Problem {
            align: Rows(UNIT),
            matmul: Some(self.matmul),
            contention: Contention { compute: compute_slower, communicate: communicate_slower },
            ..Problem::new(Rows(self.units * UNIT), &compute, &communicate)
        })
    }
}
