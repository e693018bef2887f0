//! Models of rounds on threads. What leaders lend and what members do with it is in cells that loom watches. So a missing order
//! is a race that loom reports; a member that no thread wakes is a deadlock.
//!
//! Under loom a group has two slots, so three members are two groups.

use windrow_sync::Spin;
use windrow_sync::rounds::{Ended, MemberSlot, Rounds, Turn};

use crate::{Watched, model};

/// A shared value, a part for each member, and a value that goes from leader to leader.
#[derive(Debug)]
struct Data {
    shared: Watched,
    parts: [Watched; 3],
    next: usize,
}

type TestSlot = MemberSlot<'static, Data>;

/// Runs `member` on a thread for each slot, on this one for the first; its results.
fn run<R: Send + 'static>(width: usize, member: impl Fn(TestSlot) -> R + Copy + Send + 'static) -> Vec<R> {
    run_formed(width, width, member).0
}

/// The same for a team that forms while up to `most` threads try to join; also returns the data.
fn run_formed<R: Send + 'static>(
    joined: usize,
    most: usize,
    member: impl Fn(TestSlot) -> R + Copy + Send + 'static,
) -> (Vec<R>, Data) {
    let data = Data { shared: Watched::new(0), parts: std::array::from_fn(|_| Watched::new(0)), next: 0 };
    // (Loom's threads want `'static`.)
    let data = Box::into_raw(Box::new(data));
    // SAFETY: just made, and used by the rounds alone until they are gone.
    let rounds = Box::into_raw(Box::new(Rounds::new(unsafe { &mut *data }, most)));
    // SAFETY: just made, and dropped when all threads have ended.
    let team: &'static Rounds<'static, Data> = unsafe { &*rounds };
    let slots: Vec<_> = (0..joined).map(|_| team.join().unwrap()).collect();
    let late = (joined..most).map(|_| loom::thread::spawn(move || team.join().map(member))).collect::<Vec<_>>();
    team.form();
    let mut slots = slots.into_iter();
    let mine = slots.next().unwrap();
    let others: Vec<_> = slots.map(|slot| loom::thread::spawn(move || member(slot))).collect();
    let mut results = vec![member(mine)];
    results.extend(others.into_iter().map(|thread| thread.join().unwrap()));
    results.extend(late.into_iter().filter_map(|thread| thread.join().unwrap()));
    // SAFETY: no thread uses it any more.
    drop(unsafe { Box::from_raw(rounds) });
    // SAFETY: the rounds are gone.
    (results, *unsafe { Box::from_raw(data) })
}

/// One round: every member adds what is shared to its part, and the leader finds all that was done in the round before.
fn add(slot: &mut TestSlot, round: usize) -> Result<(), Ended> {
    let (shared, part) = match slot.arrive(Spin::NONE)? {
        Turn::Lead(lead) => {
            let width = lead.width();
            lead.round::<&Watched, &mut Watched>(|data, deal| {
                let before: usize = (1..round).sum();
                data.parts[..width].iter().for_each(|part| assert_eq!(part.get(), before));
                data.shared.set(round);
                deal.parts(data.parts.iter_mut().take(width));
                &data.shared
            })
        }
        Turn::Follow(follow) => follow.open::<&Watched, &mut Watched>(),
    };
    assert_eq!(shared.get(), round);
    part.set(part.get() + shared.get());
    Ok(())
}

fn rounds(mut slot: TestSlot, rounds: usize) -> Result<(), Ended> {
    (1..=rounds).try_for_each(|round| add(&mut slot, round))
}

#[test]
fn two_members_hand_data_over() {
    model(3, || assert_eq!(run(2, |slot| rounds(slot, 2)), [Ok(()); 2], "each round counts for all, the last also"));
}

/// In two groups: the first passes on what both its members did.
#[test]
fn three_members_hand_data_over() {
    model(2, || assert_eq!(run(3, |slot| rounds(slot, 2)), [Ok(()); 3]));
}

/// Members leave after their round, while others have not got theirs: it counts for them, too.
#[test]
fn the_last_round_counts_for_all() {
    model(2, || assert_eq!(run(3, |slot| rounds(slot, 1)), [Ok(()); 3]));
}

/// A contribution belongs to the leader in the round, and to its owner after it.
#[test]
fn what_is_brought_goes_to_the_leader() {
    model(3, || {
        run(2, |mut slot| {
            for round in 1..=2 {
                slot.contribute(Watched::new(round));
                match slot.arrive(Spin::NONE).unwrap() {
                    Turn::Lead(lead) => lead.round_with::<(), (), Watched>(|_, given, deal| {
                        given.for_each(|contribution| contribution.set(contribution.get() + 1));
                        deal.none();
                    }),
                    Turn::Follow(follow) => follow.open_with::<(), (), Watched>(),
                };
            }
        });
    });
}

