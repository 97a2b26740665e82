"""The types of the contract, `glovebox:sandbox`.

Records and the cases of variants are dataclasses; a case's `tag` is its name. Enums are strings.
"""

# Generated from wit/. Change those files, then run `BLESS=1 cargo test --workspace --test all reference::`.

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Union


Language = Literal["python", "javascript"]
"""A scripting language."""


@dataclass(frozen=True, slots=True)
class RuntimePython:
    """The provider's default runtime for Python."""

    tag: ClassVar[Literal["python"]] = "python"


@dataclass(frozen=True, slots=True)
class RuntimeJavascript:
    """The provider's default runtime for JavaScript."""

    tag: ClassVar[Literal["javascript"]] = "javascript"


@dataclass(frozen=True, slots=True)
class RuntimeNamed:
    """The runtime with this name. `info` lists the available names."""

    value: str
    tag: ClassVar[Literal["named"]] = "named"


Runtime = Union[RuntimePython, RuntimeJavascript, RuntimeNamed]
"""The interpreter that runs a script."""


SourceKind = Literal["detect", "script", "module"]
"""The parse mode of JavaScript source. Python source is always a script."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Upper bounds on the resources of an execution. Every limit is finite and enforced where the resource is spent.
    An omitted limit has its default. A limit that is out of range, or larger than the provider grants, is
    `invalid-policy`: the text names the limit, the value, and the range. A provider never silently lowers a limit.
    If the caller's remaining fuel quota is less than `fuel`, `exhausted.limit` reports the amount that was
    available.
    """

    fuel: int | None = None
    """Fuel: about one unit per WebAssembly instruction, plus the cost of host calls. The guest is unwound when the
    fuel is exhausted. Booting the interpreter is free. At least 1. Default 400,000,000,000: enough for a script
    to reach the default `timeout-ms` first. On a provider without a clock, fuel alone ends a loop, after 20 to
    70 seconds.
    """

    fuel_reserve: int | None = None
    """The part of `fuel` that is reserved for the soft limit: when only this much fuel remains, the script
    receives an exception. Python can catch it (`KeyboardInterrupt`), JavaScript cannot. Capped at a tenth of
    `fuel`; 0 disables the soft limit. There is no soft limit under a fixed clock with seeded entropy. Default
    100,000,000.
    """

    timeout_ms: int | None = None
    """Wall-clock milliseconds, including waits and excluding compilation. The guest is unwound when this time has
    elapsed. At least 1. Default 10,000. Ignored by providers without `features.wall-clock`.
    """

    timeout_reserve_ms: int | None = None
    """The part of `timeout-ms` that is reserved for the soft limit, in milliseconds. A cancelled script has the
    same time to clean up. Capped at a tenth of `timeout-ms`; 0 disables the soft limit. Default 100.
    """

    memory_bytes: int | None = None
    """Bytes of linear memory, files, captured output, displays and tool calls together. The interpreter's image
    counts as at most 2,097,152 bytes, so an execution occupies at most this limit plus the image. The guest
    sees a failed allocation, or `ENOSPC`. At least 1,048,576, and at least the bytes that the image counts as.
    At most 4,294,967,296. Default 134,217,728.
    """

    stdout_bytes: int | None = None
    """Bytes of standard output to retain. Further output is counted and dropped. Default 2,000,000."""

    stderr_bytes: int | None = None
    """Bytes of standard error to retain. Further output is counted and dropped. Default 1,000,000."""

    display_bytes: int | None = None
    """Bytes of displays to retain, including all their forms. A display that does not fit is dropped entirely and
    counted, as are all later displays. At most 1,000 displays are retained. Default 8,388,608.
    """

    source_bytes: int | None = None
    """Bytes of source text. A larger source is `sandbox-error.source-too-large`. At least 1. Default 1,048,576."""

    stdin_bytes: int | None = None
    """Bytes of standard input, and of JSON text for a variable. Larger input is `sandbox-error.stdin-too-large`.
    Default 16,777,216.
    """

    workspace_bytes: int | None = None
    """Bytes of files, including names and directory entries. The guest sees `ENOSPC`. Default 67,108,864."""

    workspace_inodes: int | None = None
    """Number of files, directories and links, including deleted files that are still open. The guest sees
    `ENOSPC`. At least 1. Default 10,000.
    """

    open_files: int | None = None
    """Number of descriptors open at once, including the three standard streams and the preopened directories. The
    guest sees `EMFILE`. At least 8. Default 256.
    """

    tool_calls: int | None = None
    """Number of tool calls in one execution, to tools of the caller and the provider. Further calls fail in the
    guest. Default 100.
    """

    tool_calls_at_once: int | None = None
    """Number of tool calls that are running or have a result that the guest has not read yet. Further calls wait.
    At least 1. Default 16.
    """

    tool_timeout_ms: int | None = None
    """Maximum duration of one tool call, in milliseconds. A longer call fails in the guest. At least 1. Default
    10,000. Ignored by providers without `features.wall-clock`.
    """

    tool_bytes: int | None = None
    """Bytes of a tool call's arguments, and of its result, each as JSON text. A larger call fails in the guest. At
    least 1. Default 1,048,576.
    """

    tool_record_bytes: int | None = None
    """Bytes of arguments and results to retain in the record of tool calls. Default 1,048,576."""

    persisted_bytes: int | None = None
    """Bytes of the file that `policy.auto-persist-globals` writes. If the globals need more, the largest are
    omitted until the remaining ones fit, and a line on standard error names each omitted global. At least 13.
    Default 1,048,576.
    """

    session_count: int | None = None
    """Number of sessions that the provider keeps at once, across all callers. A further session is
    `sandbox-error.too-many-sessions`. Default 1,000.
    """

    session_total_bytes: int | None = None
    """Total bytes that all sessions hold. At the limit, a guest in a session sees failed allocations and `ENOSPC`,
    and a further session or requested checkpoint is `sandbox-error.too-many-sessions`. Default 4,294,967,296.
    """


