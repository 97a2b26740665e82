//! A short trace to replay on a real server, with the model's prediction for each execution: whether the session is in
//! memory.

use std::fmt::Write;

use crate::gaps::{Distribution, Gaps, Part};
use crate::node::{NONE, Node, Order};
use crate::{random::Random, wheel::Wheel};

/// Returns a trace as lines of JSON: executions in `sessions` sessions, `live` of which fit into memory. All sessions
/// are opened in order before the first execution.
pub fn trace(sessions: u32, live: u32, executions: usize) -> String {
    let part =
        Part { share: 1.0, daily: false, time: Distribution::Lomax { tail: 1.0, median_s: 60.0, max_s: 86_400.0 } };
    let (gaps, mut random) = (Gaps::new(&[part], 1.0), Random::new(7));
    let (mut node, mut order, mut wheel) = (Node::new(1), Order::new(sessions), Wheel::new(sessions as usize, 1e6));
    let mut memory = Memory { held: vec![false; sessions as usize], count: 0, live };
    for id in 0..sessions {
        memory.used(&mut node, &mut order, id);
        let (_, left) = gaps.equilibrium(&mut random);
        wheel.set(id, left);
    }
    let mut text = format!("{{\"sessions\": {sessions}, \"live\": {live}}}\n");
    for _ in 0..executions {
        let Some((now, id)) = wheel.pop() else { break };
        let warm = memory.used(&mut node, &mut order, id);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[{id}, {warm}]");
        wheel.set(id, now + gaps.sample(&mut random).0);
    }
    text
}

struct Memory {
    held: Vec<bool>,
    count: u32,
    live: u32,
}

impl Memory {
    /// Uses a session. Returns `true` if it was in memory.
    fn used(&mut self, node: &mut Node, order: &mut Order, id: u32) -> bool {
        let warm = self.held[id as usize];
        if warm {
            order.remove(node, id);
        } else {
            self.held[id as usize] = true;
            self.count += 1;
            if self.count > self.live && node.oldest() != NONE {
                let oldest = node.oldest();
                order.remove(node, oldest);
                self.held[oldest as usize] = false;
                self.count -= 1;
            }
        }
        order.push(node, id);
        warm
    }
}
