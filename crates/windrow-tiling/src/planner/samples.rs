//! Measured times of tiles, and the costs that are fitted to them.

use std::fmt;

use serde_json::value::RawValue;

use crate::cost::{FitError, Fitting, Sample, fit};
use crate::tile::{Contention, Lane, Margin, Plan, PlanError, Problem, Tiles};
use crate::{Nanos, Rows};

use super::lane::{Cuts, LaneCost};
use super::{PlanRequest, Unplanned};

/// The columns of a file of samples.
pub const SAMPLE_COLUMNS: [&str; 3] = ["stage", "m", "microseconds"];

/// The share within which the samples of a file cannot tell plans apart: that of a profile.
pub(super) const NOISE: f64 = Fitting::UNLIMITED.noise;

/// A text file, and its name in messages.
#[derive(Clone, Debug)]
pub struct CostFile {
    /// The name, without characters that a terminal obeys.
    pub name: String,
    /// The content.
    pub text: String,
}

/// Measured times of tiles of some sizes in each lane.
#[derive(Debug)]
pub struct MeasuredTimes {
    /// Samples of the computation.
    pub compute: Vec<Sample<Rows>>,
    /// Samples of the communication.
    pub communicate: Vec<Sample<Rows>>,
    /// The origin of the samples, for messages.
    pub origin: String,
    /// The other results of a calibration; `None` if the samples were read from a file.
    pub calibrated: Option<Calibrated>,
    /// Notes on the files that were read.
    pub notes: Vec<String>,
}

/// A profile that samples are of, with a fit of its own.
pub trait SampledProfile: fmt::Debug + Send {
    /// The plan that an operation of `m` rows runs.
    ///
    /// # Errors
    /// There is none.
    fn plan(&self, m: u64) -> Result<Plan, String>;

    /// The gain that a cut of `m` rows needs.
    fn margin(&self, m: u64) -> Margin;
}

/// A plan that ran.
#[derive(Clone, Debug, PartialEq)]
pub struct RanPlan {
    /// The tiles.
    pub tiles: Tiles,
    /// The predicted time of the tiles.
    pub predicted: Nanos,
    /// The predicted time of the whole call.
    pub predicted_call: Nanos,
    /// The time that it took.
    pub took: Nanos,
}

/// The results of a calibration in addition to its samples.
#[derive(Debug)]
pub struct Calibrated {
    /// The measured slowdown of both lanes by each other.
    pub contention: Contention,
    /// The profile that an operation plans with by itself, under the requested limits and contention.
    pub profile: Box<dyn SampledProfile>,
    /// Plans that were run, the fastest first.
    pub tried: Vec<RanPlan>,
    /// The cut that was the fastest when the profile was made, of a profile from a file.
    pub refined: Option<Tiles>,
    /// The measured shapes that the costs are interpolated from, if they are: in words, and as JSON.
    pub interpolation: Option<(String, Box<RawValue>)>,
    /// Notes on the predictions that programs made with the profile.
    pub notes: Vec<String>,
}

/// The cost functions that were fitted to samples.
pub(super) struct Fits {
    pub(super) compute: LaneCost,
    pub(super) communicate: LaneCost,
    /// True if one size of a lane was measured, and nothing says what a tile costs.
    pub(super) is_guess: bool,
    /// Notes on samples that were skipped or assumed.
    pub(super) notes: Vec<String>,
}

impl MeasuredTimes {
    /// The measured slowdown of both lanes by each other, if known.
    pub(super) fn contention(&self) -> Option<Contention> {
        self.calibrated.as_ref().map(|calibrated| calibrated.contention)
    }

    /// What the costs are interpolated from, if they are.
    pub(super) fn interpolation(&self) -> Option<&(String, Box<RawValue>)> {
        self.calibrated.as_ref().and_then(|calibrated| calibrated.interpolation.as_ref())
    }

    /// Plans that were run, the fastest first.
    pub(super) fn tried(&self) -> &[RanPlan] {
        self.calibrated.as_ref().map_or(&[], |calibrated| &calibrated.tried)
    }

    /// What a cut of `m` rows has to gain.
    pub(super) fn margin(&self, fits: &Fits, m: u64) -> Margin {
        self.calibrated.as_ref().map_or_else(|| fits.margin(), |calibrated| calibrated.profile.margin(m))
    }

