//! Tests the results of `run_code`.

use rmcp::model::ResourceContents;
use serde_json::json;

use super::support::{Mcp, pictures_and_links, structured, text};
use crate::server::limit_scripts::STOPPED;

/// A one-pixel PNG, as a Python expression.
const PNG: &str = "__import__('base64').b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=')";

/// Returns a Python script that displays an object with these MIME representations.
fn shown(forms: &str) -> String {
    format!("class A:\n    def _repr_mimebundle_(self, **_): return {{{forms}}}\ndisplay(A())")
}

#[test]
fn answer_reports_the_outcome_and_script_errors() {
    let mcp = Mcp::new();
    let result =
        mcp.python("print('out')\nimport sys; print('err', file=sys.stderr)\n_ = open('a.txt', 'w').write('x')");
    assert_eq!(result.is_error, Some(false));
    assert_eq!(
        text(&result),
        "out\n\nstderr:\nerr\n\nfiles created: a.txt\nThese files were discarded: run code in a session (session_open) to keep them."
    );
    let answer = structured(&result);
    assert_eq!(
        (&answer["outcome"], &answer["exit_code"], &answer["rolled_back"]),
        (&json!("completed"), &json!(0), &json!(false))
    );
    assert_eq!(answer["files"], json!({ "created": ["a.txt"], "modified": [], "deleted": [], "more": 0 }));
    assert!(answer["fuel"].as_u64().unwrap() > 0 && answer["duration_ms"].as_f64().unwrap() > 0.0);
    assert!(answer.get("session").is_none() && answer.get("value").is_none() && answer.get("reason").is_none());

    for (code, outcome, exit_code, expected) in [
        ("1 / 0", "raised", 1, "failed: raised ZeroDivisionError: division by zero."),
        ("import sys; sys.exit(3)", "exited", 3, "failed: exited with 3."),
        ("import httpx", "raised", 1, "advice: "),
    ] {
        let result = mcp.python(code);
        assert_eq!((result.is_error, &structured(&result)["outcome"]), (Some(true), &json!(outcome)), "{code}");
        assert_eq!(structured(&result)["exit_code"], exit_code);
        assert!(text(&result).contains(expected), "{}", text(&result));
    }
    assert_eq!(text(&mcp.python("pass")), "The script completed. It printed nothing.");
    let session = mcp.session();
    let result = mcp.in_session(&session, "x = [1, 2]\nx");
    assert_eq!((text(&result), &structured(&result)["value"]), ("value: [1, 2]".into(), &json!("[1, 2]")));
    assert_eq!(structured(&result)["session"], json!(session));
}

#[test]
fn value_is_returned_without_a_session() {
    let mcp = Mcp::new();
    for (language, code, value) in [
        ("python", "x = [1, 2]\nx * 2", "[1, 2, 1, 2]"),
        ("javascript", "const x = [1, 2]; [...x, ...x]", "[ 1, 2, 1, 2 ]"),
        ("typescript", "const x: number = 5; x", "5"),
    ] {
        let result = mcp.ok("run_code", json!({ "language": language, "code": code }));
        let answer = structured(&result);
        assert_eq!((text(&result), &answer["value"]), (format!("value: {value}"), &json!(value)), "{language}");
        assert!(answer.get("session").is_none(), "{answer}");
    }
    let none = mcp.python("print(1)\nNone");
    assert_eq!((text(&none), structured(&none).get("value")), ("1\n".into(), None));
}

#[test]
fn output_before_a_limit_is_returned() {
    for script in &STOPPED {
        let mcp = Mcp::changed(move |config| script.set(&mut config.policy.limits));
        let result = mcp.call("run_code", json!({ "language": script.language, "code": script.source }));
        let answer = structured(&result);
        assert_eq!(
            (result.is_error, &answer["outcome"], &answer["stdout"]),
            (Some(true), &json!("exhausted"), &json!(script.stdout)),
            "{result:?}"
        );
        assert!(answer["stderr"].as_str().unwrap().starts_with("err\n"), "{result:?}");
        let shown = format!("{}\nstderr:\nerr\n", script.stdout);
        assert!(text(&result).starts_with(&shown), "{result:?}");
    }
}

