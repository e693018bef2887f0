//! Teams against the serial loop: rounds of all kinds, at all widths, with every way to leave.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use windrow::team::{Deal, Ended, Family, Lend, Member, Own, TeamErrorKind, Width, split};
use windrow::{Pool, team};

const N: usize = if cfg!(miri) { 30 } else { 1500 };

/// Every element is added to all that come after it.
fn algorithm(x: &mut [f64]) {
    for i in 0..x.len() {
        let (head, tail) = x[i..].split_first_mut().unwrap();
        tail.iter_mut().for_each(|element| *element += *head);
    }
}

fn deal_tail<'x>(x: &'x mut [f64], i: usize, deal: &mut Deal<'x, <&'static mut [f64] as Lend>::Family>) -> f64 {
    let (head, tail) = x[i..].split_first_mut().unwrap();
    deal.parts(split::even(tail, deal.width()));
    *head
}

fn by_round(member: &mut Member<'_, '_, [f64]>, n: usize) -> Result<(), Ended> {
    for i in 0..n {
        let (head, mine) = member.round::<f64, &mut [f64]>(|x, deal| deal_tail(x, i, deal))?;
        mine.iter_mut().for_each(|element| *element += head);
    }
    Ok(())
}

fn start() -> Vec<f64> {
    (0..N).map(|i| 1.0 / (i + 1) as f64).collect()
}

/// On a pool of this number of threads.
fn on_pool<R>(threads: usize, f: impl FnOnce() -> R) -> R {
    Pool::new(threads).install(f)
}

#[test]
fn rounds_equal_the_serial_loop_at_every_width() {
    let mut expected = start();
    algorithm(&mut expected);
    for width in 1..=4 {
        on_pool(width, || {
            let mut x = start();
            let results = team(&mut x[..]).width(Width::exactly(width)).run(|member| {
                assert_eq!(member.width(), width);
                by_round(member, N)
            });
            assert_eq!(results, vec![Ok(()); width]);
            assert_eq!(x, expected);

            let mut x = start();
            let results = team(&mut x[..]).width(Width::exactly(width)).run(|member| {
                member.rounds::<f64, &mut [f64]>(0..N, deal_tail, |_, head, mine| {
                    mine.iter_mut().for_each(|element| *element += head);
                })
            });
            assert_eq!(results, vec![Ok(()); width]);
            assert_eq!(x, expected);
        });
    }
}

/// Every round is run once, in order, whatever widths are chosen; also when rounds of several calls and kinds follow each other.
#[test]
fn structured_rounds_come_in_order_and_mix_with_others() {
    for width in [1, 2, 3] {
        on_pool(width, || {
            let mut log: Vec<usize> = Vec::new();
            let n = if cfg!(miri) { 20 } else { 20_000 };
            let parts = AtomicUsize::new(0);
            team(&mut log).width(Width::exactly(width)).run(|member| {
                for turn in 0..3 {
                    let mut seen = None;
                    member
                        .rounds::<usize, usize>(
                            turn..n,
                            |log, i, deal| {
                                log.push(i);
                                assert!((1..=width).contains(&deal.width()));
                                parts.fetch_add(deal.width(), Ordering::Relaxed);
                                (0..deal.width()).for_each(|at| deal.part(at));
                                i
                            },
                            |i, shared, _| {
                                assert_eq!(i, shared);
                                assert!(seen.replace(i) < Some(i));
                                parts.fetch_sub(1, Ordering::Relaxed);
                            },
                        )
                        .unwrap();
                    member.barrier().unwrap();
                    assert_eq!(parts.load(Ordering::Relaxed), 0);
                    let at = member.index();
                    assert_eq!(member.reduce(at, usize::max), Ok(width - 1));
                }
                // An empty range is no round at all.
                member.rounds::<(), ()>(5..5, |_, _, _| unreachable!(), |_, (), ()| unreachable!()).unwrap();
            });
            let expected: Vec<usize> = (0..3).flat_map(|turn| turn..n).collect();
            assert_eq!(log, expected);
        });
    }
}

