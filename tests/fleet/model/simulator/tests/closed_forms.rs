//! Compares the simulator's results with closed forms.

use fleet_model::config::{Class, Config, Failure, Intensity, Persistence, Placement, Store, UserKind};
use fleet_model::figures::characteristic_s;
use fleet_model::fleet::Fleet;
use fleet_model::gaps::{Distribution, Gaps, Part};
use fleet_model::node::Node;
use fleet_model::random::Random;
use fleet_model::trace::trace;
use fleet_model::wheel::Wheel;

const LOMAX: Distribution = Distribution::Lomax { tail: 1.0, median_s: 60.0, max_s: 86_400.0 };

fn kind(share: f64, time: Distribution) -> UserKind {
    let gaps = vec![Part { share: 1.0, daily: false, time }];
    UserKind { share, gaps, work_median_s: 0.01, work_sigma: 1.0, work_max_s: 10.0 }
}

fn class(share: f64, warm_bytes: f64) -> Class {
    Class { share, execute_s: 0.0, hibernate_s: 0.0, resume_s: 0.0, blob_bytes: 1e5, delta_bytes: 1e3, warm_bytes }
}

fn config() -> Config {
    Config {
        seed: 3,
        sessions: 20_000,
        nodes: 4,
        cores: 8,
        memory_bytes: 1e15,
        link_bytes_per_s: 1e12,
        ttl_s: 300.0,
        call_s: 0.0,
        kinds: vec![kind(1.0, LOMAX)],
        classes: vec![class(1.0, 1e6)],
        store: Store { get_s: [1e-3, 1e-3 + 1e-9], put_s: [1e-3, 1e-3 + 1e-9], bytes_per_s: 1e12 },
        placement: Placement::Hash,
        persistence: Persistence::Every,
        intensity: Intensity::Constant(1.0),
        settle_s: 100.0,
        window_s: 1_000.0,
        step_s: 10.0,
        failure: None,
        shed_s: None,
    }
}

#[track_caller]
fn near(simulated: f64, expected: f64, share: f64) {
    assert!((simulated / expected - 1.0).abs() < share, "simulated {simulated}, expected {expected}");
}

/// Erlang C: the mean wait for one of two processors.
#[test]
fn node_waiting_time_matches_erlang() {
    let (rate, service_s) = (1.6, 1.0);
    let (mut random, mut node) = (Random::new(1), Node::new(2));
    let (mut now, mut waited_s) = (0.0, 0.0);
    const ALL: usize = 2_000_000;
    for _ in 0..ALL {
        now += Distribution::Exponential { mean_s: 1.0 / rate }.sample(&mut random);
        waited_s += node.wait_s(now);
        node.compute(now, Distribution::Exponential { mean_s: service_s }.sample(&mut random));
    }
    let load: f64 = rate * service_s;
    let waits = load * load / 2.0 / (1.0 - load / 2.0);
    let waits = waits / (1.0 + load + waits);
    near(waited_s / ALL as f64, waits / (2.0 / service_s - rate), 0.02);
}

/// The Pollaczek-Khinchine formula. Requests from many independent sessions approximate a Poisson process, whatever the
/// gap distribution.
#[test]
fn fleet_waiting_time_matches_pollaczek_khinchine() {
    let simulated = Config { nodes: 1, cores: 1, ttl_s: 1e9, persistence: coalesced(1e9), ..config() };
    let gaps = Gaps::new(&simulated.kinds[0].gaps, 1.0);
    let rate = f64::from(simulated.sessions) / gaps.mean_s();
    let (median, sigma) = (0.6 / rate / libm::exp(0.125), 0.5);
    let mut simulated = simulated;
    simulated.kinds[0].work_median_s = median;
    simulated.kinds[0].work_sigma = sigma;
    let report = Fleet::new(Config { window_s: 20_000.0, ..simulated }).run();
    let (mean, square) = (median * libm::exp(sigma * sigma / 2.0), median * median * libm::exp(2.0 * sigma * sigma));
    near(report.busy_s[0] / 20_000.0, rate * mean, 0.02);
    near(report.warm_latency.mean_s(), mean + rate * square / 2.0 / (1.0 - rate * mean), 0.03);
}

fn coalesced(idle_s: f64) -> Persistence {
    Persistence::Coalesced { idle_s, at_most: u16::MAX, full_every: None }
}

/// Little's law: the number of sessions in memory is the rate of executions times the mean time in memory. Misses are
/// executions in sessions that were idle for longer than the limit.
#[test]
fn memory_and_misses_match_littles_law() {
    let simulated = Config { sessions: 60_000, window_s: 2_000.0, ..config() };
    let gaps = Gaps::new(&simulated.kinds[0].gaps, 1.0);
    for ttl_s in [10.0, 300.0, 3_000.0] {
        let report = Fleet::new(Config { ttl_s, ..simulated.clone() }).run();
        near(report.executions as f64 / 2_000.0, f64::from(simulated.sessions) / gaps.mean_s(), 0.02);
        near(report.miss_share(), gaps.longer(ttl_s), 0.05);
        near(report.warm_session_s / 2_000.0, f64::from(simulated.sessions) * gaps.within(ttl_s), 0.02);
    }
}

