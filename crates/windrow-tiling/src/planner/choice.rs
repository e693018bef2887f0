//! Which plan is the answer: the plan that an operation with `Tiles::Auto` runs, or the plan that was fastest when it ran. The plan of a
//! file of samples is that of a profile made of the same samples.

use crate::tile::{Candidate, Margin, Plan, PlanError, Problem, Tiles};

use super::request::CutFamily;
use super::samples::{MeasuredTimes, NOISE, RanPlan};

/// The plan that is shown.
#[derive(Debug)]
pub(super) struct Choice {
    /// Its alternatives are those of the best plan, and the plans that it replaced.
    pub(super) plan: Plan,
    /// The reason for this choice.
    pub(super) why: String,
    /// Its name in drawings and tables.
    pub(super) name: &'static str,
}

impl Choice {
    /// `margin` is what a cut has to gain.
    ///
    /// # Errors
    /// The samples give no plan.
    pub(super) fn new(
        problem: &Problem<'_>,
        measured: &MeasuredTimes,
        margin: Margin,
        family: CutFamily,
    ) -> Result<Self, String> {
        let Some(calibrated) = measured.calibrated.as_ref().filter(|_| family == CutFamily::Any) else {
            return of_samples(problem, margin, family).map_err(said);
        };
        let best = Self::best(problem).map_err(said)?;
        let planned = best.planned(problem, calibrated.profile.plan(problem.rows.0)?).map_err(said)?;
        match &calibrated.tried[..] {
            [] => planned.kept(problem, calibrated.refined.as_ref()),
            [fastest, others @ ..] => planned.refined(problem, fastest, others),
        }
        .map_err(said)
    }

    /// The best plan by the costs.
    fn best(problem: &Problem<'_>) -> Result<Self, PlanError> {
        let plan = problem.plan()?;
        Ok(Self { why: plan.why.to_owned(), plan, name: "planned" })
    }

    /// The plan that `Tiles::Auto` runs: it has no more tiles than the samples can justify, and gains more than predictions may be off by.
    fn planned(mut self, problem: &Problem<'_>, planned: Plan) -> Result<Self, PlanError> {
        if planned.tiles != self.plan.tiles {
            self.why = planned.why.to_owned();
        }
        self.plan.inputs.margin = planned.inputs.margin;
        self.take(problem, planned.tiles, "exact")?;
        Ok(self)
    }

    /// The best cut into tiles of two sizes. Its gain must exceed the margin, as that of any other plan.
    fn of_two_sizes(mut self, problem: &Problem<'_>, margin: Margin) -> Result<Self, PlanError> {
        let tiles = problem.two_sizes()?;
        if tiles.len() <= 1 && self.plan.tiles.len() > 1 {
            self.why = "no cut into tiles of two sizes is better than one tile".to_owned();
        }
        self.take(problem, tiles, "exact")?;
        let cut = self.plan.tiles.len() > 1;
        self.plan = problem.judged(self.plan, margin)?;
        // The alternative "two sizes" is the same cut.
        self.plan.alternatives.retain(|cut| cut.name != "best");
        if cut && self.plan.tiles.len() <= 1 {
            self.why = self.plan.why.to_owned();
        }
        Ok(self)
    }

    /// The cut that was the fastest when the profile was made, if any was run then.
    fn kept(mut self, problem: &Problem<'_>, refined: Option<&Tiles>) -> Result<Self, PlanError> {
        if let Some(tiles) = refined.filter(|tiles| problem.allows(tiles)) {
            self.take(problem, tiles.clone(), "planned")?;
            self.why = "the fastest of the cuts that were run when the profile was made".to_owned();
            self.name = "refined";
        }
        Ok(self)
    }