/// `while`, `break`, several kinds of round, values brought to the leader: a search in which all stop together.
#[test]
fn control_flow_is_ordinary() {
    on_pool(3, || {
        let mut numbers: Vec<u64> = (0..1000).collect();
        let found = team(&mut numbers).run(|member| {
            let mut steps = 0;
            loop {
                let (_, mine) =
                    member.round::<(), &mut [u64]>(|x, deal| deal.parts(split::even(&mut x[..], deal.width())))?;
                mine.iter_mut().for_each(|x| *x += 7);
                let most = mine.iter().copied().max().unwrap_or(0);
                let (most, position) = member
                    .round_with::<(u64, usize), usize, _>(most, |x, given, deal| {
                        (0..deal.width()).for_each(|at| deal.part(at));
                        (given.max().unwrap(), x.len())
                    })?
                    .0;
                assert_eq!(position, 1000);
                steps += 1;
                if most > 2000 {
                    break Ok::<_, Ended>(steps);
                }
            }
        });
        assert!(found.iter().all(|steps| *steps == Ok(144)), "{found:?}");
        assert_eq!(numbers[999], 999 + 144 * 7);
    });
}

#[test]
fn collectives_know_all_members() {
    on_pool(4, || {
        let results = team(&mut ()).width(Width::exactly(4)).run(|member| {
            for turn in 0..if cfg!(miri) { 3 } else { 500 } {
                let at = member.index();
                let text = |at: usize| format!("{turn}.{at} ");
                assert_eq!(member.reduce(text(at), |a, b| a + &b)?, (0..4).map(text).collect::<String>());
                assert_eq!(member.scan(text(at), |a, b| a + &b)?, (0..=at).map(text).collect::<String>());
                assert_eq!(member.broadcast(turn % 4, text(at))?, text(turn % 4));
                member.barrier()?;
            }
            Ok::<_, Ended>(())
        });
        assert_eq!(results, vec![Ok(()); 4]);
    });
}

/// A type with a lifetime of one's own.
struct Column<'x> {
    of: &'x mut [f64],
    at: usize,
}
struct ColumnOf;
impl Family for ColumnOf {
    type Of<'x> = Column<'x>;
    fn shorten<'short, 'long: 'short>(of: Column<'long>) -> Column<'short> {
        of
    }
}
impl Lend for Column<'_> {
    type Family = ColumnOf;
}

/// Too large to lie in a letter, and aligned to more than it is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(256))]
struct Large([u64; 100]);
impl Lend for Large {
    type Family = Own<Large>;
}

#[test]
fn parts_of_every_kind_arrive() {
    on_pool(3, || {
        let mut x = vec![0.0; 12];
        team(&mut x[..]).width(Width::exactly(3)).run(|member| {
            let ((), column) = member
                .round::<(), Column<'_>>(|x, deal| {
                    let parts = split::even(x, deal.width()).enumerate();
                    deal.parts(parts.map(|(at, of)| Column { of, at }));
                })
                .unwrap();
            column.of.fill(column.at as f64);
            for turn in 0..5 {
                let (large, (text, other)) = member
                    .round::<Large, (Own<String>, Large)>(|_, deal| {
                        (0..deal.width()).for_each(|at| deal.part((format!("{at}"), Large([turn; 100]))));
                        Large([turn + 1; 100])
                    })
                    .unwrap();
                assert_eq!((large, other), (Large([turn + 1; 100]), Large([turn; 100])));
                assert_eq!((&raw const other).addr() % 256, 0);
                assert_eq!(text, member.index().to_string());
                let at = member.index();
                let (empty, some) = member
                    .round::<(), Option<&[f64]>>(|x, deal| {
                        let x = &*x;
                        (0..deal.width()).for_each(|at| deal.part((at % 2 == 0).then_some(x)));
                    })
                    .unwrap();
                assert_eq!(((), at % 2 == 0), (empty, some.is_some()));
            }
        });
        assert_eq!(x, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
    });
}

/// Bad ends of a team in its fourth round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Return,
    Panic,
    SplitPanics,
    TooFew,
    TooMany,
    OtherTypes,
    WorkPanics,
}

