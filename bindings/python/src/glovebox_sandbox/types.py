"""The types of the contract, `glovebox:sandbox`.

Records are dataclasses, and so are the cases of a variant, whose `tag` says which it is. Enums are strings.
"""

# Made of wit/: change that, and run `BLESS=1 cargo test --workspace --test all reference::`.

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Union


Language = Literal["python", "javascript"]
"""A language that scripts are written in."""


@dataclass(frozen=True, slots=True)
class RuntimePython:
    """The provider's default for Python."""

    tag: ClassVar[Literal["python"]] = "python"


@dataclass(frozen=True, slots=True)
class RuntimeJavascript:
    """The provider's default for JavaScript."""

    tag: ClassVar[Literal["javascript"]] = "javascript"


@dataclass(frozen=True, slots=True)
class RuntimeNamed:
    """The runtime of this name, one that `info` lists."""

    value: str
    tag: ClassVar[Literal["named"]] = "named"


Runtime = Union[RuntimePython, RuntimeJavascript, RuntimeNamed]
"""What runs a script."""


SourceKind = Literal["detect", "script", "module"]
"""How JavaScript source is to be understood. Python has only scripts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How much an execution may use. Every limit is finite and enforced where the resource is spent; one that is not given
    has its default. One that cannot be, or is over what the provider grants, makes the policy `invalid-policy`: the text names
    the limit, what was asked and what it may be. A provider never holds an execution to less than it was asked for without
    saying so: where its caller's quota of fuel has less left, `exhausted.limit` says how much that was.
    """

    fuel: int | None = None
    """Fuel: about one unit per WebAssembly operator, plus what host work costs. At 0 left the guest is unwound.
    Booting the interpreter is not on the bill. At least 1. Default 400,000,000,000: so much that a script meets the
    default of `timeout-ms` first. Where there is no clock, it is all that ends a loop, after a minute or so.
    """

    fuel_reserve: int | None = None
    """How much of the fuel is kept for a last word: when no more is left, the script gets an exception that it can see.
    Never more than a tenth of `fuel`; 0 for none. There is none under a fixed clock with seeded entropy.
    Default 100,000,000.
    """

    timeout_ms: int | None = None
    """Wall-clock milliseconds, waits included, compiling not. The guest is unwound. At least 1. Default 10,000.
    Providers without a clock ignore it, and say so.
    """

    timeout_reserve_ms: int | None = None
    """How many milliseconds of the time are kept for a last word, and how many a cancelled script has left. Never more
    than a tenth of `timeout-ms`; 0 for none. Default 100.
    """

    memory_bytes: int | None = None
    """Bytes of linear memory, files and captured output together. The interpreter's image counts as 2,097,152 of them,
    however large it is: an execution holds at most this much and the image. The guest sees an allocation fail, or
    `ENOSPC`. At least 1,048,576, and more than an image counts as; at most 4,294,967,296. Default 134,217,728.
    """

    stdout_bytes: int | None = None
    """Bytes of standard output that are kept; the rest is counted and dropped. Default 2,000,000."""

    stderr_bytes: int | None = None
    """Bytes of standard error that are kept; the rest is counted and dropped. Default 1,000,000."""

    source_bytes: int | None = None
    """Bytes of source text; more is `sandbox-error.source-too-large`. At least 1. Default 1,048,576."""

    stdin_bytes: int | None = None
    """Bytes of standard input; more is `sandbox-error.stdin-too-large`. Default 16,777,216."""

    workspace_bytes: int | None = None
    """Bytes of files, names and directory entries included. The guest sees `ENOSPC`. Default 67,108,864."""

    workspace_inodes: int | None = None
    """Files, directories and links, open but deleted ones included. The guest sees `ENOSPC`. At least 1. Default 10,000."""

    open_files: int | None = None
    """Descriptors open at once, beside the three standard streams. The guest sees `EMFILE`. At least 8. Default 256."""

    tool_calls: int | None = None
    """Calls of tools in one execution, the caller's and the provider's; one more fails in the guest. Default 100."""

    tool_calls_at_once: int | None = None
    """Calls of tools that run at once, or whose result was not taken yet; further ones wait. At least 1. Default 16."""

    tool_timeout_ms: int | None = None
    """Milliseconds that one call of a tool may take; more fails in the guest. At least 1. Default 10,000.
    Providers without a clock ignore it.
    """

    tool_bytes: int | None = None
    """Bytes of a tool call's arguments, and of its result, as JSON text each; more fails in the guest. At least 1.
    Default 1,048,576.
    """

    tool_record_bytes: int | None = None
    """Bytes of arguments and results that the record of tool calls keeps. Default 1,048,576."""

    session_count: int | None = None
    """Sessions that the provider keeps at once, of all callers; one more is `sandbox-error.too-many-sessions`. Default 1,000."""

    session_total_bytes: int | None = None
    """Bytes that all these sessions may hold together when one more is opened, or a checkpoint is asked for.
    Default 4,294,967,296.
    """


