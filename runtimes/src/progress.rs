//! Progress reports and cancellation of long operations.

/// Receives the progress of a fetch or a preparation, and can cancel it.
///
/// Called from the thread that started the operation, at most several times a second. The crate prints nothing itself.
pub trait Progress: Sync {
    /// A step began, described in words (``fetching `python` 3.12.0``).
    fn message(&self, _text: &str) {}

    /// The number of bytes of the step that are done; `total_bytes` is 0 if it is unknown.
    fn bytes(&self, _done_bytes: u64, _total_bytes: u64) {}

    /// All steps of the operation are over, whether it succeeded or not.
    fn done(&self) {}

    /// Whether to cancel. Called at least every 100 ms; the operation then undoes what it began and fails with its
    /// `Cancelled` error.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Ignores all reports and never cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {}