    /// The fastest of the plans that ran.
    fn refined(mut self, problem: &Problem<'_>, fastest: &RanPlan, others: &[RanPlan]) -> Result<Self, PlanError> {
        self.take(problem, fastest.tiles.clone(), "planned")?;
        let (took, predicted) = (fastest.took.as_micros(), fastest.predicted_call.as_micros());
        let limit = match self.plan.tiles.len() {
            1 => String::new(),
            _ => format!("; {} is the bottleneck", self.plan.losses.lane),
        };
        let rest: Vec<String> =
            others.iter().map(|other| format!("{} took {:.1} us", other.tiles, other.took.as_micros())).collect();
        self.why = match &rest[..] {
            [] => format!("the only plan that was run, at {took:.1} us ({predicted:.1} us predicted){limit}"),
            rest => format!(
                "the fastest of {} plans that were run, at {took:.1} us ({predicted:.1} us predicted); {}{limit}",
                1 + rest.len(),
                rest.join("; ")
            ),
        };
        self.name = "refined";
        Ok(self)
    }

    /// One tile instead of a cut by costs that are assumed.
    pub(super) fn uncut(mut self, problem: &Problem<'_>) -> Result<Self, PlanError> {
        self.why = format!(
            "only one size was measured, which does not determine the cost of a tile; {} would take {:.1} us at \
             the assumed cost. \
             Measure another size, or pass --fixed-costs or --per-tile",
            self.plan.tiles,
            self.plan.predicted.as_micros()
        );
        self.take(problem, Tiles::one(problem.rows), "assumed")?;
        Ok(self)
    }

    /// Chooses these tiles; the previous ones become an alternative.
    fn take(&mut self, problem: &Problem<'_>, tiles: Tiles, had: &'static str) -> Result<(), PlanError> {
        let plan = &mut self.plan;
        // The lower bound for all cuts does not change.
        let least = plan.predicted.0 / (1.0 + plan.gap);
        let (timeline, predicted) = (problem.timeline(&tiles)?, problem.predict(&tiles)?);
        let tiles = std::mem::replace(&mut plan.tiles, tiles);
        plan.alternatives.push(Candidate { name: had, tiles, predicted: plan.predicted });
        plan.predicted = predicted;
        plan.losses = timeline.losses();
        plan.gap = if least > 0.0 { (predicted.0 / least - 1.0).max(0.0) } else { 0.0 };
        Ok(())
    }
}

fn said(error: PlanError) -> String {
    error.to_string()
}

