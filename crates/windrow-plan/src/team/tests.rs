//! A simulated machine under [`Rhythm`], and what must hold for all machines.

use proptest::prelude::*;

use super::*;

const CLOCK: f64 = 10.0;
/// What a report takes beside the look at the clock.
const REPORT: f64 = 10.0;

/// xorshift64*: uniform in 0..1.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Members that share rounds evenly behind a barrier, on a machine with jitter, interrupts, sleepers and perhaps a busy neighbour.
struct Machine {
    noise: Noise,
    now: f64,
    /// What the barrier adds at each width.
    barrier: fn(usize) -> f64,
    /// Mean wide time between stalls of 4 ms, if there is a neighbour.
    stalls: Option<f64>,
    /// Time until a member that waits sleeps, and what it takes to call it back then.
    looks: f64,
    wake: f64,
    /// When each width was last used by a round.
    used: [f64; 65],
    wide: usize,
    rounds: usize,
}

const STALL: f64 = 4e6;

fn machine(seed: u64, barrier: fn(usize) -> f64) -> Machine {
    let noise = Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    Machine { noise, now: 0.0, barrier, stalls: None, looks: 60e3, wake: 15e3, used: [0.0; 65], wide: 0, rounds: 0 }
}

impl Machine {
    /// One round of `serial` nanoseconds alone.
    fn round(&mut self, serial: f64, width: usize) -> f64 {
        let mut time = ideal(serial, width, self.barrier) * (0.96 + 0.08 * self.noise.next());
        if self.noise.next() < time / 1e6 {
            time += 3e3;
        }
        if width > 1 {
            if self.now - self.used[width] > self.looks {
                time += self.wake;
            }
            if self.stalls.is_some_and(|every| self.noise.next() < time / every) {
                time += STALL;
            }
        }
        self.now += time;
        self.used[..=width].fill(self.now);
        self.rounds += 1;
        self.wide += usize::from(width > 1);
        time
    }

    /// One call: `rounds` rounds of `serial(i)` nanoseconds. The time it took.
    fn call(&mut self, full: usize, memory: &mut Memory, rounds: usize, serial: impl Fn(usize) -> f64) -> f64 {
        let began = self.now;
        self.used.fill(began);
        let mut rhythm = Rhythm::new(full, Nanos(CLOCK), *memory, Nanos(began));
        let (mut done, mut from, mut since) = (0, 0, began);
        let mut segment = rhythm.segment();
        while done < rounds {
            self.round(serial(done), segment.width);
            done += 1;
            let ran = done - from;
            let mut late = false;
            if ran == segment.rounds || ran % segment.every == 0 {
                self.now += CLOCK;
                late = self.now - since > segment.deadline.0;
            }
            if ran == segment.rounds || late {
                self.now += REPORT;
                segment = rhythm.report(ran, Nanos(self.now - since));
                (from, since) = (done, self.now);
            }
        }
        *memory = rhythm.end(done - from, Nanos(self.now - since));
        self.now - began
    }
}

fn ideal(serial: f64, width: usize, barrier: fn(usize) -> f64) -> f64 {
    serial / width as f64 + if width > 1 { barrier(width) } else { 0.0 }
}

/// What the rounds take if each is run at the best of the candidates, or at one of them.
fn oracle(full: usize, rounds: usize, serial: impl Fn(usize) -> f64, barrier: fn(usize) -> f64) -> f64 {
    let best =
        |cost| (0..=top(full)).map(|level| ideal(cost, width(level, full), barrier)).fold(f64::INFINITY, f64::min);
    (0..rounds).map(|i| best(serial(i))).sum()
}

/// The worst of some seeds, relative to the oracle.
fn worst(full: usize, rounds: usize, serial: impl Fn(usize) -> f64 + Copy, barrier: fn(usize) -> f64) -> f64 {
    let best = oracle(full, rounds, serial, barrier);
    (1..=20)
        .map(|seed| machine(seed, barrier).call(full, &mut Memory::new(), rounds, serial) / best)
        .fold(0.0, f64::max)
}

const FREE: fn(usize) -> f64 = |_| 200.0;

fn show(name: &str, ratio: f64) {
    println!("{name}: {ratio:.4}");
}

#[test]
fn probe_all() {
    show("0.85us", worst(2, 10_000, |_| 850.0, FREE));
    show("0.40us", worst(2, 10_000, |_| 400.0, FREE));
    show("0.30us", worst(2, 10_000, |_| 300.0, FREE));
    show("0.10us", worst(2, 100_000, |_| 100.0, FREE));
    show("0.01us", worst(2, 1_000_000, |_| 10.0, FREE));
    show("18.9us x1000", worst(2, 1000, |_| 18_900.0, FREE));
    show("18.9us x3000", worst(2, 3000, |_| 18_900.0, FREE));
    show("1ms x 100", worst(2, 100, |_| 1e6, FREE));
    show("triangle", worst(2, 10_000, |i| 20e3 - (20e3 - 50.0) * i as f64 / 1e4, FREE));
    show("triangle2", worst(2, 10_000, |i| 50.0 + 19_950.0 * (1.0 - i as f64 / 1e4).powi(2), FREE));
    show("exp", worst(2, 10_000, |i| 20e3 * (-6.0 * i as f64 / 1e4).exp(), FREE));
    show("grow", worst(2, 10_000, |i| 20e3 * (6.0 * (i as f64 / 1e4 - 1.0)).exp(), FREE));
    show("0.85 triangle", worst(2, 10_000, |i| 1700.0 * (1.0 - i as f64 / 1e4) + 1.0, FREE));
    show("5us barrier", worst(2, 10_000, |_| 1000.0, |_| 5000.0));
    show("30us barrier", worst(2, 10_000, |_| 1000.0, |_| 30_000.0));
    show("8: 1us", worst(8, 20_000, |_| 1000.0, |w| 100.0 * w as f64));
    show("8: 10us", worst(8, 10_000, |_| 10_000.0, |w| 100.0 * w as f64));
    show("8: .3us", worst(8, 50_000, |_| 300.0, |w| 100.0 * w as f64));
    show("6: 2us", worst(6, 20_000, |_| 2000.0, |w| 100.0 * w as f64));
    show("64: 100us", worst(64, 1_000, |_| 100_000.0, |w| 50.0 * w as f64));
    for seed in 1..5 {
        let mut m = machine(seed, FREE);
        let mut memory = Memory::new();
        m.stalls = Some(3e6);
        let mut times: Vec<f64> = (0..200).map(|_| m.call(2, &mut memory, 8000, |_| 1000.0) / 8e6).collect();
        let mean = times.iter().sum::<f64>() / 200.0;
        times.sort_by(f64::total_cmp);
        println!(
            "busy: median {:.4} p90 {:.4} max {:.4} mean {:.4}; {memory:?}",
            times[100], times[180], times[199], mean
        );
        m.stalls = None;
        let then = m.now;
        let mut k = 0;
        while memory.width() == 1 && k < 1000 {
            m.call(2, &mut memory, 8000, |_| 1000.0);
            k += 1;
        }
        println!("back after {k} calls {} ms", (m.now - then) / 1e6);
    }
}
