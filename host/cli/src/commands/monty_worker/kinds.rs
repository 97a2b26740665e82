//! Field numbers of the kinds of messages in the protocol.

/// Requests of the client.
pub(super) mod request {
    pub(in super::super) const CONFIGURE: u64 = 1;
    pub(in super::super) const FEED: u64 = 3;
    pub(in super::super) const RESUME_CALL: u64 = 4;
    pub(in super::super) const RESUME_FUTURES: u64 = 6;
    pub(in super::super) const DUMP: u64 = 7;
    pub(in super::super) const LOAD: u64 = 8;
    pub(in super::super) const RESET: u64 = 9;
    pub(in super::super) const SHUTDOWN: u64 = 10;
    pub(in super::super) const ABORT_FEED: u64 = 11;
}

/// Events of the worker.
pub(super) mod event {
    pub(in super::super) const PRINT: u64 = 1;
    pub(in super::super) const FUNCTION_CALL: u64 = 2;
    #[cfg(feature = "full")]
    pub(in super::super) const OS_CALL: u64 = 3;
    pub(in super::super) const COMPLETE: u64 = 6;
    pub(in super::super) const ERROR: u64 = 7;
    #[cfg(feature = "full")]
    pub(in super::super) const TYPING_ERROR: u64 = 8;
    pub(in super::super) const DUMP_RESULT: u64 = 9;
    pub(in super::super) const OK: u64 = 10;
    pub(in super::super) const FATAL_ERROR: u64 = 11;
}
