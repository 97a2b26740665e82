//! Nodes: processors, the link to the store, and the sessions in memory, ordered by their last use.

/// The sentinel value for no session or no node.
pub const NONE: u32 = u32::MAX;

/// A node.
#[derive(Clone)]
pub struct Node {
    /// `false` after the node has failed.
    pub alive: bool,
    /// Unanswered executions on the node.
    pub executing: u32,
    /// The memory of the node's sessions, including executing ones.
    pub held_bytes: f64,
    /// The processor time used within the measured window.
    pub busy_s: f64,
    /// The time at which each processor becomes free.
    free_s: Vec<f64>,
    /// The time at which the link has finished all queued transfers.
    link_free_s: f64,
    oldest: u32,
    newest: u32,
}

impl Node {
    /// Creates a node with `cores` processors and no sessions.
    pub fn new(cores: u32) -> Self {
        Self {
            alive: true,
            executing: 0,
            held_bytes: 0.0,
            busy_s: 0.0,
            free_s: vec![0.0; cores as usize],
            link_free_s: 0.0,
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Returns the number of processors.
    pub fn cores(&self) -> u32 {
        self.free_s.len() as u32
    }

    /// Returns the time that an execution arriving now would wait for a processor.
    pub fn wait_s(&self, now_s: f64) -> f64 {
        (self.free_s.iter().copied().fold(f64::INFINITY, f64::min) - now_s).max(0.0)
    }

    /// Assigns work to the processor that becomes free first, and returns the time at which the work is done. Work is
    /// done in the order of calls, so `now_s` must not decrease.
    pub fn compute(&mut self, now_s: f64, work_s: f64) -> f64 {
        let mut first = 0;
        for (core, free_s) in self.free_s.iter().enumerate() {
            if *free_s < self.free_s[first] {
                first = core;
            }
        }
        self.free_s[first] = self.free_s[first].max(now_s) + work_s;
        self.free_s[first]
    }

    /// Queues a transfer on the link, and returns the time at which it is complete.
    pub fn fetch(&mut self, now_s: f64, transfer_s: f64) -> f64 {
        self.link_free_s = self.link_free_s.max(now_s) + transfer_s;
        self.link_free_s
    }

    /// Returns the least recently used session in memory that is not executing, or [`NONE`].
    pub fn oldest(&self) -> u32 {
        self.oldest
    }
}

/// Linked lists of the idle sessions in memory, one list per node, ordered by their last use.
pub struct Order {
    older: Vec<u32>,
    newer: Vec<u32>,
}

impl Order {
    /// Creates an empty order for `sessions` sessions.
    pub fn new(sessions: u32) -> Self {
        Self { older: vec![NONE; sessions as usize], newer: vec![NONE; sessions as usize] }
    }

    /// Appends a session as the most recently used one.
    pub fn push(&mut self, node: &mut Node, session: u32) {
        self.older[session as usize] = node.newest;
        self.newer[session as usize] = NONE;
        match node.newest {
            NONE => node.oldest = session,
            newest => self.newer[newest as usize] = session,
        }
        node.newest = session;
    }

    /// Removes a session from the node's list.
    pub fn remove(&mut self, node: &mut Node, session: u32) {
        let (older, newer) = (self.older[session as usize], self.newer[session as usize]);
        match older {
            NONE => node.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
        match newer {
            NONE => node.newest = older,
            newer => self.older[newer as usize] = older,
        }
    }
}
