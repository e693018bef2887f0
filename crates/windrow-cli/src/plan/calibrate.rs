//! What tiles take, measured here: on ranks that are threads of this process.

use std::thread;
use std::time::Duration;

use windrow::plan::cost::{Fitting, Sample};
use windrow::plan::{Nanos, Rows};
use windrow_collective::{Calibration, Error, Fused, Group, Link, Profile, Rank, Stage, Tried};

use super::args::Operation;
use super::samples::Measured;
use super::{Options, Refused};
use crate::exit::Code;

/// More ranks than this are no longer a machine that anybody plans on; each has two threads.
const MOST_RANKS: u64 = 64;
/// How often plans are run that are compared.
const REPEATS: usize = 5;

pub(super) fn in_process(options: &Options) -> Result<Measured, Refused> {
    if options.ranks > MOST_RANKS {
        return Err(Refused::usage(format_args!(
            "{} ranks are too many to calibrate in one process, which can have {MOST_RANKS}\n\
             hint: measure on the real ranks and pass the samples with --cost",
            options.ranks
        )));
    }
    let rows = sizes(options)?;
    let sides = [options.n, options.k, options.m].map(usize::try_from);
    let [Ok(n), Ok(k), Ok(m)] = sides else { return Err(Refused::usage("the matrices do not fit into memory")) };
    check_memory(options, rows.iter().copied().max().unwrap_or(0))?;

    let mut group = Group::new(options.ranks as usize);
    if let Some((megabytes, latency)) = options.link {
        group = group.link(Link::new(megabytes * 1e6, Duration::from_secs_f64(latency / 1e6)));
    }
    // The fit that counts is made from the samples, as from a file; here none is refused.
    let fitting = Fitting { tolerance: 1e6, noise: 1e3, ..Fitting::default() };
    let how = Calibration { rows, fitting, align: options.align, ..Calibration::default() };
    let refine = options.refine.then_some([m, n, k]);
    let results: Vec<_> = thread::scope(|scope| {
        let run = |rank| scope.spawn(|| run(rank, options, [n, k], &how, refine));
        let running: Vec<_> = group.ranks().into_iter().map(run).collect();
        running.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let failed = |why: String| Refused(format!("cannot calibrate: {why}"), Code::Failed);
    let mut first = None;
    for result in results {
        let result = result.map_err(|_| failed("a rank panicked".to_owned()))?;
        first.get_or_insert(result.map_err(|error| failed(error.to_string()))?);
    }
    let Some((profile, tried)) = first else { unreachable!("there are two ranks at least") };

    let of = |stage| {
        let samples = profile.samples().iter().filter(move |sample| sample.stage == stage);
        samples.map(|sample| Sample { size: Rows(sample.m), time: Nanos::micros(sample.microseconds) }).collect()
    };
    Ok(Measured {
        compute: of(Stage::Compute),
        communicate: of(Stage::Communicate),
        contention: Some(profile.contention()),
        tried,
        origin: "the calibration".to_owned(),
    })
}

/// One rank's part.
fn run(
    rank: Rank,
    options: &Options,
    [n, k]: [usize; 2],
    how: &Calibration,
    refine: Option<[usize; 3]>,
) -> Result<(Profile, Vec<Tried>), Error> {
    let operation = options.operation.collective();
    let mut fused = Fused::new(rank)?;
    let profile = fused.calibrate::<f32>(operation, n, k, how)?;
    let (shape, samples) = (profile.shape().clone(), profile.samples().to_vec());
    let tried = match (refine, Profile::new(shape, samples, profile.contention())) {
        (Some(shape), Ok(fitted)) => {
            fused.use_profile(fitted.align(how.align));
            fused.refine::<f32>(operation, shape, REPEATS)?
        }
        // What is refused on all ranks here is refused when the samples are fitted for the plan; they are to be written before.
        _ => Vec::new(),
    };
    Ok((profile, tried))
}

/// Rows of the tiles to measure: the usual ones, or parts of a smaller product. What is dealt out to ranks is a multiple of their number.
fn sizes(options: &Options) -> Result<Vec<usize>, Refused> {
    let usual = Calibration::default().rows;
    let unit = options.operation.collective().unit(options.ranks as usize) as u64;
    let rows: Vec<u64> = match usual.last() {
        Some(&most) if options.m >= most as u64 => usual.iter().map(|&rows| rows as u64).collect(),
        _ => [16, 8, 4, 2, 1].map(|part| options.m.div_ceil(part)).to_vec(),
    };
    let mut rows: Vec<usize> = rows.into_iter().map(|rows| (rows.div_ceil(unit) * unit) as usize).collect();
    rows.dedup();
    if rows.len() < 3 {
        return Err(Refused::usage(format_args!(
            "{} rows are too few to measure tiles of three sizes\nhint: so small a product is not worth tiles; or pass --cost",
            options.m
        )));
    }
    Ok(rows)
}

/// Whether the operands fit into what is free, where the system says.
fn check_memory(options: &Options, most: usize) -> Result<(), Refused> {
    let m = if options.refine { options.m.max(2 * most as u64) } else { 2 * most as u64 };
    let Options { n, k, ranks, .. } = options;
    let side = |a: u64, b: u64| a as f64 * b as f64;
    // And as much again on its way through the lanes, at most.
    let bytes = *ranks as f64 * size_of::<f32>() as f64 * (side(m, *k) + side(*k, *n) + 2.0 * side(m, *n));
    let free = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok()
    });
    match free.map(|kilobytes| 1024.0 * kilobytes) {
        Some(free) if bytes > free => Err(Refused::usage(format_args!(
            "the matrices of {ranks} ranks take {:.1} GiB, and {:.1} GiB are free\n\
             hint: calibrate fewer ranks, or measure elsewhere and pass the samples with --cost",
            bytes / f64::from(1 << 30),
            free / f64::from(1 << 30)
        ))),
        _ => Ok(()),
    }
}

impl Operation {
    fn collective(self) -> windrow_collective::Operation {
        match self {
            Self::MatmulAllReduce => windrow_collective::Operation::MatmulAllReduce,
            Self::MatmulReduceScatter => windrow_collective::Operation::MatmulReduceScatter,
            Self::AllGatherMatmul => windrow_collective::Operation::AllGatherMatmul,
        }
    }
}
