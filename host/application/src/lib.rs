//! Runs application components that use the sandbox.
