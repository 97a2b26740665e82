//! The simulation. Sessions alternate between executing and idling, on nodes that have some of them in memory.

use crate::config::{Class, Config, Intensity, Persistence, Store};
use crate::gaps::{Gaps, hourly, later};
use crate::node::{NONE, Node, Order};
use crate::placement::Router;
use crate::random::Random;
use crate::report::Report;
use crate::wheel::Wheel;

/// The kind of a session's next event.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    /// A client requests an execution.
    Requested,
    /// The saved state has arrived from the store.
    Ready,
    /// The execution has been answered.
    Done,
}

pub(crate) struct Session {
    pub(crate) kind: u8,
    pub(crate) class: u8,
    pub(crate) phase: Phase,
    /// `true` if the current execution must resume the session first.
    pub(crate) cold: bool,
    /// The number of executions since the last save.
    pub(crate) unsaved: u16,
    /// The processor time to repeat the executions since the last save.
    pub(crate) unsaved_s: f32,
    /// The processor time of the current execution.
    pub(crate) work_s: f32,
    /// The node that has the session in memory, or was the last to have it.
    pub(crate) node: u32,
    pub(crate) warm: bool,
    pub(crate) requested_s: f64,
    pub(crate) used_s: f64,
}

/// The fleet and its sessions.
pub struct Fleet {
    pub(crate) config: Config,
    pub(crate) random: Random,
    pub(crate) gaps: Vec<Gaps>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) order: Order,
    pub(crate) wheel: Wheel,
    pub(crate) router: Router,
    pub(crate) report: Report,
    /// Idle sessions that were in the memory of failed nodes.
    pub(crate) lost: Vec<u32>,
    /// Sessions that are resumed ahead of their next request. Their event numbers follow the ordinary sessions'
    /// numbers.
    pub(crate) ahead: Vec<crate::failure::Ahead>,
    pub(crate) get: Latency,
    pub(crate) put: Latency,
}

/// A log-normal duration.
#[derive(Clone, Copy)]
pub(crate) struct Latency {
    median_s: f64,
    sigma: f64,
}

impl Latency {
    /// Fits the distribution to p50 and p99. 2.326 is the 99th percentile of the standard normal distribution.
    fn new([p50, p99]: [f64; 2]) -> Self {
        Self { median_s: p50, sigma: libm::log(p99 / p50) / 2.326_347_874_040_841 }
    }

    pub(crate) fn sample(self, random: &mut Random) -> f64 {
        random.log_normal(self.median_s, self.sigma)
    }
}

impl Fleet {
    /// Creates a fleet in equilibrium: each session starts at a random time between two executions.
    pub fn new(config: Config) -> Self {
        let begin = match config.intensity {
            Intensity::Constant(intensity) => intensity,
            Intensity::Daily(amplitude) => hourly(amplitude, 0.0),
        };
        let Store { get_s, put_s, .. } = config.store;
        let mut fleet = Self {
            random: Random::new(config.seed),
            gaps: config.kinds.iter().map(|kind| Gaps::new(&kind.gaps, begin)).collect(),
            sessions: Vec::with_capacity(config.sessions as usize),
            nodes: vec![Node::new(config.cores); config.nodes as usize],
            order: Order::new(config.sessions),
            wheel: Wheel::new(config.sessions as usize, config.end_s()),
            router: Router::new(config.placement, config.nodes),
            report: Report::new(&config),
            lost: Vec::new(),
            ahead: Vec::new(),
            get: Latency::new(get_s),
            put: Latency::new(put_s),
            config,
        };
        for id in 0..fleet.config.sessions {
            let kind = fleet.random.index(fleet.config.kinds.iter().map(|kind| kind.share));
            let class = fleet.random.index(fleet.config.classes.iter().map(|class| class.share));
            let (age, left) = fleet.gaps[kind].equilibrium(&mut fleet.random);
            let node = fleet.router.node(id, NONE, &fleet.nodes, &mut fleet.random);
            fleet.wheel.set(id, left);
            fleet.sessions.push(Session {
                kind: kind as u8,
                class: class as u8,
                phase: Phase::Requested,
                cold: false,
                unsaved: 0,
                unsaved_s: 0.0,
                work_s: 0.0,
                node,
                warm: false,
                requested_s: 0.0,
                used_s: -age,
            });
        }
        // The most recently used sessions are in memory at the start.
        let mut recent: Vec<u32> =
            (0..fleet.config.sessions).filter(|id| -fleet.sessions[*id as usize].used_s < fleet.config.ttl_s).collect();
        recent.sort_by(|a, b| fleet.sessions[*a as usize].used_s.total_cmp(&fleet.sessions[*b as usize].used_s));
        for id in recent {
            let node = fleet.sessions[id as usize].node;
            fleet.make_room(node, fleet.class(id).warm_bytes, 0.0);
            fleet.hold(id, node);
            fleet.order.push(&mut fleet.nodes[node as usize], id);
        }
        fleet
    }

