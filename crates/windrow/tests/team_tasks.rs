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

/// A member that leaves while it waits may have been dealt a part. Nobody takes it, and it is gone before the data is.
#[test]
fn a_part_that_nobody_took_is_dropped_before_the_data_comes_back() {
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
        let Poll::Ready(Ok(((), mine))) = once(round) else { panic!("it is the last to arrive") };
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
fn who_forgets_a_future_has_left() {
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
    assert!(matches!(once(round), Poll::Ready(Ok((2, _)))));
    drop(member);
    assert!(matches!(once(other.barrier()), Poll::Ready(Err(Ended::Left))));
    assert!(poll(finish.as_mut()).is_pending());
    drop(other);
    assert_eq!(poll(finish), Poll::Ready(vec![0; 4]));
}
