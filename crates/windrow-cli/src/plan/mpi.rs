//! Calibrates on the ranks of MPI: every process runs the same command, all of them measure, and rank 0 plans, writes and prints.
//!
//! All processes take the same path: if one process refuses its input, all refuse ([`agree`]), with the same exit code. `mpiexec` ends
//! all processes when one ends with an error, perhaps before rank 0 has printed. So each process finalizes MPI last, which waits for
//! all.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};

use windrow_collective::{Communicator, Error, Fused, World};

use super::calibrate::{Task, failed};
use super::files::Outputs;
use super::{Options, Refused, decided, print};
use crate::exit::Code;
use crate::report;

/// Runs the command on all ranks. Rank 0 reports the result.
pub(super) fn run(options: &Options) -> Code {
    let mut fused = match World::init().and_then(Fused::new) {
        Ok(fused) => fused,
        Err(error) => {
            report::error(format_args!("cannot calibrate: {error}"));
            return Code::Failed;
        }
    };
    match together(options, &mut fused) {
        Ok(()) => Code::Done,
        Err(Refused(message, code)) => {
            if fused.rank() == 0 {
                report::error(message);
            }
            code
        }
    }
}

fn together(options: &Options, fused: &mut Fused<World>) -> Result<(), Refused> {
    let sharing = sharing(fused).map_err(failed)?;
    let ready = check(options, fused, sharing);
    let (task, outputs) = agree(fused, ready)?;
    let measured = task.run(fused).map_err(failed)?;
    let shown = outputs.map_or(Ok(()), |outputs| decided(options, &outputs, &measured).and_then(print));
    agree(fused, shown)
}

/// Checks that are possible before anything is measured. Only rank 0 checks files.
fn check<'a>(
    options: &'a Options,
    fused: &Fused<World>,
    sharing: u64,
) -> Result<(Task<'a>, Option<Outputs<'a>>), Refused> {
    options.check()?;
    let started = fused.size();
    if options.request.ranks != started as u64 {
        let ranks = options.request.ranks;
        let hint = match started {
            1 => format!("run mpiexec -n {ranks} windrow plan ..."),
            _ => format!("start windrow with mpiexec -n {ranks}, or pass --ranks {started}"),
        };
        return Err(Refused::usage(format_args!(
            "--ranks is {ranks}, but the number of MPI processes is {started}\nhint: {hint}"
        )));
    }
    let outputs = (fused.rank() == 0).then(|| Outputs::check(options)).transpose()?;
    Ok((Task::new(options, sharing)?, outputs))
}

/// The codes with which a rank can refuse. The ranks exchange them as indices, from 1.
const CODES: [Code; 5] = [Code::Failed, Code::Usage, Code::BadInput, Code::CannotCreate, Code::Io];

/// Continues if all ranks have succeeded so far; otherwise all refuse with the first refusal.
fn agree<T>(fused: &mut Fused<World>, mine: Result<T, Refused>) -> Result<T, Refused> {
    let mut world = fused.communicator();
    let (me, size) = (world.rank(), world.size());
    let word = |refused: &Refused| 1 + CODES.iter().position(|code| *code == refused.1).unwrap_or(0) as u64;
    let mut words = vec![0; size];
    world.all_gather(&[mine.as_ref().err().map_or(0, word)], &mut words).map_err(failed)?;
    let Some(rank) = words.iter().position(|&word| word > 0) else { return mine };

    let mut text: Vec<u64> = match &mine {
        Err(Refused(message, _)) if rank == me => message.bytes().map(u64::from).collect(),
        _ => Vec::new(),
    };
    let mut length = [text.len() as u64];
    world.broadcast(rank, &mut length).map_err(failed)?;
    text.resize(length[0] as usize, 0);
    world.broadcast(rank, &mut text).map_err(failed)?;
    let text: Vec<u8> = text.into_iter().map(|byte| byte as u8).collect();
    let message = String::from_utf8_lossy(&text);
    let code = CODES[(words[rank] as usize - 1) % CODES.len()];
    Err(Refused(if rank == 0 { message.into_owned() } else { format!("rank {rank}: {message}") }, code))
}

/// Number of ranks on this machine, including this one.
fn sharing(fused: &mut Fused<World>) -> Result<u64, Error> {
    // Without this file, the free memory is also unknown.
    let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    boot.hash(&mut hasher);
    let mine = hasher.finish();
    let mut all = vec![0; fused.size()];
    fused.communicator().all_gather(&[mine], &mut all)?;
    Ok(all.into_iter().filter(|&other| other == mine).count() as u64)
}
