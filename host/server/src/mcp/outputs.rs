//! Temporary storage of outputs that are too long to show to a model.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::model::Resource;

use crate::ServiceError;

/// Maximum number of stored outputs. A model reads the last few, so the oldest is evicted first.
const MAX_COUNT: usize = 64;

/// Maximum size of all stored outputs, in bytes. With the default limits, one execution may write 3 MB and display 8
/// MiB.
const MAX_BYTES: usize = 16 << 20;

/// A stored output of an execution.
#[derive(Clone, Debug)]
pub(super) struct StoredOutput {
    /// The URI of the resource.
    pub(super) uri: String,
    /// The kind of output, such as `stdout`.
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) bytes: Arc<[u8]>,
}

impl StoredOutput {
    /// The resource as listed and linked.
    pub(super) fn resource(&self) -> Resource {
        Resource::new(&self.uri, &self.name)
            .with_mime_type(&self.media_type)
            .with_size(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }
}

/// The most recent outputs, limited in number and bytes. The oldest are evicted first.
#[derive(Debug, Default)]
pub(super) struct Outputs(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    held: VecDeque<StoredOutput>,
    bytes: usize,
}

/// The random part of the URIs of one execution's outputs. It cannot be guessed, so only a link gives access.
#[derive(Debug)]
pub(super) struct OutputId(String);

impl OutputId {
    pub(super) fn random() -> Result<Self, ServiceError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| ServiceError::Invalid(format!("no random numbers: {error}")))?;
        Ok(Self(format!("{:032x}", u128::from_le_bytes(random))))
    }

    /// The URI of the output `name`.
    pub(super) fn uri(&self, name: &str) -> String {
        format!("glovebox://output/{}/{name}", self.0)
    }
}

impl Outputs {
    /// Stores an output. Returns `false` if it exceeds the total limit on its own.
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

    /// Returns the output with this URI, if it is still stored.
    pub(super) fn get(&self, uri: &str) -> Option<StoredOutput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).held.iter().find(|held| held.uri == uri).cloned()
    }

    /// Lists all outputs, the oldest first.
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