    /// Runs the simulation to its end.
    pub fn run(mut self) -> Report {
        while let Some((now, who)) = self.wheel.pop() {
            if self.fail_if_due(now, who) {
                continue;
            }
            self.report.events += 1;
            if who >= self.config.sessions {
                self.resume_ahead(now, who);
                continue;
            }
            match self.sessions[who as usize].phase {
                Phase::Requested => self.request(now, who),
                Phase::Ready => self.ready(now, who),
                Phase::Done => self.done(now, who),
            }
        }
        for id in 0..self.config.sessions {
            if self.sessions[id as usize].warm {
                self.account(id, self.config.end_s());
            }
            self.save_if_idle(id, self.config.end_s());
        }
        self.report.busy_s = self.nodes.iter().map(|node| node.busy_s).collect();
        self.report
    }

    fn request(&mut self, now: f64, id: u32) {
        self.save_if_idle(id, now);
        let Session { node: last, warm, requested_s, .. } = self.sessions[id as usize];
        let node = self.router.node(id, last, &self.nodes, &mut self.random);
        if !self.nodes[node as usize].alive {
            // The router has not noticed the failure yet, so the call waits until it does.
            self.sessions[id as usize].requested_s = if requested_s > 0.0 { requested_s } else { now };
            let noticed = self.noticed_s();
            self.wheel.set(id, noticed);
            return;
        }
        if self.config.shed_s.is_some_and(|max| self.nodes[node as usize].wait_s(now) > max) {
            self.report.refused += u64::from(self.counts(now));
            self.report.step(now).refused += 1;
            // Clients retry rejected executions.
            let again = now + 5.0 + 5.0 * self.random.unit();
            self.wheel.set(id, again);
            return;
        }
        let mut handed_over = now;
        let here = warm && last == node && now - self.sessions[id as usize].used_s <= self.config.ttl_s;
        if warm {
            self.order.remove(&mut self.nodes[last as usize], id);
            self.account(id, now);
            if !here {
                self.report.moved += u64::from(self.counts(now) && last != node);
                if self.sessions[id as usize].unsaved > 0
                    && matches!(self.config.persistence, Persistence::Coalesced { .. })
                {
                    handed_over += self.hand_over(now, id);
                }
                self.release(id);
            }
        }
        let session = &mut self.sessions[id as usize];
        session.requested_s = if session.requested_s > 0.0 { session.requested_s } else { now };
        session.cold = !here;
        self.nodes[node as usize].executing += 1;
        self.router.executing += 1;
        if here {
            self.ready(now, id);
            return;
        }
        self.make_room(node, self.class(id).warm_bytes, now);
        self.hold(id, node);
        let ready = self.fetch(handed_over, id, node);
        self.sessions[id as usize].phase = Phase::Ready;
        self.wheel.set(id, ready);
    }

