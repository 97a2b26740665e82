//! Saves sessions to the store.

use crate::config::Persistence;
use crate::fleet::{Fleet, Session};

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
