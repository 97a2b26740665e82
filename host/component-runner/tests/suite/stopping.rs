//! Stopping applications from outside, in every state.

use std::{sync::mpsc::channel, thread, time::Duration};

use glovebox_component_runner::{AppConfig, AppOutcome};

use crate::support::{config, probe};

/// Longer than any test may take.
const LONG: Duration = Duration::from_secs(300);

#[test]
fn its_own_work_and_its_waits_are_cut_short() {
    for endless in ["spin()", "sleep(3600000000000)"] {
        let (world, application) = probe();
        let config = AppConfig::default();
        let cancel = config.cancel.clone();
        let (sender, receiver) = channel();
        let running = thread::spawn(move || {
            let ended = application.invoke(endless, &world.host, &config).unwrap();
            sender.send(()).unwrap();
            ended
        });
        assert!(receiver.recv_timeout(Duration::from_millis(100)).is_err(), "it runs");
        cancel.cancel();
        receiver.recv_timeout(LONG).unwrap();
        assert_eq!(running.join().unwrap().outcome, AppOutcome::Cancelled, "{endless}");
    }
}

#[test]
fn one_that_was_cancelled_before_does_not_begin() {
    let (world, application) = probe();
    let config = AppConfig::default();
    config.cancel.cancel();
    let ended = application.invoke("spin()", &world.host, &config).unwrap();
    assert_eq!((ended.outcome, ended.fuel_consumed), (AppOutcome::Cancelled, 0));
}

#[test]
fn others_of_the_same_engine_go_on() {
    let (world, application) = probe();
    let other = application.clone();
    let (host, config) = (world.host.clone(), config(|config| config.limits.timeout_ms = 30));
    let ended = thread::scope(|scope| {
        let stopped = scope.spawn(|| {
            (0..10).all(|_| {
                let outcome = other.invoke("spin()", &host, &config).unwrap().outcome;
                matches!(outcome, AppOutcome::Exhausted { .. })
            })
        });
        let ended = application.invoke("burn(1000000000)", &world.host, &AppConfig::default()).unwrap();
        assert!(stopped.join().unwrap());
        ended
    });
    assert_eq!(ended.outcome, AppOutcome::Returned);
}
