//! The ways to share a structure, as data.

use std::fmt;
use std::time::Duration;

use tokio::runtime::Handle;
use windrow::batch::Batched;

use crate::in_micros;
use crate::resource::Resource;

/// What the callers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Threads that block.
    Threads,
    /// Tasks of an executor with two workers.
    Tasks,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Threads => "threads",
            Kind::Tasks => "tasks",
        })
    }
}

/// What runs the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// `build`: the callers.
    Callers,
    /// `Runner::thread`.
    Thread,
    /// `Runner::beside_callers`.
    Beside,
    /// `Runner::spawned`, with the executor's `spawn_blocking`.
    Spawned,
}

/// The choices for a [`Batched`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting {
    pub(crate) runner: Runner,
    /// Batches hold at most half of the callers.
    pub(crate) is_halved: bool,
    /// The longest wait of the runner for callers that it has just answered.
    pub(crate) longest: Option<Duration>,
}

impl Setting {
    const fn of(runner: Runner) -> Self {
        Setting { runner, is_halved: false, longest: None }
    }

    pub(crate) fn build(self, resource: Resource, callers: usize, runtime: &Handle) -> Batched<Resource> {
        let mut builder = Batched::builder();
        if self.is_halved {
            builder = builder.limit(callers / 2);
        }
        if let Some(longest) = self.longest {
            builder = builder.longest_wait(longest);
        }
        match self.runner {
            Runner::Callers => builder.build(resource),
            Runner::Thread => builder.build_on(windrow::batch::Runner::thread(|| resource)).expect("a thread"),
            Runner::Beside => builder.build_on(windrow::batch::Runner::beside_callers(resource)).expect("a thread"),
            Runner::Spawned => {
                let runtime = runtime.clone();
                builder
                    .build_on(windrow::batch::Runner::spawned(resource, move |run| {
                        runtime.spawn_blocking(run);
                    }))
                    .unwrap()
            }
        }
    }
}

/// A way to share the structure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arm {
    /// `Batched::new`.
    Default,
    /// The same again: how much two equal arms differ.
    Control,
    /// Another choice for `Batched`.
    Windrow(Setting),
    StdMutex,
    ParkingLot,
    /// Tasks alone.
    TokioMutex,
    /// A thread behind a channel.
    ActorThread,
    /// The same again: the difference of two equal arms.
    ActorControl,
    /// Tasks alone: a task behind a channel.
    ActorTask,
    /// Tasks alone: the crate batch-aint-one.
    AintOne,
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Arm::Default => "windrow",
            Arm::Control => "control",
            Arm::StdMutex => "std mutex",
            Arm::ParkingLot => "parking_lot mutex",
            Arm::TokioMutex => "tokio mutex",
            Arm::ActorThread => "actor thread",
            Arm::ActorControl => "actor control",
            Arm::ActorTask => "actor task",
            Arm::AintOne => "batch-aint-one",
            Arm::Windrow(Setting { runner, is_halved, longest }) => {
                let mut name = format!("windrow {runner:?}").to_lowercase();
                if *is_halved {
                    name += " half";
                }
                if let Some(longest) = longest {
                    name += &format!(" wait {}", in_micros(*longest));
                }
                return f.pad(&name);
            }
        };
        f.pad(name)
    }
}

/// Longer waits are tried where a batch costs at least this much.
const WAITS_FROM: Duration = Duration::from_micros(20);

impl Arm {
    /// A separate thread runs all batches.
    pub(crate) const THREAD: Arm = Arm::Windrow(Setting::of(Runner::Thread));

    /// The arms of a cell. Those that are equal to another one are left out.
    pub(crate) fn of_cell(kind: Kind, callers: usize, fixed: Duration) -> Vec<Arm> {
        let setting = |runner, is_halved, longest: Option<u64>| {
            Arm::Windrow(Setting { runner, is_halved, longest: longest.map(Duration::from_micros) })
        };
        let mut arms = vec![Arm::Default, Arm::Control, Arm::THREAD];
        arms.extend([Runner::Beside, Runner::Spawned].map(|runner| setting(runner, false, None)));
        if callers > 1 {
            arms.extend([Runner::Callers, Runner::Thread].map(|runner| setting(runner, true, None)));
            if fixed >= WAITS_FROM {
                arms.push(setting(Runner::Callers, false, Some(100)));
                arms.extend([100, 300].map(|longest| setting(Runner::Thread, false, Some(longest))));
                arms.push(setting(Runner::Beside, false, Some(100)));
            }
        }
        arms.extend([Arm::StdMutex, Arm::ParkingLot, Arm::ActorThread]);
        if kind == Kind::Tasks {
            arms.extend([Arm::TokioMutex, Arm::ActorTask]);
        }
        arms
    }

    /// Arms of a service: the default, a separate thread, and the peers; with `unwaited` also the first two without the wait for returning callers.
    pub(crate) fn of_service(kind: Kind, unwaited: bool) -> Vec<Arm> {
        let mut arms = vec![Arm::Default, Arm::THREAD];
        if unwaited {
            arms.extend([Runner::Callers, Runner::Thread].map(Arm::unwaited));
        }
        arms.extend([Arm::ActorThread, Arm::ActorControl]);
        if kind == Kind::Tasks {
            arms.push(Arm::AintOne);
        }
        arms
    }

    /// Without the wait for callers that were just answered.
    pub(crate) fn unwaited(runner: Runner) -> Arm {
        Arm::Windrow(Setting { longest: Some(Duration::ZERO), ..Setting::of(runner) })
    }

    /// Whether it is compared with the default.
    pub(crate) fn is_rest(self) -> bool {
        !matches!(self, Arm::Default | Arm::Control)
    }
}
