//! How many threads the user asks for.

use std::{env, thread};

/// The number of threads, 0 for one per CPU. Without `--threads`, the environment variable of Hugging Face's `tokenizers` applies, with
/// the same values.
pub(crate) fn asked(option: Option<usize>, mut note: impl FnMut(&String)) -> usize {
    const SWITCH: &str = "TOKENIZERS_PARALLELISM";
    match (option, env::var(SWITCH)) {
        (Some(threads), _) => threads,
        (None, Ok(value)) if is_off(&value) => {
            note(&format!("one thread encodes, because {SWITCH} is {:?} (--threads N counts more)", value));
            1
        }
        (None, _) => 0,
    }
}

/// The number of threads that encode, 0 for one per CPU.
pub(crate) fn workers(threads: usize) -> usize {
    if threads == 0 { thread::available_parallelism().map_or(1, usize::from) } else { threads }
}

/// Whether `tokenizers` reads a value as false.
fn is_off(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "" | "off" | "false" | "f" | "no" | "n" | "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_of_tokenizers_is_read_as_there() {
        for off in ["", "0", "false", "False", "FALSE", "f", "no", "N", "off", "Off"] {
            assert!(is_off(off), "{off}");
        }
        for on in ["1", "true", "TRUE", "yes", "on", "2", " false"] {
            assert!(!is_off(on), "{on}");
        }
    }
}