@dataclass(frozen=True, slots=True)
class ClockHost:
    """The provider's clocks. `unsupported` without `features.wall-clock`."""

    tag: ClassVar[Literal["host"]] = "host"


@dataclass(frozen=True, slots=True)
class ClockFixed:
    """A clock that stands still at this time, in nanoseconds since 1970-01-01T00:00:00Z. A sleep advances it at once."""

    value: int
    tag: ClassVar[Literal["fixed"]] = "fixed"


Clock = Union[ClockHost, ClockFixed]
"""The time a guest sees."""


@dataclass(frozen=True, slots=True)
class EntropyHost:
    """The provider's generator. `unsupported` without `features.entropy`."""

    tag: ClassVar[Literal["host"]] = "host"


@dataclass(frozen=True, slots=True)
class EntropySeeded:
    """ChaCha20 from this seed: the same numbers every time, and nothing for secrets."""

    value: int
    tag: ClassVar[Literal["seeded"]] = "seeded"


Entropy = Union[EntropyHost, EntropySeeded]
"""The randomness a guest sees."""


@dataclass(frozen=True, slots=True)
class CheckpointsAuto:
    """Before every execution while the session has little memory of its own (`checkpoint-auto-bytes`), and the more
    rarely the more it has.
    """

    tag: ClassVar[Literal["auto"]] = "auto"


@dataclass(frozen=True, slots=True)
class CheckpointsAlways:
    """Before every execution."""

    tag: ClassVar[Literal["always"]] = "always"


@dataclass(frozen=True, slots=True)
class CheckpointsEvery:
    """Before every so many executions. At least 1."""

    value: int
    tag: ClassVar[Literal["every"]] = "every"


@dataclass(frozen=True, slots=True)
class CheckpointsNever:
    """Only when asked to."""

    tag: ClassVar[Literal["never"]] = "never"


Checkpoints = Union[CheckpointsAuto, CheckpointsAlways, CheckpointsEvery, CheckpointsNever]
"""When a session saves its state by itself, to have one to go back to."""


