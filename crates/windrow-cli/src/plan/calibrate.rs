//! Measures the times of tiles: on ranks that are threads of this process, or (`super::mpi`) on the ranks of MPI.

use std::thread;
use std::time::Duration;

use serde_json::value::to_raw_value;
use windrow_collective::{Calibration, Communicator, Error, Fused, Group, Link, Profile, Stage, Tried};
use windrow_tiling::cost::{Fitting, Sample};
use windrow_tiling::planner::{Calibrated, FusedOperation, MeasuredTimes, PlanRequest, RanPlan, SampledProfile};
use windrow_tiling::tile::{Contention, Margin, Plan};
use windrow_tiling::{Nanos, Rows};

use super::{Options, Refused, Source, profiles};
use crate::exit::Code;

/// Maximum number of ranks; no plan is for a machine with more of them. Each rank has two threads.
const MOST_RANKS: u64 = 64;
/// Maximum number of passes over all sizes, while the fit is loose: 3, then 6, then 12, as in the example of windrow-collective.
const MOST_PASSES: usize = 12;
/// Runs of each of the compared plans.
const REPEATS: usize = 5;

/// A checked calibration: the work of every rank.
pub(super) struct Task<'a> {
    options: &'a Options,
    /// Rows, columns, and the axis that is summed over.
    shape: [usize; 3],
    how: Calibration,
}

impl<'a> Task<'a> {
    /// A checked calibration on a machine whose memory `sharing` ranks share.
    pub(super) fn new(options: &'a Options, sharing: u64) -> Result<Self, Refused> {
        let rows = sizes(options)?;
        let sides = [options.request.m, options.request.n, options.request.k].map(usize::try_from);
        let [Ok(m), Ok(n), Ok(k)] = sides else { return Err(Refused::usage("the matrices do not fit in memory")) };
        check_memory(options, sharing, rows.iter().copied().max().unwrap_or(0))?;
        // The final fit is made from the samples, as from a file; this one refuses none.
        let how = Calibration { rows, align: options.request.aligned(), ..Calibration::default() };
        Ok(Self { options, shape: [m, n, k], how })
    }

    /// The part of one rank. All ranks get the same measurements, so they report the same.
    pub(super) fn run<C: Communicator + Send + 'static>(&self, fused: &mut Fused<C>) -> Result<Source, Error> {
        let (operation, [_, n, k]) = (collective(self.options.request.operation), self.shape);
        let mut how = self.how.clone();
        let (measured, profile) = loop {
            let measured = fused.calibrate::<f32>(operation, n, k, &how)?;
            let profile = limited(self.options, &measured)?;
            // The medians of more samples may fit. All ranks have the same samples, so all continue or none.
            let enough = self.options.request.tolerance.unwrap_or(Fitting::default().tolerance);
            if profile.fit_error() <= enough || how.repeats >= MOST_PASSES {
                break (measured, profile);
            }
            how.repeats *= 2;
        };
        // Beyond the limit, all ranks refuse once the samples are written.
        let tried = if self.options.refine && profile.fit_error() <= self.options.request.limit() {
            fused.use_profile(profile.clone());
            fused.refine::<f32>(operation, self.shape, REPEATS)?
        } else {
            Vec::new()
        };
        // A cut that was the fastest within limits is not kept for plans without them.
        let refined =
            fused.profiles().find(|known| known.shape() == profile.shape() && self.options.request.without_limits());
        let kept = refined.cloned().unwrap_or_else(|| measured.clone());
        let ran = tried.into_iter().map(|Tried { tiles, predicted, predicted_call, took }| RanPlan {
            tiles,
            predicted,
            predicted_call,
            took,
        });
        let (tried, origin) = (ran.collect(), "the calibration");
        let calibrated = Calibrated { tried, ..calibrated(profile, measured.contention(), &kept, origin) };
        Ok(Source { measured: times(&measured, origin, Some(calibrated)), kept: Some(kept) })
    }
}