/// A value that counts itself.
struct Counted<'a>(&'a AtomicUsize);
impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whatever happens, no member waits for ever, the others get an error, parts are dropped once, and the pool stays usable.
#[test]
fn a_member_that_leaves_releases_the_others() {
    use Fault::*;
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    fn part() -> Counted<'static> {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Counted(&ALIVE)
    }
    for width in [1, 2, 4] {
        on_pool(width, || {
            for fault in [Return, Panic, SplitPanics, TooFew, TooMany, OtherTypes, WorkPanics] {
                for faulty in 0..width {
                    let rounds = AtomicUsize::new(0);
                    let outcome = catch_unwind(AssertUnwindSafe(|| {
                        team(&mut ()).width(Width::exactly(width)).run(|member| {
                            let at = member.index();
                            for turn in 0..10 {
                                let bad = turn == 3;
                                let me = bad && at == faulty;
                                if me && fault == Return {
                                    return Ok(());
                                }
                                assert!(!(me && fault == Panic), "a member");
                                if fault == WorkPanics {
                                    member.rounds::<(), Own<Counted<'static>>>(
                                        0..5,
                                        |_, _, deal| deal.parts((0..deal.width()).map(|_| part())),
                                        |i, (), _| assert!(!(bad && i == 2), "work"),
                                    )?;
                                    continue;
                                }
                                if me && fault == OtherTypes {
                                    member.round::<(), Own<String>>(|_, deal| {
                                        deal.parts((0..deal.width()).map(|at| at.to_string()));
                                    })?;
                                    continue;
                                }
                                let (_, _part) = member.round::<(), Own<Counted<'static>>>(|(), deal| {
                                    rounds.fetch_add(1, Ordering::Relaxed);
                                    let parts = match fault {
                                        TooFew if bad => deal.width() - 1,
                                        TooMany if bad => deal.width() + 1,
                                        _ => deal.width(),
                                    };
                                    deal.parts((0..parts).map(|at| {
                                        assert!(!(bad && fault == SplitPanics && at + 1 == parts), "a split");
                                        part()
                                    }));
                                })?;
                            }
                            Ok(())
                        })
                    }));
                    let context = format!("{fault:?} by {faulty} of {width}");
                    match (fault, outcome) {
                        (Return, Ok(results)) => {
                            assert_eq!(results.iter().filter(|result| result.is_err()).count(), width - 1, "{context}");
                            assert!(results.iter().all(|result| matches!(result, Ok(()) | Err(Ended::Left))));
                        }
                        // Alone, no member is at another round.
                        (OtherTypes, Ok(results)) => assert!(width == 1 && results == [Ok(())], "{context}"),
                        (_, Ok(_)) => panic!("{context}: no panic"),
                        (_, Err(payload)) => {
                            let text = payload.downcast_ref::<String>().cloned();
                            let text = text.unwrap_or_else(|| payload.downcast_ref::<&str>().unwrap().to_string());
                            let expected = match fault {
                                Panic => "a member",
                                SplitPanics => "a split",
                                TooFew => "parts for",
                                TooMany => "more than",
                                OtherTypes => "rounds of different types",
                                WorkPanics => "work",
                                Return => unreachable!(),
                            };
                            assert!(text.contains(expected), "{context}: {text}");
                        }
                    }
                    assert_eq!(ALIVE.load(Ordering::Relaxed), 0, "{context}");
                    let width_after = team(&mut ()).width(Width::exactly(width)).try_run(|_| ());
                    assert!(width_after.is_ok(), "{context}: the threads are free again");
                }
            }
        });
    }
}

/// Different ranges are an error in all members, wherever they differ and whichever member leads.
#[test]
fn members_with_different_ranges_get_an_error() {
    for other in [0..20, 0..5, 3..10, 3..20, 0..0] {
        for at in 0..2 {
            on_pool(2, || {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    team(&mut ()).width(Width::exactly(2)).run(|member| {
                        let range = if member.index() == at { other.clone() } else { 0..10 };
                        member.rounds::<(), ()>(range, |_, _, deal| deal.none(), |_, (), ()| ())
                    })
                }));
                let payload = outcome.expect_err("different ranges are not noticed");
                let text = payload.downcast_ref::<String>().expect("a text");
                assert!(text.contains("different ranges"), "{other:?} in {at}: {text}");
            });
        }
    }
}