/// The plan of samples, however they were taken.
pub(super) fn of_samples(problem: &Problem<'_>, margin: Margin, family: CutFamily) -> Result<Choice, PlanError> {
    let best = Choice::best(problem)?;
    match family {
        CutFamily::TwoSizes => best.of_two_sizes(problem, margin),
        CutFamily::Any => best.planned(problem, problem.plan_within(NOISE, margin)?),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Calibrated, SampledProfile};
    use super::*;
    use crate::tile::{Contention, PlanVerdict};
    use crate::{Nanos, Rows};

    const ROWS: Rows = Rows(4096);

    fn compute(rows: Rows) -> Nanos {
        Nanos::micros(0.02 * rows.0 as f64)
    }

    fn communicate(rows: Rows) -> Nanos {
        Nanos::micros(0.2 + 0.25 * rows.0 as f64)
    }

    fn problem() -> Problem<'static> {
        Problem { align: Rows(32), ..Problem::new(ROWS, &compute, &communicate) }
    }

    /// A profile that allows two tiles.
    #[derive(Debug)]
    struct Limited;

    impl SampledProfile for Limited {
        fn plan(&self, m: u64) -> Result<Plan, String> {
            let problem = Problem { most_tiles: 2, ..problem() };
            problem.plan_within(NOISE, self.margin(m)).map_err(said)
        }

        fn margin(&self, _: u64) -> Margin {
            Margin { error: NOISE, ..Margin::NONE }
        }
    }

    fn calibrated(tried: Vec<RanPlan>) -> MeasuredTimes {
        let (contention, profile) = (Contention::NONE, Box::new(Limited));
        let calibrated =
            Calibrated { contention, profile, tried, refined: None, interpolation: None, notes: Vec::new() };
        let (origin, calibrated) = (String::new(), Some(calibrated));
        MeasuredTimes { compute: Vec::new(), communicate: Vec::new(), origin, calibrated, notes: Vec::new() }
    }

    fn alternative<'a>(choice: &'a Choice, name: &str) -> &'a Candidate {
        let mut of_that_name = choice.plan.alternatives.iter().filter(|cut| cut.name == name);
        let found = of_that_name.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(of_that_name.next().is_none(), "{name} is there twice");
        found
    }

    fn chosen(measured: &MeasuredTimes) -> Choice {
        let margin = measured.calibrated.as_ref().map(|calibrated| calibrated.profile.margin(ROWS.0));
        let margin = margin.unwrap_or(Margin { error: NOISE, ..Margin::NONE });
        Choice::new(&problem(), measured, margin, CutFamily::Any).unwrap()
    }

    #[test]
    fn samples_of_a_file_are_planned_by_the_same_rule() {
        let choice = chosen(&MeasuredTimes { calibrated: None, ..calibrated(Vec::new()) });
        let within = problem().plan_within(NOISE, Margin { error: NOISE, ..Margin::NONE }).unwrap();
        assert_eq!((&choice.plan.tiles, choice.plan.predicted), (&within.tiles, within.predicted));
        assert_eq!((&*choice.why, choice.name), (within.why, "planned"));
        assert_eq!(alternative(&choice, "exact").tiles, problem().plan().unwrap().tiles);
    }

    #[test]
    fn a_calibration_has_the_plan_that_auto_runs() {
        let measured = calibrated(Vec::new());
        let choice = chosen(&measured);
        let profile = &measured.calibrated.as_ref().unwrap().profile;
        let (auto, best) = (profile.plan(ROWS.0).unwrap(), problem().plan().unwrap());
        assert!(auto.tiles.len() < best.tiles.len(), "{} {}", auto.tiles, best.tiles);
        assert_eq!(choice.plan.tiles, auto.tiles);
        assert_eq!(choice.plan.predicted, problem().predict(&auto.tiles).unwrap());
        assert_eq!(alternative(&choice, "exact").tiles, best.tiles);
        assert_eq!(choice.why, auto.why);
        // The gap is relative to all cuts, not only to those with as few tiles.
        let above = choice.plan.predicted.0 / best.predicted.0 - 1.0;
        assert!(above > 0.0 && (choice.plan.gap - above).abs() < 1e-9 + best.gap, "{} {above}", choice.plan.gap);
        let losses = choice.plan.losses;
        let sum = losses.whole.0 + losses.expansion.0 + losses.contention.0 + losses.waiting.0;
        assert!((sum - choice.plan.predicted.0).abs() < 1.0, "{losses:?}");
    }

    #[test]
    fn the_fastest_that_was_run_wins_against_the_prediction() {
        let auto = chosen(&calibrated(Vec::new())).plan;
        let ran = |tiles: &Tiles, took| RanPlan {
            tiles: tiles.clone(),
            predicted: problem().predict(tiles).unwrap(),
            predicted_call: problem().predict(tiles).unwrap(),
            took: Nanos::micros(took),
        };
        let one = Tiles::one(ROWS);
        let measured = calibrated(vec![ran(&one, 700.0), ran(&auto.tiles, 900.5)]);
        let choice = chosen(&measured);
        assert_eq!((&choice.plan.tiles, choice.plan.verdict()), (&one, PlanVerdict::DoNotTile));
        assert_eq!((choice.plan.predicted, choice.plan.benefit()), (choice.plan.serial, 0.0));
        assert_eq!(alternative(&choice, "planned").tiles, auto.tiles);
        assert_eq!(alternative(&choice, "planned").predicted, auto.predicted);
        assert_eq!(choice.name, "refined");
        let says = format!(
            "the fastest of 2 plans that were run, at 700.0 us (1106.1 us predicted); {} took 900.5 us",
            auto.tiles
        );
        assert_eq!(choice.why, says);

        let only = chosen(&calibrated(vec![ran(&auto.tiles, 900.5)]));
        assert_eq!((&only.plan.tiles, only.plan.gap), (&auto.tiles, auto.gap));
        let says = "the only plan that was run, at 900.5 us (";
        assert!(only.why.starts_with(says) && only.why.ends_with("; communication is the bottleneck"), "{}", only.why);
    }
}