/// A measured profile, under the limits of the requested plan.
pub(super) fn limited(options: &Options, measured: &Profile) -> Result<Profile, Error> {
    let PlanRequest { contention, max_tiles, min_tile, .. } = &options.request;
    let profile = measured.clone().with_contention(contention.unwrap_or(measured.contention()))?;
    let profile = profile.align(options.request.aligned());
    let profile = min_tile.map_or(profile.clone(), |rows| profile.min_tile(rows));
    Ok(max_tiles.map_or(profile.clone(), |most| profile.most_tiles(most)))
}

/// A profile with the trait of the planner.
#[derive(Debug)]
struct Limited(Profile);

impl SampledProfile for Limited {
    fn plan(&self, m: u64) -> Result<Plan, String> {
        self.0.plan(m).map_err(|error| error.to_string())
    }

    fn margin(&self, m: u64) -> Margin {
        self.0.margin_at(m)
    }
}

/// A profile with the facts that its samples do not show. `kept` is the same profile without limits.
pub(super) fn calibrated(profile: Profile, contention: Contention, kept: &Profile, origin: &str) -> Calibrated {
    let interpolation = kept.interpolation().and_then(|from| Some((profiles::origin(from), to_raw_value(from).ok()?)));
    let notes = profiles::drift(&profile, origin);
    Calibrated {
        contention,
        profile: Box::new(Limited(profile)),
        tried: Vec::new(),
        refined: None,
        interpolation,
        notes,
    }
}

/// The samples of a profile.
pub(super) fn times(profile: &Profile, origin: &str, calibrated: Option<Calibrated>) -> MeasuredTimes {
    MeasuredTimes {
        compute: samples(profile, Stage::Compute),
        communicate: samples(profile, Stage::Communicate),
        origin: origin.to_owned(),
        calibrated,
        notes: Vec::new(),
    }
}

/// The samples of a stage, as they are fitted.
fn samples(profile: &Profile, stage: Stage) -> Vec<Sample<Rows>> {
    let samples = profile.samples().iter().filter(|sample| sample.stage == stage);
    samples.map(|sample| Sample { size: Rows(sample.m), time: Nanos::micros(sample.microseconds) }).collect()
}

/// The error of a calibration that has failed midway.
pub(super) fn failed(why: impl std::fmt::Display) -> Refused {
    Refused(format!("cannot calibrate: {why}"), Code::Failed)
}

