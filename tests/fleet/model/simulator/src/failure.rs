//! The failure of a zone: its memory is lost, and other nodes resume its sessions from the store.

use crate::config::Failure;
use crate::fleet::{Fleet, Phase};
use crate::node::NONE;

/// A session that is resumed ahead of its next request.
pub(crate) struct Ahead {
    session: u32,
    node: u32,
    stage: Stage,
}

enum Stage {
    Fetch,
    Compute,
    Hold,
}

impl Fleet {
    /// Applies the failure, or its detection by the router, if either is due at `now`. Returns `true` if either was
    /// due; the caller's event, owned by `who`, has then been rescheduled.
    pub(crate) fn fail_if_due(&mut self, now: f64, who: u32) -> bool {
        let Some(failure) = self.config.failure else { return false };
        if now >= failure.at_s && self.nodes[0].alive {
            self.wheel.set(who, now);
            self.fail(failure);
            return true;
        }
        if now >= failure.at_s + failure.noticed_s && self.router.believed[0] {
            self.wheel.set(who, now);
            self.router.forget(|node| node % failure.zones == 0);
            self.notice(now, failure);
            return true;
        }
        false
    }

    /// Returns the time at which the router notices the failure.
    pub(crate) fn noticed_s(&self) -> f64 {
        self.config.failure.map_or(0.0, |failure| failure.at_s + failure.noticed_s)
    }

    fn fail(&mut self, failure: Failure) {
        for node in self.nodes.iter_mut().step_by(failure.zones as usize) {
            node.alive = false;
        }
        let again = failure.at_s + failure.noticed_s;
        let mut begun = Vec::new();
        for id in 0..self.config.sessions {
            let (node, warm, phase) = {
                let session = &self.sessions[id as usize];
                (session.node, session.warm, session.phase)
            };
            if node % failure.zones != 0 || !warm {
                continue;
            }
            if phase == Phase::Requested {
                self.account(id, failure.at_s);
                self.save_if_idle(id, failure.at_s);
                self.lost.push(id);
            } else {
                // The execution restarts when the failure is noticed. Its work was not saved.
                let session = &mut self.sessions[id as usize];
                session.phase = Phase::Requested;
                if phase == Phase::Done {
                    session.unsaved -= 1;
                    session.unsaved_s = (session.unsaved_s - session.work_s).max(0.0);
                }
                self.router.executing -= 1;
                self.report.retried += 1;
                begun.push((id, again));
            }
            self.sessions[id as usize].warm = false;
        }
        self.wheel.move_all(&begun);
    }

    /// Schedules the resumption of lost sessions on other nodes, if the configuration requests it.
    fn notice(&mut self, now: f64, failure: Failure) {
        let Some(max_per_s) = failure.resume_all else { return };
        let per_s = max_per_s * self.router.members.len() as f64;
        for (number, session) in std::mem::take(&mut self.lost).into_iter().enumerate() {
            let node = self.router.node(session, NONE, &self.nodes, &mut self.random);
            let who = self.wheel.grow();
            self.ahead.push(Ahead { session, node, stage: Stage::Fetch });
            self.wheel.set(who, now + number as f64 / per_s);
        }
    }

    pub(crate) fn resume_ahead(&mut self, now: f64, who: u32) {
        let Ahead { session, node, ref stage } = self.ahead[(who - self.config.sessions) as usize];
        // A request has already resumed the session.
        if self.sessions[session as usize].warm || self.sessions[session as usize].phase != Phase::Requested {
            return;
        }
        match stage {
            Stage::Fetch => {
                let ready = self.fetch(now, session, node);
                self.ahead_next(who, Stage::Compute, ready);
            }
            Stage::Compute => {
                let work = self.class(session).resume_s + f64::from(self.sessions[session as usize].unsaved_s);
                let computed = self.nodes[node as usize].compute(now, work);
                self.nodes[node as usize].busy_s += work;
                self.ahead_next(who, Stage::Hold, computed);
            }
            Stage::Hold => {
                self.make_room(node, self.class(session).warm_bytes, now);
                self.hold(session, node);
                self.sessions[session as usize].used_s = now;
                self.order.push(&mut self.nodes[node as usize], session);
                self.report.step(now).resumed_ahead += 1;
            }
        }
    }

    fn ahead_next(&mut self, who: u32, stage: Stage, at: f64) {
        self.ahead[(who - self.config.sessions) as usize].stage = stage;
        self.wheel.set(who, at);
    }
}
