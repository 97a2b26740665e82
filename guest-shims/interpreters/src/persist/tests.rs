use super::*;

fn file(bytes: &[u8]) -> Result<Lying, Errno> {
    Ok(Lying::File(bytes.to_vec()))
}

fn state(bytes_most: u64, globals: &[(&str, Kept)]) -> State {
    let mut state = State::new(bytes_most);
    for (name, kept) in globals {
        state.add((*name).to_owned(), kept.clone());
    }
    state
}

fn json(text: &str) -> Kept {
    Kept::Json(text.to_owned())
}

#[test]
fn only_a_json_object_is_taken() {
    for text in ["{}", " {\"a\":1}\n", "{\"__proto__\":{}}", "{\"a\":\"\\ud800\"}"] {
        assert_eq!(text_of(&file(text.as_bytes()), 100), Ok(Some(text)));
    }
    for (bytes, wrong) in [
        (b"".as_slice(), "is no JSON"),
        (b"{", "is no JSON"),
        (b"{}x", "is no JSON"),
        (b"{\"a\":NaN}", "is no JSON"),
        (b"{\"a\":\"\xff\"}", "is no JSON"),
        (b"[]", "is no JSON object"),
        (b"null", "is no JSON object"),
    ] {
        assert_eq!(text_of(&file(bytes), 100), Err(wrong.to_owned()), "{bytes:?}");
    }
    assert_eq!(text_of(&Ok(Lying::Nothing), 100), Ok(None));
    for (found, wrong) in [
        (Ok(Lying::Directory), "is a directory"),
        (Ok(Lying::Link), "is a link"),
        (Ok(Lying::TooLong), "has more than 100 bytes, which is `limits.persisted_bytes`"),
        (Err(Errno::Io), "cannot be read"),
    ] {
        assert_eq!(text_of(&found, 100), Err(wrong.to_owned()));
    }
}

#[test]
fn a_file_is_one_level_deeper_than_its_values_and_brackets_in_strings_are_none() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(text_of(&file(nested(DEPTH_MOST).as_bytes()), 1_000).is_ok());
    assert!(text_of(&file(nested(DEPTH_MOST + 1).as_bytes()), 1_000).is_err());
    let quoted = format!("{{\"a\\\"{}\":[]}}", "[".repeat(1_000));
    assert_eq!(text_of(&file(quoted.as_bytes()), 2_000), Ok(Some(quoted.as_str())));
    // Neither the nesting nor the length of what is hostile makes this deep.
    assert!(is_too_deep(&"[".repeat(10 << 20)));
}

#[test]
fn globals_are_written_by_name_and_counted_to_the_byte() {
    let globals = [("b", json("[1]")), ("é\"", json("2")), ("a", Kept::Left), ("_state", json("{}"))];
    let text = "{\"_state\":{},\"b\":[1],\"é\\\"\":2}";
    let bytes = u64::try_from(text.len()).unwrap();
    for (most, fits) in [(bytes + 1, true), (bytes, true), (bytes - 1, false)] {
        let state = state(most, &globals);
        assert_eq!(state.bytes, bytes);
        assert_eq!(state.too_large(), (!fits).then_some("b"), "{most}");
        if fits {
            assert_eq!(state.text(), text);
        }
    }
    assert_eq!(state(2, &[]).text(), "{}");
}

#[test]
fn what_is_too_long_by_itself_is_the_largest() {
    let globals = [("a", json("[1,2,3]")), ("b", Kept::TooLong), ("c", json("[1,2,3,4]"))];
    assert_eq!(state(1_000, &globals).too_large(), Some("b"));
    // Nothing that is not written any more is held.
    assert!(state(1_000, &globals).texts.len() < 2);
}

#[test]
fn there_is_no_state_where_only_an_empty_one_is() {
    assert!(state(100, &[]).is_empty());
    assert!(state(100, &[("_state", json("{}"))]).is_empty());
    assert!(!state(100, &[("_state", json("{\"a\":1}"))]).is_empty());
    assert!(!state(100, &[("a", json("{}"))]).is_empty());
}

#[test]
fn a_guests_words_stay_within_their_line() {
    assert_eq!(Shown("a\nb\u{1b}[31m\u{2028}é\r\0").to_string(), "a b [31m é  ");
    assert_eq!(Shown(&"é".repeat(1_000)).to_string().chars().count(), SHOWN_CHARS);
}