    /// Reads a session's state from the store, and returns the time at which the state arrives.
    pub(crate) fn fetch(&mut self, now: f64, id: u32, node: u32) -> f64 {
        // Reads the last full state and each later difference.
        let differences = match self.config.persistence {
            Persistence::Delta { .. } => self.sessions[id as usize].unsaved,
            _ => 0,
        };
        let bytes = self.class(id).blob_bytes + f64::from(differences) * self.class(id).delta_bytes;
        if self.counts(now) {
            self.report.gets += 1 + u64::from(differences);
            self.report.get_bytes += bytes;
        }
        let transfer = bytes / self.config.store.bytes_per_s;
        let answered = now + self.get.sample(&mut self.random) + transfer;
        self.nodes[node as usize].fetch(now, bytes / self.config.link_bytes_per_s).max(answered)
    }

    fn ready(&mut self, now: f64, id: u32) {
        let (kind, class) = (&self.config.kinds[self.sessions[id as usize].kind as usize], self.class(id));
        let work = self.random.log_normal(kind.work_median_s, kind.work_sigma).min(kind.work_max_s) + class.execute_s;
        let (mut processor, mut after) = (work, 0.0);
        if self.sessions[id as usize].cold {
            // Repeats the unsaved executions that were lost with a failed node.
            processor += class.resume_s + f64::from(self.sessions[id as usize].unsaved_s);
        }
        let session = &mut self.sessions[id as usize];
        session.unsaved += 1;
        session.unsaved_s += work as f32;
        session.work_s = work as f32;
        let put = match self.config.persistence {
            Persistence::Every => Some(class.blob_bytes),
            Persistence::Delta { full_every } if session.unsaved < full_every => Some(class.delta_bytes),
            Persistence::Delta { .. } => Some(class.blob_bytes),
            Persistence::Coalesced { .. } => None,
        };
        if let Some(bytes) = put {
            // Assume that the cost of hibernating a delta is proportional to its size.
            processor += class.hibernate_s * bytes / class.blob_bytes;
            after = self.put.sample(&mut self.random) + bytes / self.config.store.bytes_per_s;
        }
        let node = self.sessions[id as usize].node as usize;
        let computed = self.nodes[node].compute(now, processor);
        if self.counts(now) {
            self.nodes[node].busy_s += processor;
        }
        self.sessions[id as usize].phase = Phase::Done;
        self.wheel.set(id, computed + after);
    }

    fn done(&mut self, now: f64, id: u32) {
        let counts = self.counts(now);
        let session = &mut self.sessions[id as usize];
        let (node, cold) = (session.node, session.cold);
        let latency = now - session.requested_s + self.config.call_s;
        session.requested_s = 0.0;
        session.used_s = now;
        session.phase = Phase::Requested;
        let at_most = match self.config.persistence {
            Persistence::Every => 1,
            Persistence::Delta { full_every } => full_every,
            Persistence::Coalesced { at_most, .. } => at_most,
        };
        if session.unsaved >= at_most {
            self.save(id, now);
        } else if let Persistence::Delta { .. } = self.config.persistence {
            self.count_put(now, self.class(id).delta_bytes);
            self.sessions[id as usize].unsaved_s = 0.0;
        }
        self.nodes[node as usize].executing -= 1;
        self.router.executing -= 1;
        self.order.push(&mut self.nodes[node as usize], id);
        let step = self.report.step(now);
        step.latency.add(latency);
        step.misses += u64::from(cold);
        if counts {
            self.report.executions += 1;
            self.report.misses += u64::from(cold);
            self.report.latency.add(latency);
            if cold { self.report.cold_latency.add(latency) } else { self.report.warm_latency.add(latency) }
        }
        let next = self.next(now, id);
        self.wheel.set(id, next);
    }

    fn next(&mut self, now: f64, id: u32) -> f64 {
        let (gap, daily) = self.gaps[self.sessions[id as usize].kind as usize].sample(&mut self.random);
        match self.config.intensity {
            // Gaps were scaled for the intensity at midnight.
            Intensity::Daily(amplitude) if daily => later(now, gap * hourly(amplitude, 0.0), amplitude),
            _ => now + gap,
        }
    }

    pub(crate) fn class(&self, id: u32) -> Class {
        self.config.classes[self.sessions[id as usize].class as usize]
    }

    pub(crate) fn counts(&self, now: f64) -> bool {
        now >= self.config.settle_s
    }

