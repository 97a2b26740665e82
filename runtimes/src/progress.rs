//! How a long operation tells what it does, and is told to stop.

/// Told what a fetch or a preparation is doing; asked whether to go on.
///
/// Called from the thread that started the operation, several times a second at most. Drawing is the
/// caller's business: this crate prints nothing.
pub trait Progress: Sync {
    /// A step began, in words (``fetching `python` 3.12.0``).
    fn message(&self, _text: &str) {}

    /// So many bytes of the step are done; `total_bytes` is 0 where it is not known.
    fn bytes(&self, _done_bytes: u64, _total_bytes: u64) {}

    /// All steps of the operation are over, well or not.
    fn done(&self) {}

    /// Whether to give up. Asked at least every 100 ms; the operation then undoes what it began and
    /// fails with its `Cancelled` error.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Tells nobody, never cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {}
