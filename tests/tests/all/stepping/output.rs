//! Tests output during and after the execution.

use std::time::Duration;

use glovebox::{Request, Step, Stream};

use super::{BOTH, answer, done, needs, of, start, stepped, text};

#[test]
fn output_is_readable_during_and_after_the_run() {
    let scripts = (
        "
import sys
print('one', flush=True)
print('err', file=sys.stderr, flush=True)
tools.ask(q=1)
print('two')",
        "console.log('one'); console.error('err'); await tools.ask({q: 1}); console.log('two')",
    );
    for language in BOTH {
        let started = start(&stepped(language, &[], |_| {}), of(language, scripts.0, scripts.1));
        let requests = needs(&started, Vec::new());
        let read = |stream, offset, len| String::from_utf8(started.read_output(stream, offset, len)).unwrap();
        assert_eq!((read(Stream::Stdout, 0, 100), read(Stream::Stderr, 0, 100)), ("one\n".into(), "err\n".into()));
        assert_eq!((read(Stream::Stdout, 1, 2), read(Stream::Stdout, 4, 1)), ("ne".into(), String::new()));
        let execution = done(&started, vec![answer(&requests[0], 1)]);
        assert_eq!((read(Stream::Stdout, 0, 100), read(Stream::Stderr, 1, 2)), ("one\ntwo\n".into(), "rr".into()));
        assert_eq!(text(&execution), "one\ntwo\n");
    }
}

#[test]
fn output_over_the_limit_is_not_readable() {
    for language in BOTH {
        for (max, held) in [(9, 9), (10, 10), (11, 10)] {
            let sandbox = stepped(language, &[], |policy| policy.limits.stdout_bytes = max);
            let source = of(
                language,
                "import sys; sys.stdout.write('0123456789'); sys.stdout.flush(); tools.ask(q=1)",
                "std.out.puts('0123456789'); std.out.flush(); await tools.ask({q: 1})",
            );
            let started = start(&sandbox, source);
            let requests = needs(&started, Vec::new());
            assert_eq!(started.read_output(Stream::Stdout, 0, 100).len(), held);
            done(&started, vec![answer(&requests[0], 1)]);
            assert_eq!(started.read_output(Stream::Stdout, 0, 100), &b"0123456789"[..held]);
            assert!(started.read_output(Stream::Stdout, u64::MAX, u64::MAX).is_empty());
        }
    }
}

#[test]
fn listener_receives_output_of_a_started_execution() {
    let sandbox = stepped(glovebox::Language::Python, &[], |_| {});
    let (sender, receiver) = std::sync::mpsc::channel();
    let request = Request::new("print('on', flush=True)\nwhile True: pass")
        .on_output(move |_, bytes| sender.send(bytes.to_vec()).unwrap());
    let started = sandbox.start(request).unwrap();
    assert_eq!(receiver.recv_timeout(super::LONG).unwrap(), b"on\n");
    assert_eq!(started.read_output(Stream::Stdout, 0, 100), b"on\n");
    assert!(matches!(started.advance(Vec::new(), Some(Duration::ZERO)).unwrap(), Step::Running));
}

#[test]
fn listener_receives_each_display_while_the_script_runs() {
    let script = (
        "display('one')\ntools.ask(q=1)\ndisplay('two')\ndisplay('over the limit')",
        "display('one'); await tools.ask({q: 1}); display('two'); display('over the limit')",
    );
    for language in BOTH {
        // A display of three letters takes less than 30 bytes, including its media type and its lengths.
        let sandbox = stepped(language, &[], |policy| policy.limits.display_bytes = 60);
        let (sender, receiver) = std::sync::mpsc::channel();
        let request = Request::new(of(language, script.0, script.1))
            .on_display(move |display| sender.send(display).unwrap_or_default());
        let started = sandbox.start(request).unwrap();
        let requests = needs(&started, Vec::new());
        let mut shown: Vec<_> = receiver.try_iter().collect();
        assert_eq!(shown.len(), 1, "the script waits for an answer");
        let execution = done(&started, vec![answer(&requests[0], 1)]);
        shown.extend(receiver.try_iter());
        assert_eq!((shown, execution.displays_dropped), (execution.displays.clone(), 1), "{language}");
        assert_eq!(execution.displays.len(), 2, "{language}");
    }
}