    /// Evicts expired sessions, and then the least recently used ones, until `bytes` fit.
    pub(crate) fn make_room(&mut self, node: u32, bytes: f64, now: f64) {
        loop {
            let oldest = self.nodes[node as usize].oldest();
            if oldest == NONE {
                return;
            }
            let expired = now - self.sessions[oldest as usize].used_s > self.config.ttl_s;
            if !expired && self.nodes[node as usize].held_bytes + bytes <= self.config.memory_bytes {
                return;
            }
            self.order.remove(&mut self.nodes[node as usize], oldest);
            self.account(oldest, now);
            self.save_if_idle(oldest, now);
            if !expired {
                self.report.evicted += u64::from(self.counts(now));
                if let Persistence::Coalesced { .. } = self.config.persistence
                    && self.sessions[oldest as usize].unsaved > 0
                {
                    self.save(oldest, now);
                }
            }
            self.release(oldest);
        }
    }

    pub(crate) fn hold(&mut self, id: u32, node: u32) {
        self.nodes[node as usize].held_bytes += self.class(id).warm_bytes;
        let session = &mut self.sessions[id as usize];
        session.warm = true;
        session.node = node;
    }

    fn release(&mut self, id: u32) {
        self.nodes[self.sessions[id as usize].node as usize].held_bytes -= self.class(id).warm_bytes;
        self.sessions[id as usize].warm = false;
    }

    /// Adds the time that the session has been in memory since its last use to the totals.
    pub(crate) fn account(&mut self, id: u32, now: f64) {
        let used = self.sessions[id as usize].used_s;
        let held = now.min(used + self.config.ttl_s) - used.max(self.config.settle_s);
        if held > 0.0 {
            self.report.warm_byte_s += held * self.class(id).warm_bytes;
            self.report.warm_session_s += held;
        }
    }
}

// Saves sessions to the store.

impl Fleet {
    /// Saves a session on its current node before it moves to another node. Returns the duration of the save.
    pub(crate) fn hand_over(&mut self, now: f64, id: u32) -> f64 {
        let bytes = self.saved_bytes(id);
        let class = self.class(id);
        self.save(id, now);
        let hibernate_s = class.hibernate_s * bytes / class.blob_bytes;
        hibernate_s + self.put.sample(&mut self.random) + bytes / self.config.store.bytes_per_s
    }

    /// Returns the number of bytes that a save would write now.
    fn saved_bytes(&self, id: u32) -> f64 {
        let class = self.class(id);
        match self.config.persistence {
            Persistence::Coalesced { full_every: Some(every), .. } => {
                let differences = f64::from(self.sessions[id as usize].unsaved) * class.delta_bytes;
                // Spreads the size of a full state over all saves between two full saves. The session therefore need
                // not record its last full save.
                (differences + class.blob_bytes / f64::from(every)).min(class.blob_bytes)
            }
            _ => class.blob_bytes,
        }
    }

    pub(crate) fn save(&mut self, id: u32, at: f64) {
        let bytes = self.saved_bytes(id);
        self.count_put(at, bytes);
        let class = self.class(id);
        let hibernate_s = class.hibernate_s * bytes / class.blob_bytes;
        let session = &mut self.sessions[id as usize];
        session.unsaved = 0;
        session.unsaved_s = 0.0;
        if let Persistence::Coalesced { .. } = self.config.persistence
            && at >= self.config.settle_s
        {
            // A background save has the lowest priority: it uses processor time, but does not delay executions.
            self.nodes[session.node as usize].busy_s += hibernate_s;
        }
    }

    /// Saves a session with coalesced saves if its idle period has passed.
    pub(crate) fn save_if_idle(&mut self, id: u32, now: f64) {
        if let Persistence::Coalesced { idle_s, .. } = self.config.persistence {
            let Session { unsaved, used_s, warm, .. } = self.sessions[id as usize];
            if unsaved > 0 && warm && used_s + idle_s < now {
                self.save(id, used_s + idle_s);
            }
        }
    }

    pub(crate) fn count_put(&mut self, now: f64, bytes: f64) {
        if self.counts(now) {
            self.report.puts += 1;
            self.report.put_bytes += bytes;
        }
    }
}
