//! Places executions on nodes.

use crate::config::Placement;
use crate::node::{NONE, Node};
use crate::random::{Random, hash};

/// The router and its view of the nodes.
pub struct Router {
    /// Placement policy.
    pub placement: Placement,
    /// The number of unanswered executions in the fleet.
    pub executing: u64,
    /// Nodes that the router considers alive.
    pub members: Vec<u32>,
    /// `true` for each node that is in `members`, indexed by node.
    pub believed: Vec<bool>,
}

impl Router {
    /// Creates a router that considers all nodes alive.
    pub fn new(placement: Placement, nodes: u32) -> Self {
        Self { placement, executing: 0, members: (0..nodes).collect(), believed: vec![true; nodes as usize] }
    }

    /// Removes the nodes for which `gone` returns `true`.
    pub fn forget(&mut self, gone: impl Fn(u32) -> bool) {
        self.members.retain(|node| !gone(*node));
        self.believed.iter_mut().enumerate().for_each(|(node, believed)| *believed &= !gone(node as u32));
    }

    /// Returns the node for an execution in `session`, which last ran on `last`.
    pub fn node(&self, session: u32, last: u32, nodes: &[Node], random: &mut Random) -> u32 {
        match self.placement {
            Placement::Random => self.any(random),
            Placement::TwoChoices => self.less_busy(nodes, random),
            Placement::Hash => self.hashed(session, |_| true),
            Placement::BoundedHash => {
                // As in Mirrokni, Thorup and Zadimoghaddam, the bound includes the new execution.
                let bound = (1.25 * (self.executing + 1) as f64 / self.members.len() as f64).ceil() as u32;
                self.hashed(session, |node| nodes[node as usize].executing < bound)
            }
            Placement::Warm { at_most } => {
                let cores = nodes[0].cores();
                if last != NONE && self.believed[last as usize] && nodes[last as usize].executing < at_most * cores {
                    last
                } else {
                    self.less_busy(nodes, random)
                }
            }
        }
    }

    fn any(&self, random: &mut Random) -> u32 {
        self.members[random.below(self.members.len() as u32) as usize]
    }

    fn less_busy(&self, nodes: &[Node], random: &mut Random) -> u32 {
        let (one, other) = (self.any(random), self.any(random));
        if nodes[other as usize].executing < nodes[one as usize].executing { other } else { one }
    }

    /// Returns the first node in the session's hash order that the router considers alive and for which `fits` returns
    /// `true`. Losing a node only moves that node's sessions.
    fn hashed(&self, session: u32, fits: impl Fn(u32) -> bool) -> u32 {
        let all = self.believed.len() as u64;
        let mut first = NONE;
        for attempt in 0..64 {
            let node = (hash(session, attempt) % all) as u32;
            if !self.believed[node as usize] {
                continue;
            }
            if fits(node) {
                return node;
            }
            first = if first == NONE { node } else { first };
        }
        if first == NONE { self.members[0] } else { first }
    }
}
