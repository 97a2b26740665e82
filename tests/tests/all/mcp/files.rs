//! Tests a session's files over the protocol, as tools and as resources.

use rmcp::model::ResourceContents;
use serde_json::{Value, json};

use super::support::{Mcp, pictures_and_links, structured, text};

fn read(mcp: &Mcp, session: &str, path: &str) -> rmcp::model::CallToolResult {
    mcp.ok("files_read", json!({ "session": session, "path": path }))
}

#[test]
fn a_file_is_written_listed_and_read() {
    let mcp = Mcp::new();
    let session = mcp.session();
    let write = |path: &str, rest: Value| {
        let mut arguments = json!({ "session": session, "path": path });
        arguments.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        arguments
    };
    mcp.ok("files_write", write("data/é.csv", json!({ "text": "a,b\n1,2\n" })));
    mcp.ok("files_write", write("b.bin", json!({ "base64": "AP8A" })));
    assert_eq!(
        text(&mcp.in_session(&session, "print(open('data/é.csv').read(), open('b.bin', 'rb').read())")),
        "a,b\n1,2\n b'\\x00\\xff\\x00'\n"
    );
    let listed = mcp.ok("files_list", json!({ "session": session }));
    assert_eq!(text(&listed), "b.bin (3 bytes)\ndata (directory)\ndata/é.csv (8 bytes)");
    let some = mcp.ok("files_list", json!({ "session": session, "pattern": "**/*.csv" }));
    assert_eq!(structured(&some)["files"], json!([{ "path": "data/é.csv", "kind": "file", "size_bytes": 8 }]));
    let answer = read(&mcp, &session, "data/é.csv");
    assert_eq!((text(&answer), &structured(&answer)["media_type"]), ("a,b\n1,2\n".into(), &json!("text/csv")));
    // The file is available as a resource too.
    let uri = structured(&answer)["uri"].as_str().unwrap();
    let resource = mcp.read(uri).unwrap();
    assert!(
        matches!(&resource.contents[0], ResourceContents::TextResourceContents { text, .. } if text == "a,b\n1,2\n"),
        "{resource:?}"
    );
    let binary = read(&mcp, &session, "b.bin");
    assert!(text(&binary).contains("`b.bin` is not text: application/octet-stream, 3 bytes."), "{binary:?}");
    let resource = mcp.read(&pictures_and_links(&binary).1[0]).unwrap();
    assert!(
        matches!(&resource.contents[0], ResourceContents::BlobResourceContents { blob, .. } if blob == "AP8A"),
        "{resource:?}"
    );
    // Replaces an existing file by default.
    mcp.ok("files_write", write("b.bin", json!({ "text": "new" })));
    let held = mcp.refused("files_write", write("b.bin", json!({ "text": "newer", "replace": false })));
    assert!(held.starts_with("exists: "), "{held}");
    assert_eq!(text(&read(&mcp, &session, "b.bin")), "new");
}

#[test]
fn a_long_file_is_read_in_parts() {
    let mcp = Mcp::new();
    let session = mcp.session();
    mcp.in_session(&session, "open('at', 'w').write('x' * 65536)\nopen('over', 'w').write('é' * 40000)");
    assert!(structured(&read(&mcp, &session, "at")).get("next_offset").is_none());
    let (mut whole, mut offset) = (String::new(), 0);
    for expected in [Some(65_536), None] {
        let part = mcp.ok("files_read", json!({ "session": session, "path": "over", "offset": offset }));
        whole += structured(&part)["text"].as_str().unwrap();
        let next = structured(&part).get("next_offset").and_then(Value::as_u64);
        assert_eq!(next, expected);
        offset = next.unwrap_or_default();
    }
    assert_eq!(whole, "é".repeat(40_000));
    let few = mcp.ok("files_read", json!({ "session": session, "path": "over", "offset": 1, "length": 4 }));
    assert_eq!((&structured(&few)["text"], &structured(&few)["offset"]), (&json!("é"), &json!(2)), "{few:?}");
    let refused = mcp.refused("files_read", json!({ "session": session, "path": "at", "length": 65_537 }));
    assert!(refused.contains("`length` is 65537; it must be between 1 and 65536"), "{refused}");
}

#[test]
fn image_file_is_shown_and_large_file_named() {
    let mcp = Mcp::new();
    let session = mcp.session();
    mcp.in_session(
        &session,
        "png = b'\\x89PNG\\r\\n\\x1a\\n'\nopen('p.png', 'wb').write(png + bytes(70_000))\nopen('at', 'wb').write(bytes(8 << 20))\nopen('over', 'wb').write(bytes((8 << 20) + 1))",
    );
    let picture = read(&mcp, &session, "p.png");
    assert_eq!(pictures_and_links(&picture), (vec!["image/png".to_owned()], vec![]));
    assert!(structured(&picture).get("text").is_none());
    for (path, fits) in [("at", true), ("over", false)] {
        let resource = mcp.read(&format!("glovebox://session/{session}/files/{path}"));
        assert_eq!(resource.is_ok(), fits, "{path}");
        assert!(fits || resource.unwrap_err().contains("the maximum for a resource is 8388608; use files_read"));
    }
}

#[test]
fn invalid_paths_and_addresses_are_errors() {
    let mcp = Mcp::new();
    let session = mcp.session();
    mcp.in_session(&session, "import os\nos.symlink('/etc', 'etc')");
    for path in ["../x", "/etc/passwd", "etc/passwd", "none", "", "a\0b"] {
        let refused = mcp.refused("files_read", json!({ "session": session, "path": path }));
        assert!(!refused.contains("root:"), "{refused}");
        let address = format!("glovebox://session/{session}/files/{}", path.replace('\0', "%00"));
        assert!(mcp.read(&address).is_err(), "{path}");
    }
    for uri in ["file:///etc/passwd", "glovebox://session/none/files/x", "glovebox://x", "", "glovebox://output/x/\n"] {
        let error = mcp.read(uri).unwrap_err();
        assert!(!error.contains('\n'), "{error}");
    }
    // A write to a full workspace fails with a message, and the session remains usable.
    let big = json!({ "session": session, "path": "big", "base64": "A".repeat(8 << 20) });
    let mcp = Mcp::changed(|config| config.policy.limits.workspace_bytes = 1 << 20);
    let session = mcp.session();
    let mut big = big;
    big["session"] = json!(session);
    assert!(mcp.refused("files_write", big).starts_with("file: "));
    assert_eq!(text(&mcp.in_session(&session, "print(1)")), "1\n");
}
