//! A node: its processors, its link to the store, and the sessions in its memory, in the order of their last use.

/// No session, or no node.
pub const NONE: u32 = u32::MAX;

/// What a node has.
#[derive(Clone)]
pub struct Node {
    /// Whether it is there.
    pub alive: bool,
    /// Executions that have been sent to it and not been answered.
    pub executing: u32,
    /// The sessions in memory, executing ones included.
    pub held_bytes: f64,
    /// Processor time that was used within the window.
    pub busy_s: f64,
    /// When each processor is free.
    free_s: Vec<f64>,
    /// When the link has brought what it has been asked for.
    link_free_s: f64,
    oldest: u32,
    newest: u32,
}

impl Node {
    /// An empty one.
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

    /// How many processors it has.
    pub fn cores(&self) -> u32 {
        self.free_s.len() as u32
    }

    /// How long who comes now waits for a processor.
    pub fn wait_s(&self, now_s: f64) -> f64 {
        (self.free_s.iter().copied().fold(f64::INFINITY, f64::min) - now_s).max(0.0)
    }

    /// Gives the work to the processor that is free first; answers when it is done. First come, first served: call it in order of time.
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

    /// Reads through the link, one after the other; answers when all of it is here.
    pub fn fetch(&mut self, now_s: f64, transfer_s: f64) -> f64 {
        self.link_free_s = self.link_free_s.max(now_s) + transfer_s;
        self.link_free_s
    }

    /// The session in memory that was used longest ago and does not execute.
    pub fn oldest(&self) -> u32 {
        self.oldest
    }
}

/// The links of the lists in which nodes have their sessions.
pub struct Order {
    older: Vec<u32>,
    newer: Vec<u32>,
}

impl Order {
    /// For so many sessions, none in a list.
    pub fn new(sessions: u32) -> Self {
        Self { older: vec![NONE; sessions as usize], newer: vec![NONE; sessions as usize] }
    }

    /// The session was used just now.
    pub fn push(&mut self, node: &mut Node, session: u32) {
        self.older[session as usize] = node.newest;
        self.newer[session as usize] = NONE;
        match node.newest {
            NONE => node.oldest = session,
            newest => self.newer[newest as usize] = session,
        }
        node.newest = session;
    }

    /// Takes the session out of the list that it is in.
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
