//! Golden files: expected numbers, committed to the repository.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

/// Numbers by name, read from `goldens/<file>`. `BLESS=1` writes them instead.
#[derive(Debug)]
pub struct Goldens {
    path: PathBuf,
    held: BTreeMap<String, u64>,
    seen: BTreeMap<String, u64>,
}

impl Goldens {
    /// Opens a golden file; a missing file is treated as empty.
    pub fn open(file: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens").join(file);
        let held = match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).expect("the goldens are TOML"),
            Err(_) => BTreeMap::new(),
        };
        Self { path, held, seen: BTreeMap::new() }
    }

    /// Returns `true` if this run writes the golden files instead of checking them.
    pub fn blessing() -> bool {
        env::var_os("BLESS").is_some_and(|value| value == "1")
    }

    /// Records a measured number.
    pub fn see(&mut self, name: &str, figure: u64) {
        self.seen.insert(name.to_owned(), figure);
    }

    /// Compares all recorded numbers with the file, or writes them. `tolerance` is a fraction of the stored number.
    ///
    /// Returns a line for each number that differs, is missing, or is no longer measured.
    pub fn finish(self, heading: &str, tolerance: f64) -> Vec<String> {
        if Self::blessing() {
            let body = toml::to_string(&self.seen).expect("figures are TOML");
            fs::write(&self.path, format!("{heading}\n{body}")).expect("the goldens can be written");
            return Vec::new();
        }
        let mut wrong = Vec::new();
        for (name, seen) in &self.seen {
            match self.held.get(name) {
                None => wrong.push(format!("{name} has no golden (measured {seen}); run with BLESS=1")),
                #[allow(clippy::cast_precision_loss, reason = "a ratio in a test's report")]
                Some(held) => {
                    let off = (*seen as f64 - *held as f64) / *held as f64;
                    if off.abs() > tolerance {
                        wrong.push(format!("{name}: {seen} is {:+.2} % off its golden {held}", off * 100.0));
                    }
                }
            }
        }
        for name in self.held.keys().filter(|name| !self.seen.contains_key(*name)) {
            wrong.push(format!("{name}: the golden is no longer measured; run with BLESS=1"));
        }
        wrong
    }
}

/// Compares a generated file with the committed file, or writes it.
///
/// # Panics
/// Panics if the file differs.
pub fn hold_file(file: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    if Goldens::blessing() {
        fs::write(&path, made).expect("the file can be written");
    }
    let held = fs::read_to_string(&path).unwrap_or_default();
    assert!(held == made, "{file} is out of date; run with BLESS=1");
}