@dataclass(frozen=True, slots=True)
class ClockHost:
    """The provider's clock. `unsupported` without `features.wall-clock`."""

    tag: ClassVar[Literal["host"]] = "host"


@dataclass(frozen=True, slots=True)
class ClockFixed:
    """A clock that is fixed at this time, in nanoseconds since 1970-01-01T00:00:00Z. A sleep advances it
    immediately.
    """

    value: int
    tag: ClassVar[Literal["fixed"]] = "fixed"


Clock = Union[ClockHost, ClockFixed]
"""The time that a guest sees."""


@dataclass(frozen=True, slots=True)
class EntropyHost:
    """The provider's random number generator. `unsupported` without `features.entropy`."""

    tag: ClassVar[Literal["host"]] = "host"


@dataclass(frozen=True, slots=True)
class EntropySeeded:
    """ChaCha20 with this seed: the same numbers every time. Do not use it for secrets."""

    value: int
    tag: ClassVar[Literal["seeded"]] = "seeded"


Entropy = Union[EntropyHost, EntropySeeded]
"""The randomness that a guest sees."""


@dataclass(frozen=True, slots=True)
class CheckpointsAuto:
    """Before every execution while the session's private memory is at most `checkpoint-auto-bytes`; less often as
    it grows beyond that.
    """

    tag: ClassVar[Literal["auto"]] = "auto"


@dataclass(frozen=True, slots=True)
class CheckpointsAlways:
    """Before every execution."""

    tag: ClassVar[Literal["always"]] = "always"


@dataclass(frozen=True, slots=True)
class CheckpointsEvery:
    """Before every n-th execution. At least 1."""

    value: int
    tag: ClassVar[Literal["every"]] = "every"


@dataclass(frozen=True, slots=True)
class CheckpointsNever:
    """Only when the caller requests one."""

    tag: ClassVar[Literal["never"]] = "never"


Checkpoints = Union[CheckpointsAuto, CheckpointsAlways, CheckpointsEvery, CheckpointsNever]
"""The schedule of a session's automatic checkpoints."""


