//! Compares patterns with `globset`, and bounds the number of matching steps.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::{MAX_PATTERN_BYTES, Matcher};
use crate::files::pattern;

fn ours(pattern: &str) -> Result<Matcher, String> {
    pattern::parse(pattern).map(Matcher::new)
}

fn globset(pattern: &str) -> Result<GlobSet, globset::Error> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build()?;
    GlobSetBuilder::new().add(glob).build()
}

/// The numbers of compared patterns and paths.
#[derive(Debug, Default)]
struct ComparisonCounts {
    patterns: usize,
    refused: usize,
    matches: usize,
    others: usize,
}

impl ComparisonCounts {
    fn pattern(&mut self, pattern: &str, paths: &[String]) {
        // `globset` drops the brace of `\{**`: at `**` it checks the previous character, even if that character is
        // escaped.
        if pattern.contains("\\{**") || pattern.contains("\\,**") {
            return;
        }
        self.patterns += 1;
        let (ours, theirs) = match (ours(pattern), globset(pattern)) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (Err(_), Err(_)) => return self.refused += 1,
            (ours, theirs) => panic!("{pattern:?}: {:?}, but {:?}", ours.err(), theirs.err()),
        };
        // In `globset`, a `?` or a class matches one byte.
        let bytes = pattern.contains(['?', '[']);
        for path in paths.iter().filter(|path| path.is_ascii() || !bytes) {
            let is_match = ours.run(path).0;
            assert_eq!(is_match, theirs.is_match(path), "{pattern:?} on {path:?}");
            *(if is_match { &mut self.matches } else { &mut self.others }) += 1;
        }
    }
}

/// Returns all paths with at most three of these names as components, and some paths that no file can have.
fn paths(names: &[&str]) -> Vec<String> {
    let mut paths: Vec<String> =
        ["", "/", "/a", "a/", "a//b", "//", "{", "a{b", "a,b", "*", "a\nb", "-", "!"].map(str::to_owned).into();
    for one in names {
        paths.push((*one).to_owned());
        for two in names {
            paths.push(format!("{one}/{two}"));
            paths.extend(names.iter().map(|three| format!("{one}/{two}/{three}")));
        }
    }
    paths
}

#[test]
fn short_patterns_agree_with_globset() {
    let paths = paths(&["a", "b", "aa", "ab"]);
    for (before, characters, max, behind) in [
        ("", "a*/", 8, ""),
        ("", "a*/{,}", 5, ""),
        ("{", "a*/,}{", 5, "}"),
        ("a/{", "*/,", 6, "}/a"),
        ("", "[]!-ab", 5, ""),
        ("[", "]^-/ab\\", 5, "]"),
        ("", "a/?*\\", 5, ""),
    ] {
        let mut compared = ComparisonCounts::default();
        let mut patterns = vec![String::new()];
        for _ in 0..=max {
            patterns.iter().for_each(|pattern| compared.pattern(&format!("{before}{pattern}{behind}"), &paths));
            patterns = patterns.iter().flat_map(|p| characters.chars().map(move |c| format!("{p}{c}"))).collect();
        }
        println!("{before}{characters}{behind}: {compared:?}");
        assert!(compared.patterns > 1_000 && compared.matches > 500, "{compared:?}");
    }
}

#[test]
fn long_patterns_agree_with_globset() {
    const PIECES: [&str; 38] = [
        "a", "b", "a", "b", ".", "/", "/", "é", "*", "*", "**", "**/", "/**", "/**/", "?", "{", "{", "{", ",", ",",
        "}", "}", "}", "[a]", "[!a]", "[a-b]", "[^b/]", "[/.]", "[]-]", "[b-a]", "[a-", "]", "\\*", "\\/", "\\{", "\\",
        "-", "!",
    ];
    let paths = paths(&["a", "b", "ab", ".a", "a.b", "é"]);
    let mut compared = ComparisonCounts::default();
    for seed in 1..=60_000_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |max: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap() % max
        };
        let mut pattern: String = (0..=below(10)).map(|_| PIECES[below(PIECES.len())]).collect();
        // Add the missing braces. Most patterns would otherwise be rejected.
        let count = |c| pattern.matches(c).count();
        let (opened, closed) = (count('{'), count('}'));
        pattern = "{".repeat(closed.saturating_sub(opened)) + &pattern + &"}".repeat(opened.saturating_sub(closed));
        compared.pattern(&pattern, &paths);
    }
    println!("{compared:?}");
    assert!(compared.patterns > 50_000 && compared.refused < 30_000 && compared.matches > 100_000, "{compared:?}");
}

#[test]
fn wildcards_match_characters_and_escapes_are_literal() {
    for (pattern, path, expected) in [
        ("?", "é", true),
        ("??", "é", false),
        ("[é]", "é", true),
        ("[à-ü]x", "éx", true),
        ("[!a]", "é", true),
        ("[!é]", "é", false),
        ("{a\\{**,b}", "a{cc", true),
        ("{a\\{**,b}", "a{c/c", false),
        ("{a\\{**,b}", "a/c", false),
        ("\\[a\\]\\*\\\\", "[a]*\\", true),
    ] {
        assert_eq!(ours(pattern).unwrap().run(path).0, expected, "{pattern} on {path}");
    }
}

#[test]
fn pattern_error_suggests_a_correction() {
    for (pattern, says) in [
        ("a[b", "write `\\[`"),
        ("{a", "write `\\{`"),
        ("a}", "write `\\}`"),
        ("a\\", "write `\\\\`"),
        ("[z-a]", "write `a-z`"),
        (&*"{".repeat(33), "32 levels"),
    ] {
        let reason = ours(pattern).err().unwrap();
        assert!(reason.contains(says), "{pattern}: {reason}");
    }
}

/// Repeats `piece` between `before` and `behind` up to the maximum pattern length.
fn longest(before: &str, piece: &str, behind: &str) -> String {
    let count = (MAX_PATTERN_BYTES - before.len() - behind.len()) / piece.len();
    before.to_owned() + &piece.repeat(count) + behind
}

#[test]
fn matching_takes_at_most_path_times_pattern_steps() {
    let nested = "{".repeat(32);
    let nested_end = ",}".repeat(32);
    let patterns = [
        longest("", "{a,b}", ""),
        longest("", "{*a,a*}", ""),
        longest("", "{*,a}", ""),
        longest("", "{,a}", ""),
        longest("", "{**/,}", ""),
        longest("", "*a", ""),
        longest("", "*?", ""),
        longest("", "*", "b"),
        longest("", "**/", ""),
        longest("", "**/a/", ""),
        longest("", "**/*a", "b"),
        longest("", "/**/a", "/b"),
        longest("", "[!b]", ""),
        longest("*[", "b", "]*b"),
        longest("{", "*,", "b}"),
        longest(&nested, "*a,", &nested_end),
        longest("{a,", "**/*a,", "b}"),
    ];
    let paths = ["a".repeat(255), "a".repeat(4_096), "a/".repeat(2_048), "é".repeat(2_048), "a".repeat(4_095) + "b"];
    for pattern in &patterns {
        let matcher = ours(pattern).unwrap();
        for path in &paths {
            let (_, steps) = matcher.run(path);
            let max = 2 * (pattern.len() + 1) * (path.chars().count() + 1);
            assert!(steps <= max, "{}: {steps} steps of {max}", &pattern[..20]);
        }
    }
    // Matching stops when no state is left.
    assert!(ours(&longest("", "a", "")).unwrap().run(&"b".repeat(4_096)).1 < 10);
}
