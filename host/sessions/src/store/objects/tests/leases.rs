//! Concurrent acquisition and release of a session's lease, in every order.

use std::{
    cell::Cell,
    sync::Arc,
    time::{Duration, Instant},
};

use super::model::{Run, Task, exhaustively};
use crate::store::{
    SessionId, block_on,
    objects::{
        bucket::Bucket as _,
        lease::{LeaseLog, StoreClock},
    },
};

const LASTS: Duration = Duration::from_secs(15);
const HOUR_MS: i64 = 3_600_000;

fn log(run: &Run) -> LeaseLog {
    LeaseLog::new(Arc::clone(&run.memory) as _, LASTS, &SessionId::new("a").unwrap())
}

fn clock(run: &Run) -> StoreClock {
    StoreClock { seen_ms: *run.memory.now_ms.lock().unwrap(), seen_at: Instant::now() }
}

/// Acquires and releases the lease, `times` times.
fn holder<'a>(run: &'a Run, times: usize, held: &'a Cell<bool>, taken: &'a Cell<usize>) -> Task<'a> {
    Box::pin(async move {
        for _ in 0..times {
            let log = log(run);
            if let Some(number) = log.take(clock(run)).await.unwrap() {
                assert!(!held.replace(true), "two hold it");
                taken.set(taken.get() + 1);
                // Other tasks run before the entry is deleted, but not before its deletion is recorded.
                log.delete(number).await;
                held.set(false);
            }
        }
    })
}

/// Renews a lease that expired an hour ago, like a process that was frozen meanwhile.
fn frozen<'a>(log: &'a LeaseLog, held: &'a Cell<bool>, renewed: &'a Cell<usize>) -> Task<'a> {
    Box::pin(async move {
        if let Some(number) = log.renewed(1).await.unwrap() {
            assert!(!held.replace(true), "two hold it");
            renewed.set(renewed.get() + 1);
            log.delete(number).await;
            held.set(false);
        }
    })
}

/// Holders acquire the lease concurrently, each `times` times. `was_killed`: a holder was killed an hour before.
fn contend(switches: usize, times: &[usize], was_killed: bool) {
    let runs = exhaustively(0, |run| {
        if was_killed {
            assert_eq!(block_on(log(run).take(clock(run))).unwrap(), Some(1));
            assert_eq!(block_on(log(run).take(clock(run))).unwrap(), None, "it has not run out");
            *run.memory.now_ms.lock().unwrap() += HOUR_MS;
        }
        let (held, taken) = (Cell::new(false), Cell::new(0));
        run.interleave(switches, times.iter().map(|times| holder(run, *times, &held, &taken)).collect());
        // Late holders have left no objects behind.
        assert!(block_on(log(run).take(clock(run))).unwrap().is_some());
        if !was_killed {
            assert!(taken.get() > 0);
        }
    });
    assert!(runs > 1_000, "{runs}");
}

#[test]
fn of_two_one_holds_it() {
    contend(6, &[3, 3], false);
}

#[test]
fn of_three_one_holds_it() {
    contend(4, &[1, 2, 2], false);
}

#[test]
fn of_two_that_follow_one_that_was_killed_one_holds_it() {
    contend(6, &[1, 3], true);
}

#[test]
fn of_three_that_follow_one_that_was_killed_one_holds_it() {
    contend(4, &[1, 2, 1], true);
}

#[test]
fn one_that_was_frozen_has_it_alone_or_not_at_all() {
    for (switches, times) in [(6, &[3][..]), (5, &[2, 1])] {
        let (renewed, taken) = (Cell::new(0), Cell::new(0));
        let runs = exhaustively(0, |run| {
            let first = log(run);
            assert_eq!(block_on(first.take(clock(run))).unwrap(), Some(1));
            *run.memory.now_ms.lock().unwrap() += HOUR_MS;
            let held = Cell::new(false);
            let others = times.iter().map(|times| holder(run, *times, &held, &taken));
            run.interleave(switches, others.chain([frozen(&first, &held, &renewed)]).collect());
            assert!(block_on(log(run).take(clock(run))).unwrap().is_some(), "something was left behind");
        });
        assert!(runs > 1_000 && renewed.get() > 10 && taken.get() > 10, "{runs} {} {}", renewed.get(), taken.get());
    }
}

#[test]
fn the_last_number_is_an_error_that_names_the_directory() {
    exhaustively(0, |run| {
        block_on(run.memory.try_create(&format!("leases/a!/{}", u64::MAX), "x 1".into())).unwrap();
        *run.memory.now_ms.lock().unwrap() += HOUR_MS;
        let error = block_on(log(run).take(clock(run))).unwrap_err().to_string();
        assert!(error.contains("leases/a!"), "{error}");
    });
}