OnUnwind = Literal["roll-back", "end"]
"""The action taken when a session's guest is unwound: stopped at a limit, cancelled, trapped, or damaged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionPolicy:
    """The checkpoints of a session, and the action taken when its guest is unwound."""

    checkpoints: Checkpoints | None = None
    """The schedule of automatic checkpoints. Default: `auto`."""

    checkpoint_auto_bytes: int | None = None
    """Bytes of private memory up to which `auto` takes a checkpoint before every execution. Default 4,194,304."""

    checkpoints_retained: int | None = None
    """Number of requested checkpoints that are retained. A new one replaces the oldest. At least 1. Default 8."""

    on_unwind: OnUnwind | None = None
    """The action taken when the session's guest is unwound. Default: `roll-back`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """The permissions and limits of an execution. An empty policy is valid and safe."""

    limits: Limits | None = None
    """Upper bounds on the execution's resources."""

    clock: Clock | None = None
    """The time that the guest sees. Under `fixed` and `seeded`, equal inputs consume exactly the same amount of
    fuel. Default: `host`, or `fixed(0)` if the provider has no clock.
    """

    entropy: Entropy | None = None
    """The randomness that the guest sees. Default: `host`, or `seeded(0)` if the provider has no entropy source."""

    args: list[str] | None = None
    """Arguments after the script's name, without NUL. At most 131,072 bytes together with `env`; each argument is
    charged its length plus one byte, each variable its length plus two. Default: none.
    """

    env: list[tuple[str, str]] | None = None
    """Environment variables. Names must not be empty or contain `=`. Names and values must not contain NUL. A
    duplicate name is `invalid-policy`. The guest never sees the provider's own environment. Default: none.
    """

    inject_setup: bool | None = None
    """Adds `/app/site-packages` to `sys.path`, so that Python scripts find packages there. A session that was
    opened with `false` remains without packages, even if it is resumed with `true`. Default: true.
    """

    auto_persist_globals: bool | None = None
    """Loads the global variables of an execution outside a session from the workspace before the script, and saves
    them there afterwards. The files are `.globals_py.json` for Python and `.globals_js.json` for JavaScript.
    Only values that JSON can represent are saved, under names without a leading `_`, and the object `_state`.
    An unwound script leaves the file unchanged. The file does not appear in `execution.files-created`,
    `files-modified` or `files-deleted`. Read it with `started.files`, and pass it to the next execution in
    `request.files`. Sessions ignore this setting. Default: false.
    """

    session: SessionPolicy | None = None
    """The checkpoints of a session, and the action taken when its guest is unwound."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """A file to place in a workspace."""

    path: str
    """The path relative to `/app`. Missing directories are created."""

    bytes: bytes
    """The contents of the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """The input of one execution."""

    source: str
    """The source text."""

    name: str | None = None
    """The file name in tracebacks: at most 4,096 bytes without NUL. Default: `<sandbox>`."""

    kind: SourceKind | None = None
    """The parse mode of JavaScript source. Default: `detect`."""

    stdin: bytes | None = None
    """The script's standard input. Default: empty."""

    context: str | None = None
    """JSON text of the global variable `context`, at most `limits.stdin-bytes`. Not allowed in a session
    (`invalid-argument`): use `session-options.context` or `session.set-variable`. Default: no such variable.
    """

    files: list[InputFile] | None = None
    """The files in the workspace when the script starts. Of two files with the same path, the last one is used.
    Not allowed in a session (`invalid-argument`): use `session.write-file`. Default: none.
    """

    deadline_ms: int | None = None
    """Milliseconds after which the execution is cancelled, unless `limits.timeout-ms` ends it first. The script
    receives an exception and has `limits.timeout-reserve-ms` to clean up. If it is still running after that, it
    is unwound. The outcome is `cancelled` either way. Ignored by providers without `features.wall-clock`.
    Default: never.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool that scripts can call by name, with JSON arguments and a JSON result."""

    name: str
    """The name that scripts use: 1 to 64 ASCII letters, digits and underscores, starting with a letter. Python and
    JavaScript keywords are refused, as are names that the `tools` object itself uses (such as `ToolError`,
    `then` and `constructor`).
    """

    description: str
    """The text that `help(tools.name)` shows."""

    arguments_schema: str | None = None
    """A JSON Schema, as text, of the object whose properties are the arguments. Arguments are validated against
    the schema before the tool is called. The schema must not refer to anything outside itself. The descriptions
    and schemas of all tools of an execution are limited to 1,048,576 bytes in total. For a caller's tools, a
    provider may refuse schemas that are expensive to validate or compile: schemas with references (`$ref`),
    with keywords such as `unevaluatedProperties`, with more than 2,000 values, with a large regular expression,
    or with more than 8 regular expressions across all tools. Default: any object.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Raised:
    """An exception that ended a script."""

    type_name: str
    """The exception's class (`ValueError`, `TypeError`, …). Empty if the thrown value is not an object."""

    message: str
    """The exception's message."""

    traceback: str
    """The traceback or stack as the interpreter prints it."""

    line: int | None = None
    """The line of the script that raised the exception, counted from 1, if known."""


