//! Outputs that were too long to show a model, stored for a while.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::model::Resource;

use crate::ServiceError;

/// How many outputs are stored. A model looks at the last few; the oldest goes for a new one.
const MAX_COUNT: usize = 64;

/// How many bytes they may take together: the default limits let one execution write 3 MB and show 8 MiB.
const MAX_BYTES: usize = 16 << 20;

/// What was stored of an execution.
#[derive(Clone, Debug)]
pub(super) struct StoredOutput {
    /// Its address.
    pub(super) uri: String,
    /// What it is, such as `stdout`.
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) bytes: Arc<[u8]>,
}

impl StoredOutput {
    /// As it is listed and linked to.
    pub(super) fn resource(&self) -> Resource {
        Resource::new(&self.uri, &self.name)
            .with_mime_type(&self.media_type)
            .with_size(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }
}

/// The last outputs, bounded in number and in bytes. The oldest make room for new ones.
#[derive(Debug, Default)]
pub(super) struct Outputs(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    held: VecDeque<StoredOutput>,
    bytes: usize,
}

/// The address of one execution's outputs: not to be guessed, so that a link is what gives access.
#[derive(Debug)]
pub(super) struct OutputId(String);

impl OutputId {
    pub(super) fn random() -> Result<Self, ServiceError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| ServiceError::Invalid(format!("no random numbers: {error}")))?;
        Ok(Self(format!("{:032x}", u128::from_le_bytes(random))))
    }

    /// The address of one of them.
    pub(super) fn uri(&self, name: &str) -> String {
        format!("glovebox://output/{}/{name}", self.0)
    }
}

impl Outputs {
    /// Stores an output. False if it alone is larger than all that may be stored.
    pub(super) fn keep(&self, held: StoredOutput) -> bool {
        let size = held.bytes.len();
        if size > MAX_BYTES {
            return false;
        }
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while ring.held.len() >= MAX_COUNT || ring.bytes + size > MAX_BYTES {
            let Some(oldest) = ring.held.pop_front() else { break };
            ring.bytes -= oldest.bytes.len();
        }
        ring.bytes += size;
        ring.held.push_back(held);
        true
    }

    /// The output with this address, if it is still stored.
    pub(super) fn get(&self, uri: &str) -> Option<StoredOutput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).held.iter().find(|held| held.uri == uri).cloned()
    }

    /// All of them, the oldest first.
    pub(super) fn list(&self) -> Vec<Resource> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).held.iter().map(StoredOutput::resource).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(name: &str, size: usize) -> StoredOutput {
        StoredOutput {
            uri: name.into(),
            name: name.into(),
            media_type: "text/plain".into(),
            bytes: vec![b'x'; size].into(),
        }
    }

    fn names(outputs: &Outputs) -> Vec<String> {
        outputs.list().into_iter().map(|resource| resource.name).collect()
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let outputs = Outputs::default();
        for index in 0..MAX_COUNT {
            assert!(outputs.keep(held(&index.to_string(), 1)));
        }
        assert!(outputs.get("0").is_some(), "at the limit all of them are there");
        assert!(outputs.keep(held("one more", 1)));
        assert!(outputs.get("0").is_none() && outputs.get("1").is_some() && outputs.get("one more").is_some());
        assert_eq!(names(&outputs).len(), MAX_COUNT);
    }

    #[test]
    fn the_oldest_go_when_they_take_too_much() {
        let outputs = Outputs::default();
        assert!(outputs.keep(held("a", MAX_BYTES / 2)) && outputs.keep(held("b", MAX_BYTES / 2)));
        assert_eq!(names(&outputs), ["a", "b"], "at the limit");
        assert!(outputs.keep(held("c", 1)));
        assert_eq!(names(&outputs), ["b", "c"]);
        assert!(outputs.keep(held("d", MAX_BYTES)));
        assert_eq!(names(&outputs), ["d"]);
        assert!(!outputs.keep(held("e", MAX_BYTES + 1)), "it would never fit");
        assert_eq!(names(&outputs), ["d"], "and takes the place of nothing");
        assert!(outputs.keep(held("f", 1)));
        assert_eq!(names(&outputs), ["f"]);
    }
}