/// A worker that comes late is no shortage: a team of exact width waits for it.
#[test]
#[cfg_attr(miri, ignore = "by the clock")]
fn a_team_of_exact_width_waits_for_a_late_worker() {
    let late = Pool::builder().threads(3).start_handler(|_| std::thread::sleep(Duration::from_millis(150)));
    late.build().unwrap().install(|| {
        let began = Instant::now();
        let all = team(&mut ()).width(Width::exactly(3)).run(|member| member.barrier());
        assert_eq!(all, [Ok(()); 3]);
        assert!(began.elapsed() > Duration::from_millis(100), "the workers were late");
    });
}

/// Callers with teams of exact width on one pool: each gets its team, or an error at once: others have the workers. A panic of one
/// does not harm the others.
#[test]
fn exact_teams_beside_each_other_are_formed_or_refused() {
    let pool = Pool::new(3);
    let calls = if cfg!(miri) { 2 } else { 30 };
    let formed = std::thread::scope(|scope| {
        let caller = |at: usize| {
            let pool = &pool;
            scope.spawn(move || {
                let call = |_| loop {
                    let panics = at == 3;
                    let outcome = catch_unwind(AssertUnwindSafe(|| {
                        pool.install(|| {
                            team(&mut ()).width(Width::exactly(2)).try_run(|member| {
                                member.barrier()?;
                                assert!(!panics || member.index() == 0, "on purpose");
                                Ok::<_, Ended>(())
                            })
                        })
                    }));
                    match outcome {
                        Ok(Ok(members)) => {
                            assert_eq!((members.len(), panics), (2, false));
                            return true;
                        }
                        Ok(Err(refused)) => {
                            assert_eq!(refused.kind(), TeamErrorKind::Busy, "{refused}");
                            assert!(refused.to_string().contains("threads could join"), "{refused}");
                            std::thread::yield_now();
                        }
                        Err(_) => {
                            assert!(panics);
                            return true;
                        }
                    }
                };
                (0..calls).filter(|call_number| call(*call_number)).count()
            })
        };
        let callers: Vec<_> = (0..4).map(caller).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum::<usize>()
    });
    assert_eq!(formed, 4 * calls);
}

/// A team inside a team takes the free workers, of which there are none; teams beside each other share the workers.
#[test]
fn nested_and_concurrent_teams_are_moldable() {
    let mut expected = start();
    algorithm(&mut expected);
    on_pool(3, || {
        let inner = team(&mut ()).width(Width::exactly(3)).run(|member| {
            // All workers are members here.
            member.barrier().unwrap();
            let mut x = start();
            let results = team(&mut x[..]).run(|member| by_round(member, N));
            let refused = team(&mut x[..]).width(Width::exactly(2)).try_run(|_| ());
            member.barrier().unwrap();
            assert_eq!(x, expected);
            let refused = refused.unwrap_err();
            assert_eq!((refused.wanted, refused.threads, refused.kind()), (2, 3, TeamErrorKind::Busy));
            assert!(refused.to_string().contains("exactly 2 members was refused"), "{refused}");
            results.len()
        });
        assert_eq!(inner, [1, 1, 1]);
    });
    let pool = Pool::new(3);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                pool.install(|| {
                    for _ in 0..if cfg!(miri) { 2 } else { 20 } {
                        let mut x = start();
                        let results = team(&mut x[..]).run(|member| by_round(member, N));
                        assert!(results.iter().all(Result::is_ok) && (1..=3).contains(&results.len()));
                        assert_eq!(x, expected);
                    }
                });
            });
        }
    });
}

