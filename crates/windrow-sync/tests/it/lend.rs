//! Loans: every one ends before its host returns, whatever becomes of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use windrow_sync::lend::{Loan, lending};

#[test]
fn loans_run_on_other_threads_and_write_what_they_borrow() {
    let mut numbers = vec![0; 100];
    let result = lending(
        || (),
        |_| (),
        |lender| {
            let loans: Vec<Loan> =
                numbers.iter_mut().enumerate().map(|(i, number)| lender.lend(move || *number = i)).collect();
            std::thread::spawn(move || loans.into_iter().for_each(Loan::run));
            7
        },
    );
    assert_eq!(result, 7);
    assert!(numbers.into_iter().eq(0..100));
}

#[test]
fn a_dropped_loan_drops_its_job_and_ends() {
    struct Counts<'a>(&'a AtomicUsize);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (dropped, run) = (AtomicUsize::new(0), AtomicUsize::new(0));
    lending(
        || (),
        |_| (),
        |lender| {
            for _ in 0..3 {
                let (counts, run) = (Counts(&dropped), &run);
                drop(lender.lend(move || {
                    run.fetch_add(1, Ordering::Relaxed);
                    drop(counts);
                }));
            }
        },
    );
    assert_eq!((dropped.into_inner(), run.into_inner()), (3, 0));
}

#[test]
fn jobs_lend_more_and_the_wait_runs_them() {
    let queue = Mutex::new(Vec::new());
    let ran = AtomicUsize::new(0);
    let pop = || queue.lock().unwrap().pop();
    lending(
        || (),
        |is_over| {
            while let Some(loan) = pop() {
                assert!(!is_over());
                Loan::run(loan);
            }
            assert!(is_over());
        },
        |lender| {
            for _ in 0..3 {
                let (again, ran, queue) = (lender.clone(), &ran, &queue);
                let first = lender.lend(move || {
                    ran.fetch_add(1, Ordering::Relaxed);
                    queue.lock().unwrap().push(again.lend(move || {
                        ran.fetch_add(10, Ordering::Relaxed);
                    }));
                });
                queue.lock().unwrap().push(first);
            }
        },
    );
    assert_eq!(ran.into_inner(), 33);
}

#[test]
fn panics_come_after_all_loans_have_ended() {
    let ran = AtomicUsize::new(0);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        lending(
            || (),
            |_| (),
            |lender| {
                let loan = lender.lend(|| {
                    ran.fetch_add(1, Ordering::Relaxed);
                });
                std::thread::spawn(move || loan.run());
                panic!("the host");
            },
        )
    }));
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"the host"));
    assert_eq!(ran.into_inner(), 1);
}

/// A lender that is left over must not lend: its scope has ended.
#[test]
fn a_lender_refuses_when_its_host_has_returned() {
    let lender = lending(|| (), |_| (), |lender| lender.clone());
    assert!(catch_unwind(AssertUnwindSafe(|| lender.lend(|| ()))).is_err());
}
