//! Teams of threads and of tasks.

use std::future::Future;
use std::mem::forget;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use windrow_sync::Spin;
use windrow_sync::rounds::{
    Contributions, Deal, Ended, Family, Follow, LeaderGuard, Lend, LendCopy, Lent, MAX_MEMBERS, MemberSlot, Mut, Own,
    Ref, Rounds, Sent, TaskRounds, TaskSlot, Turn, Waited,
};

use super::{boom, panics};

/// A part that writes to the data when it is dropped, and panics if the data says so.
struct Looks<'x>(&'x mut String);
struct LooksOf;
impl Family for LooksOf {
    type Of<'x> = Looks<'x>;
    fn shorten<'short, 'long: 'short>(of: Looks<'long>) -> Looks<'short> {
        if of.0 == "refused" { boom() } else { of }
    }
}
impl Lend for Looks<'_> {
    type Family = LooksOf;
}
impl Drop for Looks<'_> {
    fn drop(&mut self) {
        self.0.push('.');
        if self.0.starts_with("bomb") && !std::thread::panicking() {
            boom();
        }
    }
}

const WIDTH: usize = 3;
type Data = Vec<String>;

fn data(text: &str) -> Data {
    vec![text.to_owned(); WIDTH]
}

fn deal<'x>(data: &'x mut Data, deal: &mut Deal<'x, LooksOf>) -> u64 {
    let parts = deal.width();
    deal.parts(data.iter_mut().take(parts).map(Looks));
    7
}

fn deal_all<'x>(data: &'x mut Data, deal: &mut Deal<'x, LooksOf>) {
    deal.parts(data.iter_mut().map(Looks));
}