OnUnwind = Literal["go-back", "end"]
"""What becomes of a session whose guest was unwound: stopped at a limit or cancelled, trapped, or damaged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionPolicy:
    """How sessions keep and lose their state. What is not given has its default."""

    checkpoints: Checkpoints | None = None
    """When a session saves its state by itself. Default: `auto`."""

    checkpoint_auto_bytes: int | None = None
    """Up to how much memory of its own, in bytes, a session is saved before every execution under `auto`.
    Default 4,194,304.
    """

    checkpoints_kept: int | None = None
    """How many checkpoints that were asked for are kept; the oldest makes room. At least 1. Default 8."""

    on_unwind: OnUnwind | None = None
    """What becomes of a session whose guest was unwound. Default: `go-back`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Everything an execution may do. What is not given has its default: an empty policy is a good one."""

    limits: Limits | None = None
    """How much it may use."""

    clock: Clock | None = None
    """The time it sees. Under `fixed` and `seeded`, equal input costs equal fuel, to the unit. Default: `host`, and
    `fixed(0)` where the provider has no clock.
    """

    entropy: Entropy | None = None
    """The randomness it sees. Default: `host`, and `seeded(0)` where the provider has none."""

    args: list[str] | None = None
    """Arguments after the script's name, without NUL. With `env` at most 131,072 bytes, each counted with one byte more for
    its end (two for a variable). Default: none.
    """

    env: list[tuple[str, str]] | None = None
    """Environment variables: a name that is not empty and has no `=` in it, and a value, both without NUL. A name that is
    given twice is `invalid-policy`. The provider's own are never passed on. Default: none.
    """

    session: SessionPolicy | None = None
    """How sessions keep and lose their state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One execution's input."""

    source: str
    """The source text."""

    name: str | None = None
    """The file name that tracebacks show: at most 4,096 bytes without NUL. Default: `<sandbox>`."""

    kind: SourceKind | None = None
    """How JavaScript source is to be understood. Default: `detect`."""

    stdin: bytes | None = None
    """What the script reads from standard input. Default: nothing."""

    deadline_ms: int | None = None
    """After how many milliseconds the caller loses interest: the execution is cancelled, unless `limits.timeout-ms` is
    over before. The script gets an exception and `limits.timeout-reserve-ms` to clean up; then it is unwound. Either
    way the outcome is `cancelled`. Providers without a clock ignore it. Default: never.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool that scripts may call by name, with JSON both ways."""

    name: str
    """What scripts call it by: 1 to 64 ASCII letters, digits and underscores, beginning with a letter; no keyword of
    Python or JavaScript, and none of the names that `tools` has itself (`ToolError` and its like, `then`, `constructor`).
    """

    description: str
    """What `help(tools.name)` shows."""

    arguments_schema: str | None = None
    """What the arguments must be, as the text of a JSON Schema of an object whose properties are the arguments. They are
    held to it before the tool is called. It refers to nothing outside itself. All descriptions and schemas of an
    execution's tools take at most 1,048,576 bytes together. Of a caller's tools a provider may refuse what makes checking long
    or what is compiled large: references (`$ref`), `unevaluatedProperties` and the like, more than 2,000 values within one, more
    than 8 regular expressions in all, or a large one. Default: any object.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Raised:
    """An exception that ended a script."""

    type_name: str
    """The exception's class (`ValueError`, `TypeError`, …); empty for a thrown value that is no object."""

    message: str
    """Its message."""

    traceback: str
    """The traceback or stack as the interpreter prints it."""

    line: int | None = None
    """The script's line it was raised at, counted from 1, where known."""


ResourceKind = Literal["fuel", "time", "memory"]
"""A resource with a limit that unwinds the guest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exhausted:
    """A limit that was reached."""

    resource: ResourceKind
    """Which."""

    limit: int
    """The limit, in the resource's unit."""

    used: int
    """What was used or asked for, in the same unit."""


TrapKind = Literal["stack-overflow", "unreachable", "out-of-bounds", "bad-call", "arithmetic", "bad-report", "other"]
"""Why a guest broke."""


@dataclass(frozen=True, slots=True)
class OutcomeCompleted:
    """The script ran to its end."""

    tag: ClassVar[Literal["completed"]] = "completed"


@dataclass(frozen=True, slots=True)
class OutcomeExited:
    """The script ended itself with this code; 0 is success, as `completed` is."""

    value: int
    tag: ClassVar[Literal["exited"]] = "exited"


@dataclass(frozen=True, slots=True)
class OutcomeRaised:
    """An exception reached the top."""

    value: Raised
    tag: ClassVar[Literal["raised"]] = "raised"


@dataclass(frozen=True, slots=True)
class OutcomeExhausted:
    """A limit was reached."""

    value: Exhausted
    tag: ClassVar[Literal["exhausted"]] = "exhausted"


@dataclass(frozen=True, slots=True)
class OutcomeCancelled:
    """The caller cancelled it."""

    tag: ClassVar[Literal["cancelled"]] = "cancelled"


@dataclass(frozen=True, slots=True)
class OutcomeTrapped:
    """The guest broke itself."""

    value: TrapKind
    tag: ClassVar[Literal["trapped"]] = "trapped"


Outcome = Union[OutcomeCompleted, OutcomeExited, OutcomeRaised, OutcomeExhausted, OutcomeCancelled, OutcomeTrapped]
"""What a guest did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """What a guest wrote to one of its standard streams."""

    bytes: bytes
    """The bytes kept, or the first 4,194,304 of them; a `started` execution gives all."""

    kept_bytes: int
    """How many bytes were kept: at most the stream's limit."""

    total_bytes: int
    """How many bytes were written in all; what is more than were kept was dropped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metadata:
    """How an execution was carried out."""

    runtime: Language
    """The language."""

    runtime_name: str
    """The runtime's name."""

    version: str | None = None
    """The interpreter's version, where known."""

    prepared: bool
    """Whether a prepared image ran, or the binary was booted for this execution."""

    image_sha256: str | None = None
    """The prepared image's identity, the SHA-256 of its module in hexadecimal: equal images behave alike."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GuestValue:
    """A value of a guest's."""

    repr: str
    """As the language shows it, cut at 65,536 characters."""

    json: str | None = None
    """As JSON text, where it is JSON of at most 1,048,576 bytes. It is well-formed; what it says is the guest's."""