ResourceKind = Literal["fuel", "time", "memory"]
"""A resource whose limit ended the execution."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exhausted:
    """A limit that was reached."""

    resource: ResourceKind
    """The resource whose limit was reached."""

    limit: int
    """The limit, in the resource's unit."""

    used: int
    """The amount that was used or requested, in the same unit."""


TrapKind = Literal["stack-overflow", "unreachable", "out-of-bounds", "bad-call", "arithmetic", "bad-report", "other"]
"""The cause of a trap."""


@dataclass(frozen=True, slots=True)
class OutcomeCompleted:
    """The script ran to its end."""

    tag: ClassVar[Literal["completed"]] = "completed"


@dataclass(frozen=True, slots=True)
class OutcomeExited:
    """The script exited with this code. Code 0 is success, like `completed`."""

    value: int
    tag: ClassVar[Literal["exited"]] = "exited"


@dataclass(frozen=True, slots=True)
class OutcomeRaised:
    """An exception was not caught."""

    value: Raised
    tag: ClassVar[Literal["raised"]] = "raised"


@dataclass(frozen=True, slots=True)
class OutcomeExhausted:
    """A limit was reached."""

    value: Exhausted
    tag: ClassVar[Literal["exhausted"]] = "exhausted"


@dataclass(frozen=True, slots=True)
class OutcomeCancelled:
    """The caller cancelled the execution."""

    tag: ClassVar[Literal["cancelled"]] = "cancelled"


@dataclass(frozen=True, slots=True)
class OutcomeTrapped:
    """The guest trapped."""

    value: TrapKind
    tag: ClassVar[Literal["trapped"]] = "trapped"