/// Che's approximation, for Poisson requests and for other arrivals.
#[test]
fn full_memory_misses_match_che() {
    for time in
        [Distribution::Exponential { mean_s: 100.0 }, LOMAX, Distribution::LogNormal { median_s: 50.0, sigma: 1.5 }]
    {
        for share in [0.2, 0.6] {
            let simulated = Config {
                // The gaps of the second kind are ten times as long.
                kinds: vec![kind(0.5, time), kind(0.5, time.scaled(10.0))],
                nodes: 1,
                memory_bytes: share * 20_000.0 * 1e6,
                ttl_s: 1e9,
                window_s: 2_000.0,
                ..config()
            };
            let (mut missed, mut all) = (0.0, 0.0);
            let characteristic = characteristic_s(&simulated, 1.0);
            for each in &simulated.kinds {
                let gaps = Gaps::new(&each.gaps, 1.0);
                missed += gaps.longer(characteristic) / gaps.mean_s();
                all += 1.0 / gaps.mean_s();
            }
            near(Fleet::new(simulated).run().miss_share(), missed / all, 0.03);
        }
    }
}

#[test]
fn coalesced_writes_happen_once_per_long_pause() {
    let report = Fleet::new(Config { persistence: coalesced(30.0), ..config() }).run();
    let gaps = Gaps::new(&config().kinds[0].gaps, 1.0);
    near(report.puts as f64 / report.executions as f64, gaps.longer(30.0), 0.03);
}

#[test]
fn failed_zone_loses_no_execution() {
    let failure = Failure { at_s: 600.0, zones: 2, noticed_s: 4.0, resume_all: None };
    // Long executions, so that the failure interrupts some of them.
    let mut long = config();
    long.kinds[0].work_median_s = 0.1;
    let before = Fleet::new(long.clone()).run();
    let mut misses = Vec::new();
    for resume_all in [None, Some(50.0)] {
        let after = Fleet::new(Config { failure: Some(Failure { resume_all, ..failure }), ..long.clone() }).run();
        assert!(after.retried > 0);
        near(after.executions as f64, before.executions as f64, 0.02);
        misses.push(after.misses);
        // A failed node does no work after 500 of the window's 1,000 s.
        near(after.busy_s[0] / before.busy_s[0], 0.5, 0.1);
        assert!(after.busy_s[1] > 1.3 * before.busy_s[1]);
        assert_eq!(resume_all.is_some(), after.timeline.iter().any(|step| step.resumed_ahead > 0));
    }
    // Sessions that were resumed ahead of their next request do not cause misses.
    assert!(misses[0] > before.misses + 500 && misses[1] + 500 < misses[0], "{} before, {misses:?}", before.misses);
}

#[test]
fn refused_execution_is_retried() {
    let mut busy = Config { nodes: 1, cores: 1, shed_s: Some(0.5), ..config() };
    busy.kinds[0].work_median_s = 0.05;
    let report = Fleet::new(busy).run();
    assert!(report.refused > 0);
    // The processor is always busy, but no execution waits much longer than the limit.
    assert!(report.busy_s[0] <= 1_001.0 && report.busy_s[0] > 990.0, "{}", report.busy_s[0]);
    assert!(report.warm_latency.quantile(0.5) < 1.0);
}

#[test]
fn two_choices_are_fairer_than_one() {
    let mut half_busy = Config { nodes: 50, cores: 2, ..config() };
    half_busy.kinds[0].work_median_s = 1.0;
    half_busy.kinds[0].work_sigma = 0.3;
    let imbalance = |placement| Fleet::new(Config { placement, ..half_busy.clone() }).run().imbalance();
    assert!(imbalance(Placement::TwoChoices) < imbalance(Placement::Random));
}

#[test]
fn same_seed_gives_identical_results() {
    let run = |seed| {
        let report = Fleet::new(Config { seed, ..config() }).run();
        (report.executions, report.misses, report.events, report.busy_s.iter().sum::<f64>().to_bits())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn more_memory_never_increases_misses() {
    let misses = |live| trace(100, live, 2_000).matches("false").count();
    let each: Vec<usize> = [1, 10, 50, 99, 100].into_iter().map(misses).collect();
    assert!(each.is_sorted_by(|one, other| one >= other), "{each:?}");
    assert_eq!(each.last(), Some(&0));
    assert!(each[0] > 1_500, "{each:?}");
}

#[test]
fn wheel_events_are_ordered_and_movable() {
    let (mut wheel, mut random) = (Wheel::new(1_000, 50.0), Random::new(5));
    (0..1_000).for_each(|who| wheel.set(who, 60.0 * random.unit()));
    let mut last = 0.0;
    let mut seen = vec![0; 1_000];
    for popped in 0.. {
        let Some((now, who)) = wheel.pop() else { break };
        assert!(now >= last && now < 50.0);
        last = now;
        seen[who as usize] += 1;
        if popped == 300 {
            // Reschedules some pending events.
            let moved: Vec<(u32, f64)> =
                (0..1_000).filter(|who| wheel.time_s(*who) > now).take(50).map(|who| (who, now + 1.5)).collect();
            assert_eq!(moved.len(), 50);
            wheel.move_all(&moved);
        }
    }
    assert!(seen.iter().all(|times| *times <= 1));
    assert!((780..900).contains(&seen.iter().sum::<i32>()), "{}", seen.iter().sum::<i32>());
}