ToolError = Literal["failed", "limit", "timeout", "unknown", "invalid-arguments"]
"""How a tool's call failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallFailure:
    """Why a tool gave no result, in words for the script."""

    kind: ToolError
    """How it failed: the class of the exception that the script gets."""

    message: str
    """What the script is told, cut at 4,096 bytes. Keep out of it what a script may not know."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolFailure:
    """A tool's call that failed."""

    kind: ToolError
    """How."""

    message: str | None = None
    """What the script was told; none where the record is full."""


@dataclass(frozen=True, slots=True)
class ToolOutcomeReturned:
    """It returned this, as JSON text; none where the record is full."""

    value: str | None
    tag: ClassVar[Literal["returned"]] = "returned"


@dataclass(frozen=True, slots=True)
class ToolOutcomeFailed:
    """It failed, or was refused."""

    value: ToolFailure
    tag: ClassVar[Literal["failed"]] = "failed"


@dataclass(frozen=True, slots=True)
class ToolOutcomeUnfinished:
    """The execution ended first."""

    tag: ClassVar[Literal["unfinished"]] = "unfinished"


ToolOutcome = Union[ToolOutcomeReturned, ToolOutcomeFailed, ToolOutcomeUnfinished]
"""What became of a tool's call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRecord:
    """One call of a tool."""

    name: str
    """The name that the script called, cut at 64 characters. It may be no tool's."""

    arguments: str | None = None
    """The arguments as JSON text; none where the record is full."""

    outcome: ToolOutcome
    """What became of it."""

    started_ns: int
    """When it was called, in nanoseconds from the start of the execution; 0 without `features.wall-clock`."""

    duration_ns: int
    """How long it took, in nanoseconds, its wait for a turn included; 0 without `features.wall-clock`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WentBack:
    """What a session did after an execution that was unwound."""

    executions_lost: int
    """How many executions before the unwound one are lost with it: none where a checkpoint was taken right before it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """What one execution did and used."""

    outcome: Outcome
    """What the guest did."""

    interrupted: Raised | None = None
    """The exception by which the script ended when it was asked to stop; then the outcome is what it was asked for."""

    value: GuestValue | None = None
    """The value of the script's last expression, in a session; none where it ends with something else, or where that is
    `None` or `undefined`.
    """

    stdout: Output
    """What it wrote to standard output."""

    stderr: Output
    """What it wrote to standard error. Where a limit ended it, the last line names that: `OutOfFuel`, `TimedOut` or
    `OutOfMemory`.
    """

    fuel_consumed: int
    """Fuel used. An execution that ran out of fuel used all of it; for one that was stopped from outside, by time or a
    cancellation, it is a lower bound.
    """

    memory_used_bytes: int
    """The most memory in use: all that counts under `limits.memory-bytes`."""

    duration_ns: int
    """Wall-clock time in nanoseconds; compiling never counts. 0 without `features.wall-clock`."""

    files_created: list[str]
    """Files that were not there before, relative to `/app`, sorted."""

    files_modified: list[str]
    """Files that were written to, relative to `/app`, sorted."""

    files_deleted: list[str]
    """Files that are gone, relative to `/app`, sorted."""

    tool_calls: list[ToolRecord]
    """The tools it called, in the order of the calls; those that `limits.tool-calls` refused are not here."""

    session_id: str | None = None
    """The session's id, for an execution in one."""

    went_back: WentBack | None = None
    """Whether the session went back to its last checkpoint, because the guest was unwound: what the script did to variables
    and files is undone.
    """

    metadata: Metadata
    """How it was carried out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnostic:
    """One thing the language's own parser says about a source."""

    line: int
    """The line, counted from 1."""

    column: int
    """The column in Unicode code points, counted from 1."""

    message: str
    """The parser's message."""


FileKind = Literal["file", "directory", "symlink"]
"""What something in a workspace is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """One file, directory or symbolic link of a workspace."""

    path: str
    """Its path relative to `/app`, in its shortest form; empty for the workspace itself."""

    kind: FileKind
    """What it is."""

    size_bytes: int
    """Bytes of a file, or of a link's target; 0 for a directory."""

    modified_ns: int
    """Last change of the content, in nanoseconds since 1970, by the clock of the policy."""


