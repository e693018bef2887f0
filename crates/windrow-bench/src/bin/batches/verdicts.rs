//! What `stats().verdict()` claims, compared with the measured gain of batches over a mutex.

use std::time::Duration;

use windrow::batch::{Choice, Stats};
use windrow_bench::stats::median;

use crate::arms::Arm;
use crate::turn::{Row, Shape};
use crate::{in_micros, share};

pub(crate) const COLUMNS: &str = "callers,number,fixed_us,each_us,claimed,choice,claimed_batch,batch,measured,batched_by,\
     windrow_by_mutex,thread_by_mutex,mutex_per_s,claimed_of_each_repetition";

/// The default, batches by a separate thread, and one at a time.
pub(crate) const ARMS: [Arm; 3] = [Arm::Default, Arm::THREAD, Arm::StdMutex];

/// A gain within this share of 1 is none.
const EVEN: f64 = 0.1;
/// The bars: percent of the cells whose claim is off by at most [`NEAR`] percent, and by at most [`FAR`].
const NEAR: (f64, f64) = (20.0, 80.0);
const FAR: (f64, f64) = (40.0, 100.0);

/// A cell's claim and measurement.
pub(crate) struct Claim {
    shape: Shape,
    /// Operations a second in batches by those one at a time, as claimed; `None` without a verdict.
    claimed: Option<(f64, Choice, f64)>,
    each: Vec<f64>,
    measured: f64,
    batched_by: Arm,
    windrow: f64,
    thread: f64,
    mutex: f64,
    batch: f64,
}

/// Compares. The default measures batches if it makes some; where it works as a lock, the separate thread does.
pub(crate) fn compare(shape: &Shape, rows: &[Row]) -> Option<Claim> {
    let find = |arm| rows.iter().find(|row| row.arm == arm);
    let (windrow, thread, mutex) = (find(Arm::Default)?, find(Arm::THREAD)?, find(Arm::StdMutex)?);
    let by_mutex = |row: &Row| {
        let pairs = row.turns.iter().zip(&mutex.turns);
        median(&pairs.map(|(turn, mutex)| turn.rate / mutex.rate).collect::<Vec<_>>())
    };
    let verdicts = windrow.turns.iter().filter_map(|turn| turn.stats.as_ref().and_then(Stats::verdict));
    let mut verdicts: Vec<_> = verdicts.collect();
    verdicts.sort_by(|a, b| a.gain.total_cmp(&b.gain));
    // A verdict in most of the turns.
    let is_heard = 2 * verdicts.len() > windrow.turns.len();
    let claimed = verdicts.get(verdicts.len() / 2).filter(|_| is_heard).map(|it| (it.gain, it.choice, it.batch));
    let batch = windrow.median(|turn| turn.batch);
    let batched_by = if shape.callers == 1 || batch > 1.25 { Arm::Default } else { Arm::THREAD };
    let (windrow, thread) = (by_mutex(windrow), by_mutex(thread));
    Some(Claim {
        shape: *shape,
        claimed,
        each: verdicts.iter().map(|verdict| verdict.gain).collect(),
        measured: if batched_by == Arm::Default { windrow } else { thread },
        batched_by,
        windrow,
        thread,
        mutex: mutex.median(|turn| turn.rate),
        batch,
    })
}

/// A gain, a loss, or neither.
fn sign(gain: f64) -> i32 {
    i32::from(gain > 1.0 + EVEN) - i32::from(gain < 1.0 - EVEN)
}

impl Claim {
    /// The claim does not say the opposite. Silence is right if the default is no slower than the mutex, and no batches made it faster.
    fn is_right(&self) -> bool {
        match self.claimed {
            Some((gain, ..)) => sign(gain) * sign(self.measured) >= 0,
            None => self.windrow >= 1.0 - EVEN && (sign(self.windrow) == 0 || self.batch < 1.0 + EVEN),
        }
    }

    /// By how many percent the larger of claim and measurement exceeds the other. `None` where the default ran no batches: the batches of a
    /// thread cost another hand-over than those that the claim is about.
    fn error(&self) -> Option<f64> {
        let claimed = self.claimed.filter(|_| self.batched_by == Arm::Default);
        claimed.map(|(gain, ..)| ((gain / self.measured).max(self.measured / gain) - 1.0) * 100.0)
    }

    pub(crate) fn print(&self) {
        let Claim { shape, measured, batched_by, windrow, thread, batch, .. } = self;
        let claimed = match self.claimed {
            Some((gain, choice, batch)) => format!("claimed x{gain:<6.2} ({choice:?}, B = {batch:.1})"),
            None => "no verdict".to_owned(),
        };
        println!(
            "{shape}  {claimed:<36} measured x{measured:<6.2} by {batched_by}{}; windrow x{windrow:.2} (batch {batch:.1}), thread \
             x{thread:.2} of a mutex",
            if self.is_right() { "" } else { " (WRONG SIGN)" }
        );
    }