#[test]
fn a_team_wider_than_its_pool_is_refused_or_narrowed() {
    on_pool(2, || {
        let widths = team(&mut ()).width(100).run(|member| member.width());
        assert!(widths == [1] || widths == [2, 2], "{widths:?}");
        assert_eq!(team(&mut ()).width(0).run(|member| member.width()), [1]);
        let refused = team(&mut ()).width(Width::exactly(3)).try_run(|_| unreachable!()).map(|_: Vec<()>| ());
        assert!(refused.unwrap_err().to_string().contains("the pool has too few threads (2)"));
    });
}

/// Parallel calls inside a member run as anywhere.
#[test]
fn members_may_call_parallel_iterators() {
    use windrow::prelude::*;
    on_pool(3, || {
        let sums = team(&mut ()).run(|member| {
            member.barrier().unwrap();
            (0..10_000u64).into_par_iter().map(|x| x * x).sum::<u64>()
        });
        assert!(sums.iter().all(|sum| *sum == (0..10_000u64).map(|x| x * x).sum::<u64>()));
    });
}

/// The largest change of a sweep ends the loop, as in the plain form: on every pool, by rounds of any width.
#[test]
fn rounds_end_when_they_have_converged() {
    fn sweep(now: &[f64], out: &mut [f64], from: usize) -> f64 {
        let mean = |at: usize| (now[at - 1] + now[at + 1]) / 2.0;
        out.iter_mut().enumerate().fold(0.0, |largest, (at, out)| {
            *out = mean(from + at);
            f64::max(largest, (*out - now[from + at]).abs())
        })
    }
    for n in [3, 5, 40, N] {
        let start = || (vec![0.0; n - 1].into_iter().chain([1.0]).collect::<Vec<f64>>(), vec![0.0; n]);
        let (mut now, mut next) = start();
        let mut serial = 0;
        loop {
            let moved = sweep(&now, &mut next[1..n - 1], 1);
            next[n - 1] = 1.0;
            std::mem::swap(&mut now, &mut next);
            serial += 1;
            if moved < 1e-4 {
                break;
            }
        }
        for threads in 1..=4 {
            let (mut data, sweeps) = ((start(), 0), AtomicUsize::new(0));
            let results = on_pool(threads, || {
                windrow::team(&mut data).run(|member| {
                    member.rounds_while::<&[f64], (Own<std::ops::Range<usize>>, &mut [f64]), f64>(
                        |((now, next), sweeps), round, moved| {
                            if round == 0 {
                                assert_eq!(moved.count(), 0);
                                return true;
                            }
                            next[n - 1] = 1.0;
                            std::mem::swap(now, next);
                            *sweeps += 1;
                            moved.reduce(f64::max).expect("each round has members") >= 1e-4
                        },
                        |((now, next), _), _, deal| {
                            deal.parts(split::even((1..n - 1, &mut next[1..n - 1]), deal.width()));
                            &now[..]
                        },
                        |_, now, (range, out)| {
                            sweeps.fetch_add(1, Ordering::Relaxed);
                            sweep(now, out, range.start)
                        },
                    )
                })
            });
            assert!(results.iter().all(|result| result == &Ok(())), "{results:?}");
            assert_eq!((data.1, &data.0.0), (serial, &now), "{n}");
            assert!(sweeps.into_inner() >= serial);
        }
    }
}

#[test]
fn panics_of_rounds_without_a_range_reach_the_caller() {
    for (at, round) in [(0, 0), (0, 3), (1, 0), (1, 3), (2, 0), (2, 3)] {
        for threads in 1..=4 {
            let panics = |here: usize, now: usize| assert!((here, now) != (at, round), "at {here} of round {now}");
            let text = windrow_testkit::message_of(|| {
                on_pool(threads, || {
                    windrow::team(&mut ()).run(|member| {
                        let _ = member.rounds_while::<(), (), u32>(
                            |(), round, _| {
                                panics(0, round);
                                round < 10
                            },
                            |(), round, deal| {
                                panics(1, round);
                                deal.none();
                            },
                            |round, (), ()| {
                                panics(2, round);
                                7
                            },
                        );
                    })
                })
            });
            assert_eq!(text, format!("at {at} of round {round}"));
        }
    }
}
