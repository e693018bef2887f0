//! A decision as a value: its inputs, its choice, and the predicted cost of the alternatives.

use std::fmt;

use crate::Nanos;

/// A possible choice and its predicted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternative {
    /// The choice, in up to three words.
    pub name: &'static str,
    /// Predicted time from now to the end.
    pub predicted: Nanos,
}

/// Up to four alternatives, without an allocation, because decisions are made on hot paths.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Alternatives {
    list: [Option<Alternative>; 4],
}

impl Alternatives {
    /// The given alternatives; those beyond the fourth are dropped.
    pub fn new(given: &[Alternative]) -> Self {
        let mut list = [None; 4];
        for (place, alternative) in list.iter_mut().zip(given) {
            *place = Some(*alternative);
        }
        Self { list }
    }

    /// The alternatives, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &Alternative> {
        self.list.iter().flatten()
    }
}

/// A decision as a value: its inputs, its choice, and the alternatives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision<I, C> {
    /// The measurements that the decision depends on.
    pub inputs: I,
    /// The choice.
    pub choice: C,
    /// The possible choices, including the one made.
    pub alternatives: Alternatives,
    /// The reason, in a few words.
    pub why: &'static str,
}

impl<I: fmt::Display, C: fmt::Display> fmt::Display for Decision<I, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.choice, self.why, self.inputs)?;
        for alternative in self.alternatives.iter() {
            write!(f, "; {}: {}", alternative.name, alternative.predicted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_prints_choice_reason_inputs_and_alternatives() {
        let alternative = |name, nanos| Alternative { name, predicted: Nanos(nanos) };
        let decision = Decision {
            inputs: "3 items",
            choice: "stay serial",
            alternatives: Alternatives::new(&[alternative("serial", 5.0), alternative("shared", 900.0)]),
            why: "too little is left",
        };
        assert_eq!(decision.to_string(), "stay serial: too little is left (3 items); serial: 5 ns; shared: 900 ns");
        assert_eq!(Alternatives::new(&[alternative("x", 1.0); 6]).iter().count(), 4);
    }
}
