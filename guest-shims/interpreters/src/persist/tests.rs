use super::*;

fn file(bytes: &[u8]) -> Result<FileAt, Errno> {
    Ok(FileAt::File(bytes.to_vec()))
}

/// Returns the globals to store, and the names of the omitted ones.
fn state(max_bytes: u64, globals: &[(&str, &str)]) -> (StoredGlobals, Vec<String>) {
    let mut state = StoredGlobals::new(max_bytes);
    let left_out = globals.iter().flat_map(|(name, text)| state.add((*name).to_owned(), (*text).to_owned())).collect();
    (state, left_out)
}

#[test]
fn saved_globals_must_be_a_json_object() {
    for text in ["{}", " {\"a\":1}\n", "{\"__proto__\":{}}", "{\"a\":\"\\ud800\"}"] {
        assert_eq!(text_of(&file(text.as_bytes()), 100), Ok(Some(text)));
    }
    for (bytes, wrong) in [
        (b"".as_slice(), "is not JSON"),
        (b"{", "is not JSON"),
        (b"{}x", "is not JSON"),
        (b"{\"a\":NaN}", "is not JSON"),
        (b"{\"a\":\"\xff\"}", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b"null", "is not a JSON object"),
    ] {
        assert_eq!(text_of(&file(bytes), 100), Err(wrong.to_owned()), "{bytes:?}");
    }
    assert_eq!(text_of(&Ok(FileAt::Nothing), 100), Ok(None));
    for (found, wrong) in [
        (Ok(FileAt::Directory), "is a directory"),
        (Ok(FileAt::Link), "is a symbolic link"),
        (Ok(FileAt::TooLong), "exceeds the 100 bytes of `limits.persisted_bytes`"),
        (Err(Errno::Io), "cannot be read"),
    ] {
        assert_eq!(text_of(&found, 100), Err(wrong.to_owned()));
    }
}

#[test]
fn globals_nesting_ignores_brackets_in_strings() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(text_of(&file(nested(MAX_DEPTH).as_bytes()), 1_000).is_ok());
    assert!(text_of(&file(nested(MAX_DEPTH + 1).as_bytes()), 1_000).is_err());
    let quoted = format!("{{\"a\\\"{}\":[]}}", "[".repeat(1_000));
    assert_eq!(text_of(&file(quoted.as_bytes()), 2_000), Ok(Some(quoted.as_str())));
    // Neither the nesting nor the length of hostile text causes recursion.
    assert!(is_too_deep(&"[".repeat(10 << 20)));
}

#[test]
fn globals_are_sorted_and_sized_exactly() {
    let globals = [("b", "[1, 2, 3]"), ("é\"", "2"), ("_state", "{}")];
    let text = "{\"_state\":{},\"b\":[1, 2, 3],\"é\\\"\":2}";
    let bytes = u64::try_from(text.len()).unwrap();
    for (max, fits) in [(bytes + 1, true), (bytes, true), (bytes - 1, false)] {
        let (state, left_out) = state(max, &globals);
        assert_eq!(state.text(), if fits { text } else { "{\"_state\":{},\"é\\\"\":2}" });
        assert_eq!(state.bytes, length(&state.text()));
        assert_eq!(left_out, if fits { vec![] } else { vec!["b"] }, "{max}");
    }
    assert_eq!(state(2, &[]).0.text(), "{}");
}

#[test]
fn largest_globals_are_left_out_first() {
    let sizes = [3, 40, 7, 7, 1, 90, 12];
    let texts: Vec<String> = sizes.iter().map(|size| "1".repeat(*size)).collect();
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    for max in 2..220 {
        // Omit the largest globals until the remaining ones fit.
        let mut fitting: Vec<(usize, &str)> = sizes.into_iter().zip(names).collect();
        fitting.sort_unstable();
        while fitting.iter().map(|(size, _)| size + 5).sum::<usize>() > max - 1 && fitting.pop().is_some() {}
        for first in 0..names.len() {
            let order = (first..names.len()).chain(0..first);
            let globals: Vec<_> = order.map(|at| (names[at], texts[at].as_str())).collect();
            let max = u64::try_from(max).unwrap();
            let (state, left_out) = state(max, &globals);
            assert_eq!(state.texts.len() + left_out.len(), names.len());
            assert!(state.texts.keys().all(|name| !left_out.contains(name)));
            assert!(length(&state.text()) <= max && state.texts.len() == state.sizes.len(), "{max}");
            assert_eq!(state.texts.len(), fitting.len(), "{max} {globals:?}");
            assert!(fitting.iter().all(|(_, name)| state.texts.contains_key(*name)), "{max} {globals:?}");
        }
    }
}

#[test]
fn empty_globals_count_as_no_state() {
    assert!(state(100, &[]).0.is_empty());
    assert!(state(100, &[("_state", "{}")]).0.is_empty());
    assert!(!state(100, &[("_state", "{\"a\":1}")]).0.is_empty());
    assert!(!state(100, &[("a", "{}")]).0.is_empty());
}

#[test]
fn guest_text_stays_on_one_line() {
    assert_eq!(ShortText("a\nb\u{1b}[31m\u{2028}é\r\0").to_string(), r"a\nb\u{1b}[31m\u{2028}é\r\u{0}");
    assert_eq!(ShortText(&"é".repeat(1_000)).to_string().chars().count(), SHOWN_CHARS);
}