/// The rounds that a leader chooses: the number of members of each, or 0 when all are over. As in `rounds` of a team.
fn narrow(mut slot: TestSlot, members: &'static [usize]) -> Result<usize, Ended> {
    const OVER: u64 = u64::MAX;
    let mut took_part = 0;
    loop {
        let part = match slot.arrive(Spin::NONE)? {
            Turn::Lead(mut lead) => {
                let round = lead.data().next;
                let Some(&members) = members.get(round) else {
                    let width = lead.width();
                    lead.round_of::<(), ()>(width, OVER, |_, deal| deal.none());
                    return Ok(took_part);
                };
                lead.data().next += 1;
                lead.round_of::<(), &mut Watched>(members, round as u64, |data, deal| {
                    let sum: usize = data.parts.iter().map(Watched::get).sum();
                    assert_eq!(sum, MEMBERS_BEFORE[data.next - 1]);
                    deal.parts(data.parts.iter_mut().take(members));
                })
            }
            Turn::Follow(follow) if follow.note() == OVER => return Ok(took_part),
            Turn::Follow(follow) => follow.open::<(), &mut Watched>(),
        };
        part.1.set(part.1.get() + 1);
        took_part += 1;
    }
}

/// Parts that were dealt before round `i` of two members, then three, then one.
const MEMBERS_BEFORE: [usize; 4] = [0, 2, 5, 6];

/// A narrow round, then a wide one, then one for the leader alone: a member that takes no part stays where it is and is led
/// again.
#[test]
fn narrow_rounds_and_wide_ones_follow_each_other() {
    model(2, || {
        let results = run(3, |slot| narrow(slot, &[2, 3, 1]));
        assert_eq!(results.into_iter().map(Result::unwrap).sum::<usize>(), 6);
    });
}

/// The same for two members.
#[test]
fn a_leader_alone_leads_on() {
    model(3, || {
        run(2, |mut slot| {
            for round in 0..2 {
                match slot.arrive(Spin::NONE).unwrap() {
                    Turn::Lead(mut lead) => {
                        let ((), part) = lead.alone::<(), &mut Watched>(|data, deal| deal.part(&mut data.parts[0]));
                        part.set(part.get() + 1);
                        assert_eq!(part.get(), round + 1);
                        lead.round_of::<(), ()>(2, round as u64, |_, deal| deal.none());
                    }
                    Turn::Follow(follow) => assert_eq!(follow.note(), round as u64),
                }
            }
        });
    });
}

/// A thread that joins in time is in the team, and all agree on its width; a thread that does not stays out.
#[test]
fn the_team_forms_while_threads_sit_down() {
    model(3, || {
        let (results, data) = run_formed(1, 2, |mut slot| {
            let width = slot.width(Spin::NONE);
            add(&mut slot, 1).unwrap();
            width
        });
        let width = results.len();
        assert!(results.into_iter().all(|of| of == width));
        assert_eq!(data.parts.iter().map(Watched::get).sum::<usize>(), width);
    });
}

/// A member that has joined parks until the team has formed.
#[test]
fn forming_wakes_a_waiting_member() {
    model(3, || {
        let data = Box::into_raw(Box::new(0));
        // SAFETY: just made, and used by the rounds alone until they are gone.
        let rounds = Box::into_raw(Box::new(Rounds::new(unsafe { &mut *data }, 3)));
        // SAFETY: just made, and dropped when all threads have ended.
        let team: &'static Rounds<'static, i32> = unsafe { &*rounds };
        let mut slots: Vec<_> = (0..2).map(|_| team.join().unwrap()).collect();
        let mut other = slots.pop().unwrap();
        let waits = loom::thread::spawn(move || other.width(Spin::NONE));
        let late = team.join();
        assert_eq!(team.form(), 3);
        assert_eq!(waits.join().unwrap(), 3);
        drop((slots, late));
        // SAFETY: no thread uses it any more.
        drop(unsafe { Box::from_raw(rounds) });
        // SAFETY: the rounds are gone.
        drop(unsafe { Box::from_raw(data) });
    });
}

/// A member leaves before its second round, wherever the others are: they are released, and the first round counts for them.
#[test]
fn a_member_that_leaves_releases_the_others() {
    model(2, || {
        let results = run(3, |mut slot| {
            let at = slot.index();
            add(&mut slot, 1).unwrap();
            if at == 1 { Err(Ended::Left) } else { add(&mut slot, 2) }
        });
        assert_eq!(results, [Err(Ended::Left); 3]);
    });
}

/// A leader that gives up releases the others. (So does one that panics; but loom's locks cannot be used while a thread unwinds.)
#[test]
fn a_leader_that_gives_up_releases_the_others() {
    model(3, || {
        let results = run(3, |mut slot| {
            match slot.arrive(Spin::NONE) {
                Ok(Turn::Lead(mut lead)) => lead.data().shared.set(1),
                Ok(Turn::Follow(_)) => unreachable!("no round took place"),
                Err(why) => return why,
            }
            slot.arrive(Spin::NONE).unwrap_err()
        });
        assert_eq!(results, [Ended::Left; 3]);
    });
}
