//! A session as bytes: to be stored in a file and continued in another process or on another machine. The format is
//! [`glovebox_core::hibernate`]'s.

mod error;
mod session;
mod zstandard;

pub use error::{HibernateError, ResumeError};
pub use glovebox_core::hibernate::{HibernatedInfo, KeyError, SessionKey};
pub use session::{HibernateOptions, ResumeOptions};