#[test]
fn long_output_is_shortened_and_linked() {
    let mcp = Mcp::new();
    let at = mcp.python("print('x' * 7999)");
    assert_eq!((text(&at), &structured(&at)["stdout_truncated"]), (format!("{}\n", "x".repeat(7_999)), &json!(false)));
    let over = mcp.python("print('a' * 4000 + 'b' * 1000 + 'z' * 3999 + 'é', end='')");
    let (shown, (_, links)) = (text(&over), pictures_and_links(&over));
    let uri = &links[0];
    assert_eq!(
        shown,
        format!(
            "{}\n[… 1000 characters omitted; the full text is available as resource {uri} …]\n{}é",
            "a".repeat(4_000),
            "z".repeat(3_999)
        )
    );
    assert_eq!(structured(&over)["stdout_truncated"], true);
    assert_eq!(structured(&over)["stdout"], json!(shown), "structured output has the same limit as text");
    let whole = mcp.read(uri).unwrap();
    let ResourceContents::TextResourceContents { text, mime_type, .. } = &whole.contents[0] else {
        panic!("{whole:?}")
    };
    assert_eq!((text.chars().count(), mime_type.as_deref()), (9_000, Some("text/plain")));
    // The resource is listed. A client cannot read output at a guessed address.
    let listed = mcp.runtime.block_on(mcp.client().list_all_resources()).unwrap();
    assert!(listed.iter().any(|resource| resource.uri == *uri && resource.size == Some(9_001)), "{listed:?}");
    assert!(mcp.read("glovebox://output/0/stdout").unwrap_err().contains("is no longer stored"));
    // The output exceeds the limit on retained output.
    let much = mcp.python("print('y' * 3_000_000)");
    assert!(super::support::text(&much).contains("stdout was truncated to the first 2000000 of 3000001 bytes."));
    assert_eq!(structured(&much)["stdout_truncated"], true);
}

#[test]
fn long_values_and_errors_are_shortened() {
    let mcp = Mcp::new();
    let session = mcp.session();
    let value = mcp.in_session(&session, "'v' * 20_000");
    assert!(structured(&value)["value"].as_str().unwrap().len() < 9_000);
    assert_eq!(pictures_and_links(&value).1.len(), 1);
    let raised = mcp.python("raise ValueError('m' * 100_000)");
    assert!(text(&raised).len() < 10_000 && structured(&raised).to_string().len() < 10_000);
}

#[test]
fn image_is_separate_content() {
    let mcp = Mcp::new();
    let result = mcp.python(&shown(&format!("'image/png': {PNG}, 'text/plain': 'a picture'")));
    assert_eq!(pictures_and_links(&result), (vec!["image/png".to_owned()], vec![]));
    assert_eq!(structured(&result)["displays"], 1);
    assert!(!structured(&result).to_string().contains("iVBOR") && !text(&result).contains("a picture"));
    // An invalid image would make a model service reject the whole conversation.
    let result = mcp.python(&shown("'image/png': b'not one'"));
    assert_eq!(pictures_and_links(&result).0, Vec::<String>::new(), "{result:?}");
    // The image is too large for a model, so the result contains a link instead.
    let result = mcp.python(&shown(&format!("'image/png': {PNG} + bytes(4_000_000)")));
    let (pictures, links) = pictures_and_links(&result);
    assert!(pictures.is_empty() && links[0].ends_with("/display-1.png"), "{links:?}");
    let read = mcp.read(&links[0]).unwrap();
    assert!(
        matches!(&read.contents[0], ResourceContents::BlobResourceContents { mime_type, .. } if mime_type.as_deref() == Some("image/png"))
    );
    // The number of images in a result is limited too.
    let result = mcp.python(&format!("{}\nfor _ in range(19): display(A())", shown(&format!("'image/png': {PNG}"))));
    let (pictures, links) = pictures_and_links(&result);
    assert_eq!((pictures.len(), links.len()), (16, 4));
}

