//! The program that libFuzzer drives. `WINDROW_FUZZ` names the target.
#![no_main]

use std::panic::{self, catch_unwind};
use std::process;
use std::sync::{Mutex, OnceLock, PoisonError};

use windrow_fuzz::{Target, target};

/// The last panic. libFuzzer takes each panic for a finding, but windrow turns panics of an engine into errors.
static LAST: Mutex<String> = Mutex::new(String::new());

fn chosen() -> Target {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        panic::set_hook(Box::new(|panic| {
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
        }));
        let name = std::env::var("WINDROW_FUZZ").unwrap_or_default();
        target(&name).unwrap_or_else(|| {
            eprintln!("error: {name:?} is not a target\nhint: cargo xtask fuzz TARGET");
            process::exit(2);
        })
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if catch_unwind(|| (chosen().run)(data)).is_err() {
        eprintln!("{}", LAST.lock().unwrap_or_else(PoisonError::into_inner));
        process::abort();
    }
});
