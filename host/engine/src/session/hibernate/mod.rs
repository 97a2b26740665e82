//! Sessions as bytes, to store in a file and resume in another process or on another machine.
//! [`glovebox_core::hibernate`] defines the format.

mod error;
mod session;
mod zstandard;

pub use error::{HibernateError, ResumeError};
pub use glovebox_core::hibernate::{HibernatedInfo, KeyError, SessionKey};
pub use session::{HibernateOptions, HibernatedSession, ResumeOptions};