pub(super) fn in_process(options: &Options) -> Result<Source, Refused> {
    if options.request.ranks > MOST_RANKS {
        return Err(Refused::usage(format_args!(
            "{} ranks are too many to calibrate in one process; the maximum is {MOST_RANKS}\n\
             hint: measure on the real ranks and pass the samples with --cost",
            options.request.ranks
        )));
    }
    let task = Task::new(options, options.request.ranks)?;
    let mut group = Group::new(options.request.ranks as usize);
    if let Some((megabytes, latency)) = options.link {
        group = group.link(Link::new(megabytes * 1e6, Duration::from_secs_f64(latency / 1e6)));
    }
    let results: Vec<_> = thread::scope(|scope| {
        let run = |rank| scope.spawn(|| task.run(&mut Fused::new(rank)?));
        let running: Vec<_> = group.ranks().into_iter().map(run).collect();
        running.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut first = None;
    for result in results {
        first.get_or_insert(result.map_err(|_| failed("a rank panicked"))?.map_err(failed)?);
    }
    Ok(first.expect("there are at least two ranks"))
}

/// Rows of the tiles to measure: the usual ones, or parts of a smaller product. If rows are divided among ranks, multiples of the
/// number of ranks.
fn sizes(options: &Options) -> Result<Vec<usize>, Refused> {
    let usual = Calibration::default().rows;
    let unit = options.request.unit();
    let rows: Vec<u64> = match usual.last() {
        Some(&most) if options.request.m >= most as u64 => usual.iter().map(|&rows| rows as u64).collect(),
        _ => [16, 8, 4, 2, 1].map(|part| options.request.m.div_ceil(part)).to_vec(),
    };
    let mut rows: Vec<usize> = rows.into_iter().map(|rows| (rows.div_ceil(unit) * unit) as usize).collect();
    rows.dedup();
    if rows.len() < 3 {
        return Err(Refused::usage(format_args!(
            "m = {} is too small to measure tiles of three sizes\nhint: a product this small is not worth tiling; to plan it anyway, pass --cost",
            options.request.m
        )));
    }
    Ok(rows)
}

/// Checks that the operands of `ranks` ranks fit into the free memory, if the system reports it.
fn check_memory(options: &Options, ranks: u64, most: usize) -> Result<(), Refused> {
    let m = if options.refine { options.request.m.max(2 * most as u64) } else { 2 * most as u64 };
    let PlanRequest { n, k, .. } = &options.request;
    let side = |a: u64, b: u64| a as f64 * b as f64;
    // The lanes need up to the same amount again.
    let bytes = ranks as f64 * size_of::<f32>() as f64 * (side(m, *k) + side(*k, *n) + 2.0 * side(m, *n));
    let free = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok()
    });
    match free.map(|kilobytes| 1024.0 * kilobytes) {
        Some(free) if bytes > free => Err(Refused::usage(format_args!(
            "the matrices of {ranks} ranks take {:.1} GiB, but only {:.1} GiB is free\n\
             hint: calibrate fewer ranks, or measure elsewhere and pass the samples with --cost",
            bytes / f64::from(1 << 30),
            free / f64::from(1 << 30)
        ))),
        _ => Ok(()),
    }
}

/// The operation under its name in windrow-collective.
pub(super) fn collective(operation: FusedOperation) -> windrow_collective::Operation {
    match operation {
        FusedOperation::MatmulAllReduce => windrow_collective::Operation::MatmulAllReduce,
        FusedOperation::MatmulReduceScatter => windrow_collective::Operation::MatmulReduceScatter,
        FusedOperation::AllGatherMatmul => windrow_collective::Operation::AllGatherMatmul,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use windrow_collective::{Measured as Sample, Shape};

    use super::*;
    use crate::args::{Arguments, Command};

    /// The plan that runs is the one that was made: under the requested limits, alignment and contention.
    #[test]
    fn profiles_are_under_the_limits_of_the_plan() {
        let line =
            "windrow plan matmul-reduce-scatter --m 6000 --n 64 --k 64 --ranks 3 --calibrate in-process --align 64";
        let inputs = |flags: &str| {
            let line = format!("{line} {flags}");
            let Command::Plan(options) = Arguments::parse_from(line.split_whitespace()).command else { panic!() };
            let shape = Shape {
                operation: collective(options.request.operation),
                element: "f32".to_owned(),
                ranks: 3,
                n: 64,
                k: 64,
            };
            let sample = |stage, m| Sample { stage, m, microseconds: 1.0 + 0.2 * m as f64 };
            let samples = [192, 384, 768, 1536].into_iter();
            let samples = samples.flat_map(|m| [sample(Stage::Compute, m), sample(Stage::Communicate, m)]);
            let measured = Contention { compute: 1.1, communicate: 1.2 };
            let measured = Profile::new(shape, samples.collect(), measured).unwrap();
            limited(&options, &measured).unwrap().plan(6000).unwrap().inputs
        };
        let usual = inputs("");
        assert_eq!((usual.align, usual.contention.compute, usual.contention.communicate), (Rows(192), 1.1, 1.2));
        assert!(usual.most_tiles > 3);
        let limited = inputs("--max-tiles 3 --contention 1.5,1");
        assert_eq!((limited.contention.compute, limited.contention.communicate), (1.5, 1.0));
        assert!(limited.most_tiles <= 3, "{limited}");
    }
}
