//! Stores by URL: blobs.

mod blobs;