/// Behaviour of a leader with its lead. (`at`: which of the ways.)
const LEADS: usize = 18;
fn lead(at: usize, mut lead: LeaderGuard<'_, Data>) {
    match at {
        0 => drop(lead.round::<u64, Looks<'_>>(deal)),
        1 => forget(lead),
        2 => drop(lead),
        3 => {
            lead.data()[0].push('!');
            boom()
        }
        // Parts are dealt, and then it panics.
        4 => drop(lead.round::<(), Looks<'_>>(|data, deal| {
            deal.part(Looks(&mut data[0]));
            boom()
        })),
        // Too few, and too many.
        5 => drop(lead.round::<(), Looks<'_>>(|data, deal| deal.part(Looks(&mut data[1])))),
        6 => drop(lead.round_of::<(), Looks<'_>>(2, 9, deal_all)),
        7 => drop(lead.round_of::<(), ()>(0, 9, |_, deal| deal.none())),
        8 => drop(lead.round_of::<u64, Looks<'_>>(2, 9, deal)),
        9 => {
            let sent = lead.send::<u64, Looks<'_>>(WIDTH, 1, deal);
            let _ = sent.woke();
            drop(Sent::open(sent));
        }
        10 => drop(lead.send::<u64, Looks<'_>>(WIDTH, 1, deal)),
        11 => forget(lead.send::<u64, Looks<'_>>(2, 1, deal)),
        // Other types than the members expect.
        12 => drop(lead.round::<&Data, (Own<String>, Option<bool>)>(|data, deal| {
            deal.parts((0..WIDTH).map(|at| (at.to_string(), None)));
            data
        })),
        13 => {
            assert_eq!(lead.width(), WIDTH);
            assert!(panics(|| drop(lead.alone::<(), Looks<'_>>(|data, deal| {
                deal.part(Looks(&mut data[0]));
                boom()
            }))));
            assert!(panics(|| drop(lead.alone::<(), Looks<'_>>(|_, _| ()))));
            forget(lead.alone::<(), Looks<'_>>(|data, deal| deal.part(Looks(&mut data[0]))));
            drop(lead.round::<u64, Looks<'_>>(deal));
        }
        14 => drop(lead.round_with::<u64, Looks<'_>, String>(|data, all: Contributions<'_, String>, deal| {
            assert_eq!(all.size_hint(), (all.len(), Some(all.len())));
            all.for_each(|text| data[0].push_str(&text));
            deal.parts(data.iter_mut().map(Looks));
            1
        })),
        // Some that are left are taken, and of another type, and those of the leader.
        15 => {
            lead.contribute(String::from("mine"));
            assert!(panics(|| lead.with_contributions::<String, ()>(|data, all| {
                data[0].extend(all.next());
                boom()
            })));
            lead.contribute(7_u64);
            let texts =
                lead.with_contributions::<String, _>(|data, all| all.map(|text| data[0].push_str(&text)).count());
            assert!(texts < WIDTH);
            drop(lead.round::<u64, Looks<'_>>(deal));
        }
        // Only some of the contributions are taken, and of another type.
        16 => drop(lead.round_with::<u64, Looks<'_>, String>(|data, mut all, given| {
            drop(all.next());
            deal(data, given)
        })),
        _ => drop(lead.round_with::<u64, Looks<'_>, u64>(|data, mut all, given| {
            let _ = all.next();
            deal(data, given)
        })),
    }
}

/// Behaviour of a member with its message.
const FOLLOWS: usize = 6;
fn follow(at: usize, follow: Follow<'_>) {
    let _ = follow.note();
    match at {
        0 => drop(follow.open::<u64, Looks<'_>>()),
        1 => drop(follow),
        2 => forget(follow),
        3 => forget(follow.open::<u64, Looks<'_>>()),
        4 => drop(follow.open_with::<u64, Looks<'_>, String>()),
        _ => {
            let _part = follow.open::<u64, Looks<'_>>();
            boom()
        }
    }
}

fn turn(leads: usize, follows: usize, turn: Turn<'_, Data>) {
    match turn {
        Turn::Lead(it) => lead(leads, it),
        Turn::Follow(it) => follow(follows, it),
    }
}

fn stay_whole(data: &Data) {
    assert!(data.len() == WIDTH && data.iter().all(|text| text.starts_with(|first| "tbr".contains(first))));
}

#[test]
fn teams_of_threads() {
    for text in ["text", "bomb", "refused"] {
        for leads in 0..LEADS {
            for follows in 0..FOLLOWS {
                let mut data = data(text);
                // Parts that no member has taken are dropped with the team, and may panic.
                panics(|| {
                    let team = Rounds::new(&mut data, WIDTH);
                    let slots: Vec<_> = std::iter::from_fn(|| team.join()).collect();
                    assert_eq!((slots.len(), team.joined(), team.form()), (WIDTH, WIDTH, WIDTH));
                    assert!(team.join().is_none());
                    std::thread::scope(|scope| {
                        for mut slot in slots {
                            scope.spawn(move || {
                                panics(|| {
                                    for round in 0..4 {
                                        assert!(slot.index() < slot.width(Spin::NONE));
                                        let _ = slot.should_move();
                                        slot.contribute(round.to_string());
                                        slot.contribute(slot.index().to_string());
                                        // In the second round, whatever it is.
                                        let (leads, follows) = if round == 1 { (leads, follows) } else { (0, 0) };
                                        match slot.arrive(Spin { busy: 0, yielding: 10_000 }) {
                                            Ok(next) => _ = panics(|| turn(leads, follows, next)),
                                            Err(Ended::Left | Ended::Panicked | Ended::Forked) => return,
                                        }
                                    }
                                })
                            });
                        }
                    });
                });
                stay_whole(&data);
            }
        }
        if cfg!(miri) {
            break;
        }
    }
}

#[test]
fn teams_of_one() {
    for leads in 0..LEADS {
        let mut data = data("text");
        {
            let mut team = Rounds::single(&mut data);
            for _ in 0..2 {
                let mut slot: MemberSlot<'_, Data> = team.slot();
                slot.contribute(String::from("left"));
                // Its width is 1, so most of these panic.
                panics(|| {
                    if let Ok(next) = slot.arrive(Spin::NONE) {
                        turn(leads, 0, next);
                    }
                });
                assert!(slot.arrive(Spin::NONE).is_err() || slot.width(Spin::NONE) == 1);
                forget(slot);
            }
        }
        stay_whole(&data);
    }
    assert!(panics(|| drop(Rounds::new(&mut (), MAX_MEMBERS + 1))) && panics(|| drop(Rounds::new(&mut (), 0))));
    assert!(panics(|| drop(Rounds::new(&mut (), 2).slot())));
}

/// Values of any size and alignment are lent, and copies of them are used after the data has moved on.
#[test]
fn values_of_families() {
    #[repr(align(256))]
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Wide([u8; 300]);
    fn round<S: LendCopy, P: Lend>(
        split: impl for<'x> FnOnce(&'x mut Vec<u64>, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
        check: impl FnOnce(Lent<'_, S>, Lent<'_, P>),
    ) {
        let mut data = vec![1, 2];
        let mut team = Rounds::single(&mut data);
        let mut slot = team.slot();
        let Ok(Turn::Lead(lead)) = slot.arrive(Spin::NONE) else { unreachable!("a single member leads") };
        let (shared, part) = lead.round::<S, P>(split);
        check(shared, part);
    }
    let wide = Wide([3; 300]);
    round::<Own<Wide>, Own<Box<Wide>>>(
        |_, deal| {
            deal.part(Box::new(wide));
            wide
        },
        |shared, part| assert_eq!((shared, *part), (wide, wide)),
    );
    round::<Own<[u8; 0]>, (&mut u64, Option<&u64>)>(
        |data, deal| {
            let (first, rest) = data.split_at_mut(1);
            deal.part((&mut first[0], rest.first()));
            []
        },
        |_, (first, second)| {
            *first = 7;
            assert_eq!(second, Some(&2));
        },
    );
    let text = String::from("of any lifetime");
    assert_eq!(<Ref<str> as Family>::shorten(&text), <Own<&str> as Family>::shorten("of any lifetime"));
    let mut number = 1;
    *<Mut<i32> as Family>::shorten(&mut number) += 1;
    assert_eq!(number, 2);
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    Future::poll(future, &mut Context::from_waker(waker))
}

struct Panics;
impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        boom()
    }
}

#[test]
fn teams_of_tasks() {
    let hostile = Waker::from(Arc::new(Panics));
    for text in ["text", "bomb", "refused"] {
        for leads in 0..LEADS {
            for follows in 0..FOLLOWS {
                let (team, mut slots): (TaskRounds<Data>, Vec<TaskSlot<Data>>) = TaskRounds::new(data(text), WIDTH);
                let mut finish: Pin<Box<dyn Future<Output = Data>>> = Box::pin(team.finish());
                for round in 0..3 {
                    let waker = if round == 1 { &hostile } else { Waker::noop() };
                    assert!(poll(finish.as_mut(), waker).is_pending());
                    let (leads, follows) = if round == 1 { (leads, follows) } else { (0, 0) };
                    slots.iter_mut().for_each(|slot| {
                        slot.contribute(slot.width().to_string());
                        slot.contribute(slot.index().to_string());
                    });
                    let mut waits: Vec<_> = slots.iter_mut().map(|slot| Box::pin(slot.arrive(Spin::NONE))).collect();
                    // All are polled, then all that wait once more; those that are left are forgotten or dropped.
                    for _ in 0..2 {
                        let mut still = Vec::new();
                        for mut wait in waits {
                            let mut news = Poll::Pending;
                            panics(|| {
                                news = poll(wait.as_mut(), waker).map(|news| {
                                    news.map(|(next, waited)| {
                                        assert!(matches!(waited, Waited::Looking | Waited::Woken));
                                        panics(|| turn(leads, follows, next));
                                    })
                                })
                            });
                            if news.is_pending() {
                                still.push(wait);
                            }
                        }
                        waits = still;
                    }
                    if leads % 2 == 0 {
                        waits.into_iter().for_each(|wait| _ = panics(|| drop(wait)));
                    } else {
                        waits.into_iter().for_each(forget);
                    }
                }
                slots.into_iter().for_each(|slot| _ = panics(|| drop(slot)));
                let mut came = None;
                while came.is_none() && !panics(|| came = Some(poll(finish.as_mut(), Waker::noop()))) {}
                if let Some(Poll::Ready(data)) = came {
                    stay_whole(&data);
                    assert!(panics(|| drop(poll(finish.as_mut(), Waker::noop()))), "it was ready before");
                }
            }
        }
        if cfg!(miri) {
            break;
        }
    }
}

/// A contribution may own a slot of the team, whose drop ends the team.
#[test]
fn contributions_that_own_slots() {
    let (team, mut slots) = TaskRounds::new(String::from("text"), 3);
    let (third, mut second, mut first) = (slots.pop().unwrap(), slots.pop().unwrap(), slots.pop().unwrap());
    first.contribute(third);
    {
        let mut waits = pin!(second.arrive(Spin::NONE));
        assert!(poll(waits.as_mut(), Waker::noop()).is_pending());
        first.contribute(1);
        assert!(matches!(poll(waits.as_mut(), Waker::noop()), Poll::Ready(Err(Ended::Left))));
    }
    assert!(!panics(|| first.contribute(Bomb)) && panics(|| first.contribute(2)));
    drop((first, second));
    assert_eq!(poll(pin!(team.finish()), Waker::noop()), Poll::Ready("text".to_owned()));
}

struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            boom()
        }
    }
}