Outcome = Union[OutcomeCompleted, OutcomeExited, OutcomeRaised, OutcomeExhausted, OutcomeCancelled, OutcomeTrapped]
"""The way in which an execution ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """The output of a guest on one of its standard streams."""

    bytes: bytes
    """The retained bytes, at most the first 4,194,304 of them. `started.read-output` returns all retained bytes."""

    retained_bytes: int
    """The number of bytes that were retained: at most the stream's limit."""

    total_bytes: int
    """The number of bytes that were written. Bytes beyond `retained-bytes` were dropped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metadata:
    """The runtime that ran an execution."""

    runtime: Language
    """The runtime's language."""

    runtime_name: str
    """The runtime's name."""

    version: str | None = None
    """The interpreter's version, if known."""

    prepared: bool
    """True if a prepared image ran; false if the binary was booted for this execution."""

    image_sha256: str | None = None
    """The identity of the prepared image, the SHA-256 of its module in hexadecimal. Images with the same identity
    behave identically.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class GuestValue:
    """A value in a guest."""

    repr: str
    """The language's own representation of the value, truncated to 65,536 characters."""

    json: str | None = None
    """The value as JSON text, if it can be represented in at most 1,048,576 bytes. The text is well-formed; its
    content is under the guest's control.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A representation of a `display` in one media type."""

    media_type: str
    """The media type in lower case, without parameters: `image/png`, `text/html`. At most 127 bytes."""

    data: bytes
    """The data of the form. Text is in UTF-8, unless the guest mislabels it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Display:
    """An object that a script displayed: a picture, a table, a document, or the value of its last expression. Each
    form represents the whole object in another media type, and a reader renders the form that it supports best (a
    MIME bundle in Jupyter's terms). The content is under the guest's control and may be hostile to its renderer.
    """

    forms: list[Form]
    """At least one form and at most 32, in the guest's order. Each media type occurs once."""

    is_result: bool
    """True for the value of the script's last expression, which only sessions display. False for a value that the
    script displayed explicitly, or a figure.
    """


ToolError = Literal["failed", "limit", "timeout", "unknown", "invalid-arguments", "denied"]
"""The kind of failure of a tool call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallFailure:
    """The reason for a tool call without a result."""

    kind: ToolError
    """The kind of failure, which determines the class of the exception in the script."""

    message: str
    """The message for the script, truncated to 4,096 bytes. It must not contain secrets, because the script reads
    it.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolFailure:
    """A tool call that failed."""

    kind: ToolError
    """The kind of failure."""

    message: str | None = None
    """The message for the script; `none` if the record is full."""


@dataclass(frozen=True, slots=True)
class ToolOutcomeReturned:
    """The tool returned this JSON text; `none` if the record is full."""

    value: str | None
    tag: ClassVar[Literal["returned"]] = "returned"


@dataclass(frozen=True, slots=True)
class ToolOutcomeFailed:
    """The call failed, or was refused."""

    value: ToolFailure
    tag: ClassVar[Literal["failed"]] = "failed"


@dataclass(frozen=True, slots=True)
class ToolOutcomeUnfinished:
    """The execution ended before the call did."""

    tag: ClassVar[Literal["unfinished"]] = "unfinished"


ToolOutcome = Union[ToolOutcomeReturned, ToolOutcomeFailed, ToolOutcomeUnfinished]
"""The result of a tool call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRecord:
    """A tool call."""

    name: str
    """The name that the script called, truncated to 64 characters. A tool with this name need not exist."""

    arguments: str | None = None
    """The arguments as JSON text; `none` if the record is full."""

    outcome: ToolOutcome
    """The result of the call."""

    started_ns: int
    """The time of the call, in nanoseconds since the start of the execution; 0 without `features.wall-clock`."""

    duration_ns: int
    """The duration in nanoseconds, including the time in the queue; 0 without `features.wall-clock`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollback:
    """The state that a session was rolled back to."""

    checkpoint: int
    """The ID of the checkpoint."""

    executions_lost: int
    """The number of executions lost in addition to the unwound one: 0 if the checkpoint was taken right before it."""


FuelStatus = Literal["efficient", "moderate", "warning", "critical", "exhausted"]
"""The fuel use of an execution relative to its limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FuelAnalysis:
    """The fuel use of an execution."""

    used: int
    """Fuel used: `execution.fuel-consumed`."""

    limit: int
    """The limit: `limits.fuel`."""

    utilization_percent: int
    """The percentage of the limit that was used, rounded down."""

    status: FuelStatus
    """The category of `utilization-percent`."""

    suggested_limit: int | None = None
    """A value for `limits.fuel` that leaves room: twice the limit if fuel ran out, or one and a half times the
    limit if at least three quarters of it was used. `none` otherwise, or if the limit cannot be raised.
    """

    likely_causes: list[str]
    """Possible causes of the fuel use, if the fuel ran out. One sentence each."""


AdviceKind = Literal["fuel", "time", "memory", "call-depth", "output", "module", "syntax", "typescript-syntax", "path", "network", "subprocess", "threads", "input", "environment"]
"""The subject of advice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """A corrected line of the script."""

    line: int
    """The line number, counted from 1."""

    text: str
    """The corrected line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """A known problem and its solution."""

    kind: AdviceKind
    """The subject of the advice."""

    summary: str
    """The problem, in one sentence."""

    steps: list[str]
    """Possible solutions, each independent of the others."""

    correction: Correction | None = None
    """The corrected line, if it is clear which part of the line to change. A corrected name is a guess: the most
    similar known name.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Guidance:
    """The fuel use of an execution and advice on its failure, for people and for models that write scripts. Both are
    derived from the outcome, the limits and the source. The texts change between versions.
    """

    fuel: FuelAnalysis
    """The fuel use."""

    advice: list[Advice]
    """Known problems and their solutions, the most important first. Often empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """The outcome, output and resource use of one execution."""

    outcome: Outcome
    """The way in which the execution ended."""

    interrupted: Raised | None = None
    """The exception that ended the script after the soft limit or a cancellation interrupted it. The outcome is
    then the limit or `cancelled`.
    """

    value: GuestValue | None = None
    """In a session, the script's value; `none` if the script has no value, or if its value is `None` or
    `undefined`. Python: the value of the last statement, if that is an expression. JavaScript: the completion
    value, as `eval` returns it, or its result if it is a fulfilled promise.
    """

    stdout: Output
    """The guest's standard output."""

    stderr: Output
    """The guest's standard error. If a limit ended the execution, the last line names the limit: `OutOfFuel`,
    `TimedOut` or `OutOfMemory`.
    """

    displays: list[Display]
    """The objects that the script displayed, in order. Contains no displays of earlier executions."""

    displays_dropped: int
    """The number of displays that were dropped because of `limits.display-bytes` or the maximum of 1,000."""

    fuel_consumed: int
    """Fuel used: all of it if the fuel ran out, and a lower bound if a timeout or a cancellation stopped the
    execution.
    """

    memory_used_bytes: int
    """The peak of the memory that counts towards `limits.memory-bytes`."""

    duration_ns: int
    """Wall-clock time in nanoseconds, excluding compilation; 0 without `features.wall-clock`."""

    files_created: list[str]
    """Files that the script created, relative to `/app`, sorted."""

    files_modified: list[str]
    """Files that the script modified, relative to `/app`, sorted."""

    files_deleted: list[str]
    """Files that the script deleted, relative to `/app`, sorted."""

    tool_calls: list[ToolRecord]
    """The tool calls in the order in which they were made, excluding calls beyond `limits.tool-calls`."""

    session_id: str | None = None
    """The session's ID, for an execution in a session."""

    rolled_back_to: Rollback | None = None
    """The state that the session was rolled back to, if the guest was unwound. The script's changes to variables
    and files are undone.
    """

    guidance: Guidance
    """The fuel use of the execution, and advice on its failure."""

    metadata: Metadata
    """The runtime that ran the execution."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnostic:
    """A message from the language's own parser about a source."""

    line: int
    """The line, counted from 1."""

    column: int
    """The column in Unicode code points, counted from 1."""

    message: str
    """The parser's message."""


FileKind = Literal["file", "directory", "symlink"]
"""The kind of an entry in a workspace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """A file, directory or symbolic link in a workspace."""

    path: str
    """The normalized path relative to `/app`. Empty for the workspace itself."""

    kind: FileKind
    """The kind of the entry."""

    size_bytes: int
    """The size of a file, or the length of a link's target path, in bytes; 0 for a directory."""

    modified_ns: int
    """The time of the last modification, in nanoseconds since 1970, by the policy's clock."""


IfExists = Literal["fail", "replace"]
"""The behaviour if the target of an operation already exists."""


FileError = Literal["invalid-path", "not-found", "exists", "wrong-kind", "no-space", "refused"]
"""The reason for a failed file operation. The workspace is unchanged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFailure:
    """A file operation that failed."""

    kind: FileError
    """The category of the failure."""

    path: str
    """The path or pattern of the operation, truncated to 4,096 bytes."""

    message: str
    """The reason as text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointInfo:
    """A saved state of a session."""

    id: int
    """The ID within the session. Later checkpoints have greater IDs."""

    automatic: bool
    """True if the session took the checkpoint automatically, before an execution. The next automatic checkpoint
    replaces it.
    """

    executions: int
    """The number of executions before the checkpoint."""

    private_bytes: int
    """Private memory in bytes: the difference from a new session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionInfo:
    """The state of a session after its last execution."""

    id: str
    """The ID. The provider chooses it, and it is not a secret."""

    language: Language
    """The language of the session's scripts."""

    runtime_name: str
    """The name of the runtime."""

    executions: int
    """The number of executions that led to the current state. A rollback and `session.undo` decrease it."""

    memory_bytes: int
    """Linear memory, in bytes."""

    private_bytes: int
    """The part of the linear memory that is private to the session, in bytes, as of its last checkpoint."""

    held_bytes: int
    """The bytes of this session that are charged to `limits.session-total-bytes`."""

    checkpoints: int
    """The number of checkpoints."""

    checkpoints_skipped: int
    """The number of automatic checkpoints that were skipped because `limits.session-total-bytes` left no room. A
    rollback then restores an earlier checkpoint.
    """

    rollbacks: int
    """The number of rollbacks."""

    ended: str | None = None
    """The reason why the session ended, if it has ended."""


Features = frozenset[Literal["wall-clock", "entropy", "tools", "stepping"]]
"""Optional capabilities of a provider."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeInfo:
    """A runtime of a provider."""

    name: str
    """The name for `runtime.named`."""

    language: Language
    """The language of the runtime's scripts."""

    version: str | None = None
    """The interpreter's version, if known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderInfo:
    """A description of a provider."""

    name: str
    """The provider's name."""

    version: str
    """The provider's version."""

    features: Features
    """The provider's optional capabilities."""

    runtimes: list[RuntimeInfo]
    """The provider's runtimes. The default runtime of each language comes first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TooLarge:
    """A size that exceeds its limit."""

    bytes: int
    """The size, in bytes."""

    limit: int
    """The limit, in bytes."""


@dataclass(frozen=True, slots=True)
class SandboxErrorUnknownRuntime:
    """There is no runtime with this name, or none for this language."""

    value: str
    tag: ClassVar[Literal["unknown-runtime"]] = "unknown-runtime"


@dataclass(frozen=True, slots=True)
class SandboxErrorInvalidPolicy:
    """The policy is invalid, or requests more than is granted. The text names the key and its range."""

    value: str
    tag: ClassVar[Literal["invalid-policy"]] = "invalid-policy"


@dataclass(frozen=True, slots=True)
class SandboxErrorInvalidArgument:
    """An argument is invalid: a script's name, a variable's name, JSON text, a file, or a tool's definition. The
    text names it.
    """

    value: str
    tag: ClassVar[Literal["invalid-argument"]] = "invalid-argument"


@dataclass(frozen=True, slots=True)
class SandboxErrorSourceTooLarge:
    """The source is larger than `limits.source-bytes`."""

    value: TooLarge
    tag: ClassVar[Literal["source-too-large"]] = "source-too-large"


@dataclass(frozen=True, slots=True)
class SandboxErrorStdinTooLarge:
    """Standard input, or the JSON text of a variable, is larger than `limits.stdin-bytes`."""

    value: TooLarge
    tag: ClassVar[Literal["stdin-too-large"]] = "stdin-too-large"


@dataclass(frozen=True, slots=True)
class SandboxErrorTooManySessions:
    """A further session or checkpoint would exceed a limit. The text names the limit."""

    value: str
    tag: ClassVar[Literal["too-many-sessions"]] = "too-many-sessions"


@dataclass(frozen=True, slots=True)
class SandboxErrorQuotaExceeded:
    """The caller's overall quota would be exceeded. The text names the quota. If the quota bounds held resources,
    dropping some of them helps.
    """

    value: str
    tag: ClassVar[Literal["quota-exceeded"]] = "quota-exceeded"


@dataclass(frozen=True, slots=True)
class SandboxErrorSessionEnded:
    """The session has ended: the script exited its interpreter, the session was closed, or it was unwound without
    a checkpoint to roll back to. The text gives the reason.
    """

    value: str
    tag: ClassVar[Literal["session-ended"]] = "session-ended"


@dataclass(frozen=True, slots=True)
class SandboxErrorSessionBusy:
    """The operation cannot run before an execution has ended: an execution in the session, or the one whose files
    were requested. From `started.suspend`: the script or one of the provider's tools is running.
    """

    value: str
    tag: ClassVar[Literal["session-busy"]] = "session-busy"


@dataclass(frozen=True, slots=True)
class SandboxErrorNoCheckpoint:
    """The session has no checkpoint with this ID, or none to undo to."""

    value: str
    tag: ClassVar[Literal["no-checkpoint"]] = "no-checkpoint"


@dataclass(frozen=True, slots=True)
class SandboxErrorVariable:
    """A variable could not be read or set. The text is the guest's message, or the reason why the guest was
    stopped. If the guest was unwound, the session was rolled back: `session-info.rollbacks` counts it.
    """

    value: str
    tag: ClassVar[Literal["variable"]] = "variable"


@dataclass(frozen=True, slots=True)
class SandboxErrorFile:
    """A file operation failed."""

    value: FileFailure
    tag: ClassVar[Literal["file"]] = "file"


@dataclass(frozen=True, slots=True)
class SandboxErrorNotResumable:
    """The bytes are not a hibernated session or a suspended execution, or this provider, runtime and policy cannot
    resume it.
    """

    value: str
    tag: ClassVar[Literal["not-resumable"]] = "not-resumable"


@dataclass(frozen=True, slots=True)
class SandboxErrorUnsupported:
    """The provider does not support the operation. The text names the missing capability. Check
    `provider-info.features` before the call.
    """

    value: str
    tag: ClassVar[Literal["unsupported"]] = "unsupported"


@dataclass(frozen=True, slots=True)
class SandboxErrorUnavailable:
    """The provider or its host failed: for example, no instance is free. The text gives the reason. Retrying later
    may help.
    """

    value: str
    tag: ClassVar[Literal["unavailable"]] = "unavailable"


SandboxError = Union[SandboxErrorUnknownRuntime, SandboxErrorInvalidPolicy, SandboxErrorInvalidArgument, SandboxErrorSourceTooLarge, SandboxErrorStdinTooLarge, SandboxErrorTooManySessions, SandboxErrorQuotaExceeded, SandboxErrorSessionEnded, SandboxErrorSessionBusy, SandboxErrorNoCheckpoint, SandboxErrorVariable, SandboxErrorFile, SandboxErrorNotResumable, SandboxErrorUnsupported, SandboxErrorUnavailable]
"""A fault of the caller or of the provider. Nothing was executed and nothing was changed, with two exceptions:
`variable` reports a failure of code in the guest, and `started.continue` can also fail after the script
has run. The texts are for people and change between versions. The type is not called `error` because
some bindings reserve that word.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRequest:
    """A call to one of the caller's tools that has no answer yet."""

    id: int
    """The call's index in `execution.tool-calls`, counted from 0. Calls to the provider's tools are counted too,
    so IDs can have gaps.
    """

    name: str
    """The tool's name."""

    arguments: str
    """The arguments, as the text of a JSON object that is valid against the tool's schema."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAnswer:
    """The caller's answer to a `tool-request`."""

    id: int
    """The ID of the request."""

    answer: str | CallFailure
    """The result as JSON text, or a failure. If the result exceeds `limits.tool-bytes`, the call fails in the
    guest.
    """


@dataclass(frozen=True, slots=True)
class StepDone:
    """The execution has ended."""

    value: Execution
    tag: ClassVar[Literal["done"]] = "done"


@dataclass(frozen=True, slots=True)
class StepNeedsTools:
    """The unanswered calls, in ascending order of ID. Either the script waits for at least one of them, or
    `continue` has waited for `wait-ms`.
    """

    value: list[ToolRequest]
    tag: ClassVar[Literal["needs-tools"]] = "needs-tools"


@dataclass(frozen=True, slots=True)
class StepRunning:
    """`continue` has waited for `wait-ms`, and the script is still running. No call is outstanding."""

    tag: ClassVar[Literal["running"]] = "running"


Step = Union[StepDone, StepNeedsTools, StepRunning]
"""The state of a started execution."""


OutputStream = Literal["stdout", "stderr"]
"""A script's output stream."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionOptions:
    """The options of a new session."""

    context: str | None = None
    """JSON text of the global variable `context`, at most `limits.stdin-bytes`. Default: no such variable."""

    tools: list[Tool] | None = None
    """The caller's tools, as for `start`. They are available to executions begun by `session.start`; in other
    executions, a call to one of them fails (`tool-error.failed`). Default: none.
    """

__all__ = [
    "Advice",
    "AdviceKind",
    "CallFailure",
    "CheckpointInfo",
    "Checkpoints",
    "CheckpointsAlways",
    "CheckpointsAuto",
    "CheckpointsEvery",
    "CheckpointsNever",
    "Clock",
    "ClockFixed",
    "ClockHost",
    "Correction",
    "Diagnostic",
    "Display",
    "Entropy",
    "EntropyHost",
    "EntropySeeded",
    "Execution",
    "Exhausted",
    "Features",
    "FileEntry",
    "FileError",
    "FileFailure",
    "FileKind",
    "Form",
    "FuelAnalysis",
    "FuelStatus",
    "GuestValue",
    "Guidance",
    "IfExists",
    "InputFile",
    "Language",
    "Limits",
    "Metadata",
    "OnUnwind",
    "Outcome",
    "OutcomeCancelled",
    "OutcomeCompleted",
    "OutcomeExhausted",
    "OutcomeExited",
    "OutcomeRaised",
    "OutcomeTrapped",
    "Output",
    "OutputStream",
    "Policy",
    "ProviderInfo",
    "Raised",
    "Request",
    "ResourceKind",
    "Rollback",
    "Runtime",
    "RuntimeInfo",
    "RuntimeJavascript",
    "RuntimeNamed",
    "RuntimePython",
    "SandboxError",
    "SandboxErrorFile",
    "SandboxErrorInvalidArgument",
    "SandboxErrorInvalidPolicy",
    "SandboxErrorNoCheckpoint",
    "SandboxErrorNotResumable",
    "SandboxErrorQuotaExceeded",
    "SandboxErrorSessionBusy",
    "SandboxErrorSessionEnded",
    "SandboxErrorSourceTooLarge",
    "SandboxErrorStdinTooLarge",
    "SandboxErrorTooManySessions",
    "SandboxErrorUnavailable",
    "SandboxErrorUnknownRuntime",
    "SandboxErrorUnsupported",
    "SandboxErrorVariable",
    "SessionInfo",
    "SessionOptions",
    "SessionPolicy",
    "SourceKind",
    "Step",
    "StepDone",
    "StepNeedsTools",
    "StepRunning",
    "TooLarge",
    "Tool",
    "ToolAnswer",
    "ToolError",
    "ToolFailure",
    "ToolOutcome",
    "ToolOutcomeFailed",
    "ToolOutcomeReturned",
    "ToolOutcomeUnfinished",
    "ToolRecord",
    "ToolRequest",
    "TrapKind",
]
