//! Tests of every call in WASI preview 1, its limits, and hostile arguments, on a host whose memory is a vector.

#[cfg(test)]
mod descriptors;
#[cfg(test)]
mod devices;
mod embedding;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod mounts;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod reading_and_writing;
#[cfg(test)]
mod saving;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod world;