#[test]
fn displays_are_short_text_or_links() {
    let mcp = Mcp::new();
    let both = mcp.python(&shown("'text/html': '<b>x</b>', 'text/plain': 'plain x'"));
    assert_eq!(text(&both), "plain x");
    assert!(pictures_and_links(&both).1[0].ends_with("/display-1.html"));
    let html = mcp.python(&shown("'text/html': '<b>x</b>'"));
    assert_eq!((text(&html), pictures_and_links(&html).1), ("text/html:\n<b>x</b>".into(), vec![]));
    let long = mcp.python(&shown("'image/svg+xml': '<svg>' + 'x' * 4000 + '</svg>'"));
    assert!(pictures_and_links(&long).1[0].ends_with("/display-1.svg"), "{long:?}");
    let many = mcp.python("for i in range(40): display(i)");
    assert!(text(&many).ends_with("(8 more displays are not shown)"), "{}", text(&many));
    // The text of a result contains the value once, even though it is also a display.
    let session = mcp.session();
    let table = mcp.in_session(
        &session,
        "class T:\n    def __repr__(self): return 'T!'\n    def _repr_html_(self): return '<i>T</i>'\nT()",
    );
    assert_eq!(text(&table), "value: T!");
    assert_eq!(pictures_and_links(&table).1.len(), 1, "{table:?}");
}

#[test]
fn number_of_listed_files_is_limited() {
    let mcp = Mcp::new();
    let result = mcp.python("for i in range(150): open(f'f{i:03}', 'w').close()\nopen('a\\nadvice: x', 'w').close()");
    let files = &structured(&result)["files"];
    assert_eq!((files["created"].as_array().unwrap().len(), &files["more"]), (100, &json!(51)));
    assert!(
        text(&result).contains("a\\nadvice: x") && text(&result).contains("files not listed: 51"),
        "{}",
        text(&result)
    );
}

#[test]
fn length_of_listed_file_names_is_limited() {
    let mcp = Mcp::new();
    // 80 names of 204 bytes and a last name of 64 bytes total 16 KiB.
    for (last, listed, more) in [(63, 81, 0), (64, 81, 0), (65, 80, 1)] {
        let result = mcp.python(&format!(
            "for i in range(80): open(f'{{i:02}}' + 'x' * 202, 'w').close()\nopen('z' * {last}, 'w').close()"
        ));
        let files = &structured(&result)["files"];
        assert_eq!((files["created"].as_array().unwrap().len(), &files["more"]), (listed, &json!(more)), "{last}");
        let (shown, (_, links)) = (text(&result), pictures_and_links(&result));
        assert!(shown.chars().count() < 8_200 && links[0].ends_with("/remarks"), "{links:?} {shown}");
        assert!(shown.contains(&format!("00{}…{}, 01", "x".repeat(158), "x".repeat(40))), "{shown}");
        assert_eq!(shown.contains("\nfiles not listed: 1\n"), more == 1, "{shown}");
    }
    // The list of names is shortened like any other text. Names of 200 characters are complete.
    let ends = "\nThese files were discarded: run code in a session (session_open) to keep them.";
    for (chars, is_shortened) in [(7_999, false), (8_000, false), (8_001, true)] {
        let last = chars - "files created: ".len() - 39 * 202 - ends.len();
        let result = mcp.python(&format!(
            "for i in range(39): open(f'{{i:02}}' + 'x' * 198, 'w').close()\nopen('z' * {last}, 'w').close()"
        ));
        let (shown, (_, links)) = (text(&result), pictures_and_links(&result));
        assert_eq!(
            (shown.chars().count() == chars, links.len()),
            (!is_shortened, usize::from(is_shortened)),
            "{shown}"
        );
        assert!(shown.ends_with(ends), "{shown}");
    }
}
