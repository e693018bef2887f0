//! A link that is slower than memory.

use std::time::{Duration, Instant};

use crate::Pace;
use crate::call::Call;
use crate::prompt::sleep_until;

/// The speed of communication between ranks. An operation takes the time of a ring in which every rank sends to its neighbour at once, and
/// no link is shared:
///
/// | collective of `n` bytes on `p` ranks | bytes through each link | latencies |
/// |---|---|---|
/// | all-reduce | `2 n (p - 1) / p` | `2 (p - 1)` |
/// | reduce-scatter (`n` given), all-gather (`n` got) | `n (p - 1) / p` | `p - 1` |
/// | broadcast, passed on piece by piece | `n` | `p - 1` |
/// | barrier, with a partner twice as far in each round | | `log2 p`, rounded up |
///
/// The time begins when the last rank has called, and includes copying and adding up. Bytes are delivered in pieces with checksums. A
/// waiting rank sleeps, as with a network card, so the processor is free for computation.
///
/// ```
/// use std::time::Duration;
/// use windrow_collective::{Group, Link};
///
/// // 10 gigabits a second, and 20 us from rank to rank.
/// let ranks = Group::new(4).link(Link::new(1.25e9, Duration::from_micros(20))).ranks();
/// assert_eq!(ranks.len(), 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    bytes_per_second: f64,
    latency: Duration,
}

impl Link {
    /// A link of this speed; `f64::INFINITY` means no limit.
    ///
    /// # Panics
    /// The speed is not above 0.
    pub fn new(bytes_per_second: f64, latency: Duration) -> Self {
        assert!(
            bytes_per_second > 0.0,
            "the speed of a link is {bytes_per_second} bytes per second, but must be above 0"
        );
        Self { bytes_per_second, latency }
    }

    /// The time of a call.
    pub(super) fn time(&self, call: &Call, element: usize, ranks: usize) -> Duration {
        let (gives, gets) = ((call.gives * element) as f64, (call.gets * element) as f64);
        let (steps, p) = ((ranks - 1) as f64, ranks as f64);
        let (bytes, latencies) = match call.name {
            "all_reduce" => (2.0 * gives * steps / p, 2.0 * steps),
            "reduce_scatter" => (gives * steps / p, steps),
            "all_gather" => (gets * steps / p, steps),
            "broadcast" => (if ranks > 1 { gives } else { 0.0 }, steps),
            _ => (0.0, f64::from(ranks.next_power_of_two().trailing_zeros())),
        };
        let seconds = bytes / self.bytes_per_second + latencies * self.latency.as_secs_f64();
        Duration::try_from_secs_f64(seconds).unwrap_or(AGES)
    }
}

/// Longer than any wait, and short enough to be added to a point in time.
const AGES: Duration = Duration::from_secs(1 << 30);

/// A wait below this is not worth a sleep during an operation.
const NAP: Duration = Duration::from_micros(200);

/// A running operation on a link. Deadlines count from its beginning, so that late wake-ups do not add up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    pub(super) began: Instant,
    pub(super) asked: Duration,
}

impl Pacer {
    /// Sleeps until about this share of the operation's time has passed.
    pub(super) fn reach(&self, share: f64) {
        let deadline = self.began + self.asked.mul_f64(share);
        if deadline.saturating_duration_since(Instant::now()) > NAP {
            sleep_until(deadline);
        }
    }

    /// Sleeps until the end of the operation's time, and never returns earlier.
    pub(super) fn finish(&self) -> Pace {
        let deadline = self.began + self.asked;
        loop {
            let now = Instant::now();
            if now >= deadline {
                return Pace { asked: self.asked, taken: now - self.began };
            }
            sleep_until(deadline);
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_take_the_time_of_a_ring() {
        let link = Link::new(1e6, Duration::from_micros(10));
        let time = |name, gives, gets, ranks| {
            link.time(&Call { name, element: "f32", gives, gets, root: None }, 4, ranks).as_micros()
        };
        assert_eq!(time("all_reduce", 100, 100, 4), 600 + 60);
        assert_eq!(time("reduce_scatter", 100, 25, 4), 300 + 30);
        assert_eq!(time("all_gather", 25, 100, 4), 300 + 30);
        assert_eq!(time("broadcast", 100, 100, 4), 400 + 30);
        let barriers: Vec<_> = (1..=5).map(|ranks| time("barrier", 0, 0, ranks)).collect();
        assert_eq!(barriers, [0, 10, 20, 20, 30]);
        assert_eq!(time("all_reduce", 100, 100, 1) + time("broadcast", 100, 100, 1), 0);
        assert_eq!(
            Link::new(1e-300, Duration::ZERO).time(
                &Call { name: "all_reduce", element: "", gives: 1, gets: 1, root: None },
                8,
                2
            ),
            AGES
        );
    }

    #[test]
    #[should_panic(expected = "the speed of a link is NaN bytes per second")]
    fn a_link_has_a_speed() {
        Link::new(f64::NAN, Duration::ZERO);
    }
}
