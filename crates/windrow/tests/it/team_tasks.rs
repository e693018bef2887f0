//! Teams of tasks by hand, without an executor: what must hold at one certain moment.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use windrow::team::{AsyncTeam, Ended, Family, Lend};

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A future that is dropped after one look.
fn once<F: Future>(future: F) -> Poll<F::Output> {
    poll(pin!(future))
}

/// A task that has woken another lets it run first.
fn twice<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = pin!(future);
    assert!(poll(future.as_mut()).is_pending());
    poll(future)
}

/// Data that counts what happens to it.
struct Data {
    text: String,
    gone: Arc<AtomicUsize>,
    parts: Arc<AtomicUsize>,
}
impl Drop for Data {
    fn drop(&mut self) {
        self.gone.fetch_add(1, Relaxed);
    }
}

/// A part that looks at the data when it is dropped.
struct Look<'x>(&'x Data);
struct LookOf;
impl Family for LookOf {
    type Of<'x> = Look<'x>;

    fn shorten<'short, 'long: 'short>(of: Look<'long>) -> Look<'short> {
        of
    }
}
impl Lend for Look<'_> {
    type Family = LookOf;
}
impl Drop for Look<'_> {
    fn drop(&mut self) {
        assert_eq!((self.0.gone.load(Relaxed), &self.0.text[..]), (0, "the data"), "a part outlives the data");
        self.0.parts.fetch_add(1, Relaxed);
    }
}

/// Takes the data and drops it as soon as it can be had.
struct TakeIt(Mutex<Pin<Box<dyn Future<Output = Data> + Send>>>);
impl Wake for TakeIt {
    fn wake(self: Arc<Self>) {
        assert!(poll(self.0.lock().unwrap().as_mut()).is_ready());
    }
}

/// A member that leaves while it waits may have been dealt a part. It is not taken, and it is gone before the data is.
#[test]
fn a_part_that_was_not_taken_is_dropped_before_the_data_comes_back() {
    let (gone, parts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let data = Data { text: "the data".to_string(), gone: gone.clone(), parts: parts.clone() };
    let (team, mut members) = AsyncTeam::new(data, 2);
    let (mut stays, mut leaves) = (members.remove(0), members.remove(0));

    let take_it = Arc::new(TakeIt(Mutex::new(Box::pin(team.finish()))));
    let waker = Waker::from(take_it.clone());
    assert!(take_it.0.lock().unwrap().as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);

    {
        let mut waits = pin!(leaves.round::<(), Look<'_>>(|_, _| unreachable!("it is not the last to arrive")));
        assert!(poll(waits.as_mut()).is_pending());
        let round = stays.round::<(), Look<'_>>(|data, deal| {
            let data = &*data;
            deal.parts([Look(data), Look(data)]);
        });
        let Poll::Ready(Ok(((), mine))) = twice(round) else { panic!("it is the last to arrive") };
        assert_eq!(mine.0.text, "the data");
    }
    assert_eq!(parts.load(Relaxed), 1);
    drop(leaves);
    assert!(matches!(once(stays.barrier()), Poll::Ready(Err(Ended::Left))));
    assert_eq!(gone.load(Relaxed), 0);
    drop(stays);
    assert_eq!((parts.load(Relaxed), gone.load(Relaxed)), (2, 1));
}

/// A future that is forgotten while it waits gives nothing away: its round may take place once, and its member comes to no other.
#[test]
fn a_member_that_forgets_a_future_has_left() {
    let (team, mut members) = AsyncTeam::new(vec![0; 4], 2);
    let mut finish = pin!(team.finish());
    let mut member = members.pop().unwrap();
    let mut forgotten = Box::pin(member.barrier());
    assert!(poll(forgotten.as_mut()).is_pending());
    // The member is free again, but its place at the barrier is taken.
    std::mem::forget(forgotten);
    assert!(matches!(once(member.barrier()), Poll::Ready(Err(Ended::Left))));
    let mut other = members.pop().unwrap();
    let round = other.round::<usize, &mut [i32]>(|data, deal| {
        let (a, b) = data.split_at_mut(2);
        deal.parts([a, b]);
        2
    });
    assert!(matches!(twice(round), Poll::Ready(Ok((2, _)))));
    drop(member);
    assert!(matches!(once(other.barrier()), Poll::Ready(Err(Ended::Left))));
    assert!(poll(finish.as_mut()).is_pending());
    drop(other);
    assert_eq!(poll(finish), Poll::Ready(vec![0; 4]));
}