IfExists = Literal["fail", "replace"]
"""What becomes of a file that has the name of a new one."""


FileError = Literal["invalid-path", "not-found", "exists", "wrong-kind", "no-space", "refused"]
"""Why an operation on files was refused. The workspace is as it was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFailure:
    """An operation on files that was refused."""

    kind: FileError
    """Why."""

    path: str
    """The path or pattern, as it was given, cut at 4,096 bytes."""

    message: str
    """The same in words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointInfo:
    """A state that a session can be set back to."""

    id: int
    """Its name within the session. Later ones are greater."""

    automatic: bool
    """Whether the session took it by itself, before an execution. It is replaced by the next such one."""

    executions: int
    """How many executions the state has behind it."""

    private_bytes: int
    """Memory of its own, in bytes: what differs from a new session's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionInfo:
    """A session, as its last execution left it."""

    id: str
    """Its id: chosen by the provider, and no secret."""

    executions: int
    """How many executions its state has behind it: going back and undoing take some away."""

    memory_bytes: int
    """Linear memory, in bytes."""

    private_bytes: int
    """What of it is the session's own, in bytes, as of its last checkpoint."""

    held_bytes: int
    """What it counts for under `limits.session-total-bytes`."""

    checkpoints: int
    """How many states it can be set back to."""

    went_back: int
    """How often it went back."""

    ended: str | None = None
    """Why it has ended, if it has."""


Features = frozenset[Literal["wall-clock", "entropy", "tools", "stepping"]]
"""What a provider can do beside executing, validating and keeping sessions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeInfo:
    """A runtime that a provider has."""

    name: str
    """Its name, for `runtime.named`."""

    language: Language
    """The language of its scripts."""

    version: str | None = None
    """The interpreter's version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderInfo:
    """What a provider is and has."""

    name: str
    """Its name."""

    version: str
    """Its version."""

    features: Features
    """What it can do."""

    runtimes: list[RuntimeInfo]
    """The runtimes it has, the default one of each language first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TooLarge:
    """A size that is over its limit."""

    bytes: int
    """The size, in bytes."""

    most: int
    """The limit, in bytes."""


@dataclass(frozen=True, slots=True)
class SandboxErrorUnknownRuntime:
    """No runtime has this name, or the provider has none for the language."""

    value: str
    tag: ClassVar[Literal["unknown-runtime"]] = "unknown-runtime"


@dataclass(frozen=True, slots=True)
class SandboxErrorInvalidPolicy:
    """The policy cannot be, or asks for more than is granted; the text names the key, and what it may be."""

    value: str
    tag: ClassVar[Literal["invalid-policy"]] = "invalid-policy"


@dataclass(frozen=True, slots=True)
class SandboxErrorInvalidArgument:
    """An argument cannot be: a script's name, a variable's name or JSON text, a tool's definition. The text names it."""

    value: str
    tag: ClassVar[Literal["invalid-argument"]] = "invalid-argument"


@dataclass(frozen=True, slots=True)
class SandboxErrorSourceTooLarge:
    """The source is over `limits.source-bytes`."""

    value: TooLarge
    tag: ClassVar[Literal["source-too-large"]] = "source-too-large"


@dataclass(frozen=True, slots=True)
class SandboxErrorStdinTooLarge:
    """Standard input, or a variable's JSON text, is over `limits.stdin-bytes`."""

    value: TooLarge
    tag: ClassVar[Literal["stdin-too-large"]] = "stdin-too-large"


@dataclass(frozen=True, slots=True)
class SandboxErrorTooManySessions:
    """One more session, or one more checkpoint, is over a limit; the text names it."""

    value: str
    tag: ClassVar[Literal["too-many-sessions"]] = "too-many-sessions"


@dataclass(frozen=True, slots=True)
class SandboxErrorQuotaExceeded:
    """One more would be over what the provider grants its caller as a whole; the text names the quota. Dropping what is
    held may help, where the quota is on what is held.
    """

    value: str
    tag: ClassVar[Literal["quota-exceeded"]] = "quota-exceeded"


@dataclass(frozen=True, slots=True)
class SandboxErrorSessionEnded:
    """The session has ended: its guest left, it was closed, or it was unwound with nothing to go back to. The text
    says how.
    """

    value: str
    tag: ClassVar[Literal["session-ended"]] = "session-ended"


