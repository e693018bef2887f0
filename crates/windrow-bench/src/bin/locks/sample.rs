//! Shares of time: samples by the clock, sorted by place.

use std::collections::HashMap;
use std::fmt;
use std::process::Command;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

/// The number of samples in each place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    items: u64,
    locked: u64,
    user: u64,
    kernel: u64,
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.items + self.locked + self.user + self.kernel;
        let percent = |part: u64| part as f64 / all.max(1) as f64 * 100.0;
        write!(f, "{all}")?;
        for part in [self.items, self.locked, self.user, self.kernel] {
            write!(f, " | {:.2}", percent(part))?;
        }
        Ok(())
    }
}

/// A part of the program's file that is mapped into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    from: u64,
    to: u64,
    /// Its offset in the file.
    offset: u64,
}

impl Mapping {
    /// From a line of `/proc/self/maps` for code of the program at `path`.
    fn parse(line: &str, path: &str) -> Option<Mapping> {
        let mut fields = line.split_ascii_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let executable = fields.next()?.as_bytes().get(2) == Some(&b'x');
        let offset = fields.next()?;
        if !executable || fields.nth(2)? != path {
            return None;
        }
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping { from: number(from)?, to: number(to)?, offset: number(offset)? })
    }
}

fn this_program() -> Result<String, String> {
    let path = std::env::current_exe().map_err(|error| error.to_string())?;
    path.to_str().map(str::to_owned).ok_or_else(|| "the path of this program is no text".to_owned())
}

/// In a child process that will be sampled: prints where its code is.
pub(crate) fn announce() -> Result<(), String> {
    let path = this_program()?;
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
    for line in maps.lines().filter(|line| Mapping::parse(line, &path).is_some()) {
        println!("{line}");
    }
    Ok(())
}

/// Runs this program with these arguments under `perf record`.
pub(crate) fn record(arguments: &[&str]) -> Result<Shares, String> {
    let path = this_program()?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("perf.data");
    let perf = |arguments: &mut Command| {
        let output = arguments.output().map_err(|error| format!("perf: {error}"))?;
        if !output.status.success() {
            return Err(format!("perf ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let said = perf(
        Command::new("perf")
            .args(["record", "-q", "-F", "4999", "-e", "cpu-clock", "-o"])
            .arg(&file)
            .args(["--", &path])
            .args(arguments),
    )?;
    let mappings: Vec<Mapping> = said.lines().filter_map(|line| Mapping::parse(line, &path)).collect();
    let samples = perf(Command::new("perf").args(["script", "-F", "ip,sym,symoff,dso", "-i"]).arg(&file))?;
    let code = std::fs::read(&path).map_err(|error| error.to_string())?;
    let shares = sort(&samples, &Code { bytes: &code, mappings: &mappings });
    if shares == Shares::default() {
        return Err("perf has taken no samples".to_owned());
    }
    Ok(shares)
}

/// The program's file, and its mappings.
struct Code<'a> {
    bytes: &'a [u8],
    mappings: &'a [Mapping],
}

impl Code<'_> {
    /// Whether the instruction at `at`, or the one before it, is locked; `start` is the beginning of the function.
    fn is_locked(&self, start: u64, at: u64) -> bool {
        let mapping = self.mappings.iter().find(|it| (it.from..it.to).contains(&start) && at < it.to);
        let bytes = mapping.and_then(|it| self.bytes.get((start - it.from + it.offset) as usize..));
        let Some(bytes) = bytes else { return false };
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut before = false;
        while decoder.can_decode() {
            let instruction = decoder.decode();
            let locked = is_locked(&instruction);
            if instruction.next_ip() > at {
                return before || locked;
            }
            before = locked;
        }
        false
    }
}

/// Whether it has a lock prefix, or is an exchange with memory, which needs none.
fn is_locked(instruction: &Instruction) -> bool {
    let memory = instruction.op0_kind() == OpKind::Memory || instruction.op1_kind() == OpKind::Memory;
    instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg && memory
}

/// Sorts lines `address symbol+0xoffset (file)`.
fn sort(samples: &str, code: &Code<'_>) -> Shares {
    let mut shares = Shares::default();
    let mut known = HashMap::new();
    for line in samples.lines().map(str::trim) {
        let Some((address, place)) = line.split_once(' ') else { continue };
        let Ok(at) = u64::from_str_radix(address, 16) else { continue };
        // The upper half of the addresses belongs to the kernel.
        if at >> 63 == 1 {
            shares.kernel += 1;
            continue;
        }
        let symbol = place.rsplit_once(" (").map_or(place, |it| it.0);
        let offset = symbol.rsplit_once("+0x").and_then(|it| u64::from_str_radix(it.1, 16).ok());
        let locked = |offset| *known.entry(at).or_insert_with(|| code.is_locked(at - offset, at));
        if symbol.contains("arms::item") {
            shares.items += 1;
        } else if offset.is_some_and(locked) {
            shares.locked += 1;
        } else {
            shares.user += 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_sorted_by_where_they_lie() {
        // mov rax, rcx; lock xadd [rdi], rax; ret; xchg [rdi], rax; xchg rax, rcx
        let bytes = [0x48, 0x89, 0xc8, 0xf0, 0x48, 0x0f, 0xc1, 0x07, 0xc3, 0x48, 0x87, 0x07, 0x48, 0x91];
        let path = "/a/program";
        let line = "1000-100e r-xp 00000000 fe:00 7  /a/program";
        let mapping = Mapping::parse(line, path).unwrap();
        assert_eq!(mapping, Mapping { from: 0x1000, to: 0x100e, offset: 0 });
        assert_eq!(Mapping::parse(&line.replace("r-xp", "r--p"), path), None);
        assert_eq!(Mapping::parse(line, "/another"), None);
        let code = Code { bytes: &bytes, mappings: &[mapping] };
        let at = [0x1000, 0x1003, 0x1008, 0x1009, 0x100c].map(|at| code.is_locked(0x1000, at));
        assert_eq!(at, [false, true, true, true, true]);
        let samples = "
            1000 f+0x0 (/a/program)
            1008 f+0x8 (/a/program)
            2000 <x as y>::g+0x4 (/b)
            3000 locks::arms::item+0x3 (/a/program)
            ffffffff81000000 do_futex+0x0 ([kernel.kallsyms])
            7f00 [unknown] (/c)";
        let shares = sort(samples, &code);
        assert_eq!(shares, Shares { items: 1, locked: 1, user: 3, kernel: 1 });
        assert_eq!(shares.to_string(), "6 | 16.67 | 16.67 | 50.00 | 16.67");
    }
}
