//! Progress reports and cancellation of long operations.

/// Receives the progress of a download or preparation, and can cancel it.
///
/// All methods are called from the thread that started the operation, at most several times a second. The crate itself
/// prints nothing.
pub trait Progress: Sync {
    /// A step began. The text describes it (``fetching `python` 3.12.0``).
    fn message(&self, _text: &str) {}

    /// Reports the completed bytes of the step. `total_bytes` is 0 if it is unknown.
    fn bytes(&self, _done_bytes: u64, _total_bytes: u64) {}

    /// The operation ended, successfully or not.
    fn done(&self) {}

    /// Returns `true` to cancel the operation. It then undoes what it began and fails with its `Cancelled` error.
    /// Called at least every 100 ms.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Ignores all reports and never cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {}