    pub(crate) fn line(&self) -> String {
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        let (gain, choice, batch) = match self.claimed {
            Some((gain, choice, batch)) => {
                (format!("{gain:.3}"), format!("{choice:?}").to_lowercase(), format!("{batch:.2}"))
            }
            None => ("-".to_owned(), "none".to_owned(), "0".to_owned()),
        };
        let each: Vec<String> = self.each.iter().map(|gain| format!("{gain:.2}")).collect();
        format!(
            "{},{},{},{},{gain},{choice},{batch},{:.2},{:.3},\"{}\",{:.3},{:.3},{:.0},{}",
            self.shape.kind,
            self.shape.callers,
            micros(self.shape.cost.fixed),
            micros(self.shape.cost.each),
            self.batch,
            self.measured,
            self.batched_by,
            self.windrow,
            self.thread,
            self.mutex,
            each.join(" ")
        )
    }
}

/// What all cells say, with the bars.
pub(crate) fn summary(claims: &[Claim]) -> Vec<String> {
    if claims.is_empty() {
        return Vec::new();
    }
    let met = |is_met: bool| if is_met { "met" } else { "missed" };
    let name = |claim: &Claim| {
        let Shape { kind, callers, cost, .. } = claim.shape;
        format!("{kind} x{callers}, F = {}, m = {}", in_micros(cost.fixed), in_micros(cost.each))
    };
    let right = share(claims, Claim::is_right);
    let silent = claims.iter().filter(|claim| claim.claimed.is_none()).count();
    let mut notes = vec![format!(
        "verdicts: percent of {} cells with the right sign: {right:.0} ({silent} without a verdict), bar >= 100 {}",
        claims.len(),
        met(right >= 100.0)
    )];
    let heard: Vec<&Claim> = claims.iter().filter(|claim| claim.error().is_some()).collect();
    for (within, bar) in [NEAR, FAR] {
        let near = share(heard.iter().copied(), |claim| claim.error().is_some_and(|error| error <= within));
        notes.push(format!(
            "verdicts: percent of {} claims about batches that ran within {within:.0} percent of the measured gain: {near:.0}, bar >= \
             {bar:.0} {}",
            heard.len(),
            met(near >= bar)
        ));
    }
    let wrong = claims.iter().filter(|claim| !claim.is_right());
    notes.extend(wrong.take(12).map(|claim| match claim.claimed {
        Some((gain, ..)) => format!("wrong sign: {}: x{gain:.2} claimed, x{:.2} measured", name(claim), claim.measured),
        None => format!("no verdict: {}: x{:.2} of a mutex", name(claim), claim.windrow),
    }));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::Kind;
    use crate::resource::Cost;

    fn claim(claimed: Option<f64>, measured: f64) -> Claim {
        let cost = Cost { fixed: Duration::ZERO, each: Duration::ZERO, sleeps: false };
        Claim {
            shape: Shape::new(Kind::Tasks, 8, cost, 1.0),
            claimed: claimed.map(|gain| (gain, Choice::Batch, 8.0)),
            each: Vec::new(),
            measured,
            batched_by: Arm::Default,
            windrow: measured,
            thread: 1.0,
            mutex: 1.0,
            batch: 8.0,
        }
    }

    #[test]
    fn signs_and_sizes_of_claims_are_judged() {
        assert!(claim(Some(2.0), 1.2).is_right() && claim(Some(2.0), 1.0).is_right());
        assert!(!claim(Some(2.0), 0.8).is_right() && !claim(Some(0.5), 1.2).is_right());
        assert!(claim(None, 1.05).is_right() && !claim(None, 0.5).is_right() && !claim(None, 1.5).is_right());
        assert!(Claim { batch: 1.0, ..claim(None, 1.5) }.is_right(), "it is a better lock");
        assert_eq!(Claim { batched_by: Arm::THREAD, ..claim(Some(0.5), 0.1) }.error(), None);
        assert!((claim(Some(2.0), 1.0).error().unwrap() - 100.0).abs() < 1e-9);
        assert!((claim(Some(1.0), 1.5).error().unwrap() - 50.0).abs() < 1e-9);
        let notes = summary(&[claim(Some(2.0), 2.1), claim(Some(2.0), 2.6), claim(None, 0.5)]);
        assert!(notes[0].contains("right sign: 67 (1 without"), "{notes:?}");
        assert!(
            notes[1].contains("gain: 50, bar >= 80 missed") && notes[2].contains("gain: 100, bar >= 100 met"),
            "{notes:?}"
        );
        assert!(notes[3].starts_with("no verdict: tasks x8"), "{notes:?}");
    }
}