    /// The name of a lane's stage in samples.
    fn stage(lane: Lane) -> &'static str {
        match lane {
            Lane::Compute => "compute",
            Lane::Communicate => "communicate",
        }
    }

    /// The samples as a file.
    pub fn csv(&self) -> String {
        let mut text = SAMPLE_COLUMNS.join(",") + "\n";
        for (lane, samples) in [(Lane::Compute, &self.compute), (Lane::Communicate, &self.communicate)] {
            for Sample { size, time } in samples {
                text += &format!("{},{},{:.3}\n", Self::stage(lane), size.0, time.as_micros());
            }
        }
        text
    }

    /// The costs that plans are made from.
    pub(super) fn fit(&self, options: &PlanRequest) -> Result<Fits, Unplanned> {
        let (cuts, limit) = (Cuts { rows: options.m, align: options.aligned() }, options.limit());
        let mut notes = Vec::new();
        let mut lane = |lane, samples: &[Sample<Rows>]| {
            let unfit = match LaneCost::new(lane, samples, cuts, limit) {
                Ok(cost) => return Ok(cost),
                Err(unfit) => unfit,
            };
            // The sizes of a calibration can be measured again, those of a published table cannot.
            let other = match unfit {
                _ if self.calibrated.is_some() => None,
                FitError::TooFew { .. } => LaneCost::assumed(lane, samples, options.fixed_costs)
                    .map_err(|message| Unplanned::usage(format_args!("{}, {message}", self.origin)))?,
                _ => LaneCost::without_one(lane, samples, cuts, limit, &unfit),
            };
            if let Some((cost, note)) = other {
                notes.push(note);
                return Ok(cost);
            }
            let (origin, stage) = (&self.origin, Self::stage(lane));
            Err(Unplanned::bad_input(match unfit {
                FitError::TooFew { sizes: 0 } => format!(
                    "{origin} has no samples for stage {stage}\n\
                     hint: measure at least three sizes for each stage; the stages can be in separate --cost files"
                ),
                FitError::Misses { .. } | FitError::Falls { .. } => {
                    let remedy = match fit(samples, &Fitting::UNLIMITED) {
                        Ok(loose) => format!(
                            ", or plan with this less exact fit: --tolerance {}%",
                            (100.0 * loose.worst().relative().abs()).ceil()
                        ),
                        Err(_) => String::new(),
                    };
                    format!("{origin}, stage {stage}: {unfit}{remedy}")
                }
                unfit => format!("{origin}, stage {stage}: {unfit}"),
            }))
        };
        let (compute, communicate) = (lane(Lane::Compute, &self.compute)?, lane(Lane::Communicate, &self.communicate)?);
        let is_given = options.fixed_costs.is_some() || options.per_tile > 0.0;
        let is_guess = !is_given && [&compute, &communicate].iter().any(|cost: &&LaneCost| cost.sizes() == 1);
        Ok(Fits { compute, communicate, notes, is_guess })
    }
}

impl Fits {
    /// The smallest size that was measured in both lanes. Times below it are extrapolated.
    pub(super) fn smallest(&self) -> Rows {
        self.compute.range().0.max(self.communicate.range().0)
    }

    pub(super) fn lanes(&self) -> [&LaneCost; 2] {
        [&self.compute, &self.communicate]
    }

    /// Which costs the plan uses for sizes smaller or larger than all measured ones.
    pub(super) fn beyond(&self, plan: &Plan) -> Vec<String> {
        let whole = Tiles::one(plan.inputs.rows);
        let note = |cost: &LaneCost| {
            let lane = cost.lane;
            let known = if cost.source() == "assumed" { "is assumed" } else { "was measured" };
            let of_plan = cost.outside(&plan.tiles).map(|rows| format!("the planned tiles of {rows} rows"));
            let of_whole =
                cost.outside(&whole).filter(|_| plan.tiles != whole).map(|rows| format!("all {rows} rows in one tile"));
            let guessed: Vec<String> = of_plan.into_iter().chain(of_whole).collect();
            let (least, most) = cost.range();
            (!guessed.is_empty()).then(|| {
                format!(
                    "{lane} {known} from {least} to {most} rows; its time is extrapolated for {}",
                    guessed.join(" and ")
                )
            })
        };
        self.lanes().into_iter().filter_map(note).collect()
    }