@dataclass(frozen=True, slots=True)
class SandboxErrorSessionBusy:
    """An execution that was started has not come to its end: one in the session, or the one whose files are asked for."""

    value: str
    tag: ClassVar[Literal["session-busy"]] = "session-busy"


@dataclass(frozen=True, slots=True)
class SandboxErrorNoCheckpoint:
    """The session has no such state to go back to."""

    value: str
    tag: ClassVar[Literal["no-checkpoint"]] = "no-checkpoint"


@dataclass(frozen=True, slots=True)
class SandboxErrorVariable:
    """A variable could not be read or set; the text says what the guest said, or what stopped it. One that was unwound
    has set the session back, as `execution.went-back` tells of executions: see `session-info.went-back`.
    """

    value: str
    tag: ClassVar[Literal["variable"]] = "variable"


@dataclass(frozen=True, slots=True)
class SandboxErrorFile:
    """An operation on files was refused."""

    value: FileFailure
    tag: ClassVar[Literal["file"]] = "file"


@dataclass(frozen=True, slots=True)
class SandboxErrorNotResumable:
    """The bytes are no hibernated session, or none that this provider, runtime and policy can resume."""

    value: str
    tag: ClassVar[Literal["not-resumable"]] = "not-resumable"


@dataclass(frozen=True, slots=True)
class SandboxErrorUnsupported:
    """The provider cannot do this; the text says what it lacks. `provider-info.features` tells beforehand."""

    value: str
    tag: ClassVar[Literal["unsupported"]] = "unsupported"


@dataclass(frozen=True, slots=True)
class SandboxErrorUnavailable:
    """No instance could be made; trying again later may help."""

    value: str
    tag: ClassVar[Literal["unavailable"]] = "unavailable"


SandboxError = Union[SandboxErrorUnknownRuntime, SandboxErrorInvalidPolicy, SandboxErrorInvalidArgument, SandboxErrorSourceTooLarge, SandboxErrorStdinTooLarge, SandboxErrorTooManySessions, SandboxErrorQuotaExceeded, SandboxErrorSessionEnded, SandboxErrorSessionBusy, SandboxErrorNoCheckpoint, SandboxErrorVariable, SandboxErrorFile, SandboxErrorNotResumable, SandboxErrorUnsupported, SandboxErrorUnavailable]
"""What went wrong on the provider's or the caller's side: nothing was executed, and nothing was changed, but for `variable`,
which tells of code of the guest's. Texts are for people, and change between versions. Named so because `error` is a keyword
in some bindings.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRequest:
    """A call of one of the caller's tools by a script that waits for it."""

    id: int
    """Which call of the execution it is, counted from 0: its place in `execution.tool-calls`. Calls of the provider's own
    tools count, so that there may be gaps.
    """

    name: str
    """The tool's name."""

    arguments: str
    """The arguments: the text of a JSON object, which the tool's schema has accepted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAnswer:
    """What the caller answers a `tool-request`."""

    id: int
    """The request's."""

    answer: str | CallFailure
    """JSON text, or why there is none. More than `limits.tool-bytes` fails in the guest."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """It has ended."""

    value: Execution
    tag: ClassVar[Literal["done"]] = "done"


@dataclass(frozen=True, slots=True)
class StepNeedsTools:
    """These calls, in ascending order of their ids, have no answer yet, and the script waits, for them at least, or the time
    that `continue` was given is over.
    """

    value: list[ToolRequest]
    tag: ClassVar[Literal["needs-tools"]] = "needs-tools"


@dataclass(frozen=True, slots=True)
class StepRunning:
    """The time that `continue` was given is over, and the script goes on, with no call that has no answer."""

    tag: ClassVar[Literal["running"]] = "running"


Step = Union[StepDone, StepNeedsTools, StepRunning]
"""How far a started execution has come."""


OutputStream = Literal["stdout", "stderr"]
"""Which of a script's output streams."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionOptions:
    """How a session is opened."""

    context: str | None = None
    """JSON text of what its scripts find in the global variable `context`, at most `limits.stdin-bytes`. Default: no such
    variable.
    """

    tools: list[Tool] | None = None
    """The caller's tools, as for `start`. They answer in executions that `session.start` began; in others a call to one fails
    in the script (`tool-error.failed`). Default: none.
    """

__all__ = [
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
    "Diagnostic",
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
    "GuestValue",
    "IfExists",
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
    "WentBack",
]