/// A leader that lets others run first may be dropped meanwhile: then it has left, and its part is gone before the data is.
#[test]
fn a_leader_that_is_dropped_after_its_round_has_left() {
    let (gone, parts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let data = Data { text: "the data".to_string(), gone: gone.clone(), parts: parts.clone() };
    let (team, mut members) = AsyncTeam::new(data, 2);
    let mut finish = Box::pin(team.finish());
    let (mut first, mut leads) = (members.remove(0), members.remove(0));
    {
        let mut waits = pin!(first.round::<(), Look<'_>>(|_, _| unreachable!("it is not the last to arrive")));
        assert!(poll(waits.as_mut()).is_pending());
        {
            let mut round = pin!(leads.round::<(), Look<'_>>(|data, deal| {
                let data = &*data;
                deal.parts([Look(data), Look(data)]);
            }));
            assert!(poll(round.as_mut()).is_pending());
        }
        assert_eq!(parts.load(Relaxed), 1, "the leader's part");
        assert!(matches!(once(leads.barrier()), Poll::Ready(Err(Ended::Left))));
        // The round has taken place.
        assert!(matches!(poll(waits), Poll::Ready(Ok(_))));
    }
    assert!(matches!(once(first.barrier()), Poll::Ready(Err(Ended::Left))));
    drop((first, leads));
    assert!(poll(finish.as_mut()).is_ready());
    assert_eq!((parts.load(Relaxed), gone.load(Relaxed)), (2, 1));
}

/// A task of an executor whose wakers own it, as executors built on [`Wake`] are.
struct OwnedTask {
    _future: Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>,
}
impl Wake for OwnedTask {
    fn wake(self: Arc<Self>) {}
}

/// The only owner of a task that owns `kept`, as a waker.
fn last_owner(kept: impl Send + 'static) -> Waker {
    let future = async move {
        let _kept = kept;
        std::future::pending::<()>().await
    };
    Waker::from(Arc::new(OwnedTask { _future: Mutex::new(Box::pin(future)) }))
}

/// Runs it on a thread, so that a deadlock fails the test.
fn in_time(test: impl FnOnce() + Send + 'static) {
    let (done, seen) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    let timeout = std::time::Duration::from_secs(60);
    assert_ne!(seen.recv_timeout(timeout), Err(std::sync::mpsc::RecvTimeoutError::Timeout), "a poll does not return");
    thread.join().unwrap();
}

/// A member that is polled with another waker drops the one before. That may be the last owner of a task with another member, which
/// leaves the team then, and wakes this one.
#[test]
fn a_waker_that_is_replaced_may_own_a_member() {
    in_time(|| {
        let (team, mut members) = AsyncTeam::new(0, 3);
        let (_third, owned, mut first) = (members.pop(), members.pop(), members.pop().unwrap());
        let mut barrier = Box::pin(async move { first.barrier().await });
        let waker = last_owner(owned);
        assert!(barrier.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        assert_eq!(poll(barrier.as_mut()), Poll::Ready(Err(Ended::Left)));
        drop(team);
    });
}

/// The same where the owner of the team waits for its end.
#[test]
fn the_owners_waker_that_is_replaced_may_own_the_last_member() {
    in_time(|| {
        let (team, mut members) = AsyncTeam::new(7, 1);
        let mut finish = Box::pin(team.finish());
        let waker = last_owner(members.pop());
        assert!(finish.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        assert_eq!(poll(finish.as_mut()), Poll::Ready(7));
    });
}