    /// What a cut has to gain, as for a profile of the same samples: more than their noise, and than what the fits usually miss.
    pub(super) fn margin(&self) -> Margin {
        let error = self.lanes().into_iter().map(LaneCost::typical).fold(NOISE, f64::max);
        Margin { error, ..Margin::NONE }
    }

    /// How far the costs can be trusted. A loose fit makes the plan uncertain: a note has what that may cost, and the alternatives that may
    /// be as good.
    pub(super) fn trust(&self, problem: &Problem<'_>, plan: &Plan, origin: &str) -> Vec<String> {
        let mut notes: Vec<String> = self.lanes().into_iter().filter_map(|cost| cost.note(origin)).collect();
        let errors = self.lanes().map(|cost| Some(cost.worst()).filter(|worst| *worst > Fitting::default().tolerance));
        let error = errors.into_iter().flatten().fold(0.0, f64::max);
        if error > 0.0 {
            let near = |predicted: Nanos| predicted.0 <= plan.predicted.0 * (1.0 + error);
            let others = plan.alternatives.iter().filter(|other| other.tiles != plan.tiles && near(other.predicted));
            let others: Vec<&str> = others.map(|other| other.name).collect();
            let as_good = match &others[..] {
                [] => "no alternative is predicted to be so close to the plan that it may be faster".to_owned(),
                others => format!(
                    "alternatives predicted to be so close to the plan that they may be faster: {}",
                    others.join(", ")
                ),
            };
            let regret = match regret(problem, plan, errors.map(Option::unwrap_or_default)) {
                Ok(regret) => format!(
                    "if the time of a lane is off by the error of its fit, another cut is at most {:.1} % faster; ",
                    100.0 * regret
                ),
                Err(_) => String::new(),
            };
            notes.push(format!(
                "predictions may be off by {:.1} %; {regret}{as_good}; to reduce the error, measure more sizes, each \
                 several times",
                100.0 * error
            ));
        }
        notes
    }

    /// Whether some of these tiles are smaller or larger than all measured ones.
    pub(super) fn extrapolates(&self, tiles: &Tiles) -> bool {
        self.lanes().into_iter().any(|cost| cost.outside(tiles).is_some())
    }
}

/// The sensitivity of a plan to these errors of its lanes: the largest share of its time that the best cut saves if one lane takes as much more
/// time and the other as much less.
fn regret(problem: &Problem<'_>, plan: &Plan, [compute, communicate]: [f64; 2]) -> Result<f64, PlanError> {
    let mut most: f64 = 0.0;
    for (slower, later) in [(1.0, -1.0), (-1.0, 1.0)] {
        let (computes, communicates) = (1.0 + slower * compute, 1.0 + later * communicate);
        let problem: Problem<'_> = *problem;
        let compute = |rows| Nanos((problem.compute)(rows).0 * computes.max(0.0));
        let communicate = |rows| Nanos((problem.communicate)(rows).0 * communicates.max(0.0));
        let other = Problem { compute: &compute, communicate: &communicate, ..problem };
        let (took, best) = (other.predict(&plan.tiles)?, other.plan()?.predicted);
        if took.0 > 0.0 {
            most = most.max(1.0 - best.0 / took.0);
        }
    }
    Ok(most)
}

/// Text of a file for a message: its beginning, in quotes, without control characters.
pub(super) fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}... ({} bytes)", &text[..end], text.len()),
    }
}

/// A message that may quote a file: its beginning and its end, without control characters.
pub fn shortened(message: &str) -> String {
    const MOST: usize = 100;
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let chars: Vec<char> = message.chars().map(shown).collect::<String>().chars().collect();
    if chars.len() <= 2 * MOST {
        return chars.into_iter().collect();
    }
    let ends = [&chars[..MOST], &chars[chars.len() - MOST..]].map(|part| part.iter().collect::<String>());
    ends.join(" ... ")
}

/// The names of some files.
pub(super) fn origin(files: &[CostFile]) -> String {
    files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", ")
}
