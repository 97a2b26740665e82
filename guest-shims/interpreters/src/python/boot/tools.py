"""The host's tools, as `tools.NAME(...)`, and as `tools.NAME.aio(...)` for concurrent calls with asyncio.

A call is one message to a device, and its reply is a frame read from the device. The device is opened for each message,
and tools are looked up on first use. Scripts without tools therefore pay nothing, and a session that is resumed
elsewhere sees the tools of its new host.
"""

DEVICE = "/dev/glovebox/tools"
MAX_EMPTY_READS = 3


class ToolError(Exception):
    """A tool failed. The message comes from the host."""


class ToolLimit(ToolError):
    """There were too many calls, or a message was too large."""


class ToolTimeout(ToolError):
    """A tool timed out."""


class UnknownTool(ToolError):
    """The host has no such tool."""


class InvalidArguments(ToolError):
    """The arguments do not match the tool's schema."""


class ToolDenied(ToolError):
    """A person or a policy refused the call. Do not retry the call."""


ERRORS = {
    error.__name__: error
    for error in (ToolError, ToolLimit, ToolTimeout, UnknownTool, InvalidArguments, ToolDenied)
}
for _error in ERRORS.values():
    _error.__module__ = "tools"  # where scripts access it

TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}

owner = None  # the source of the execution that the following values belong to
catalogue = None  # the host's tools, by name
functions = {}  # the functions of tools that the script has used
pending = {}  # the futures of calls without a reply, by call number
numbers = itertools.count(1)


def forget_earlier():
    """Forgets the tools and calls of an earlier execution. The host no longer answers those calls, and may offer
    different tools."""
    global owner, catalogue
    if owner is not source:
        owner, catalogue = source, None
        functions.clear()
        pending.clear()


# --- the device -----------------------------------------------------------------------------------

open_device, close_device, read_device, write_device = _open, os.close, os.read, os.write


def exchange(message, expects_reply):
    """Writes a message, if any, and reads a reply. Returns `None` if no reply is due or the wait timed out.

    Opens the device each time, because a script can close any descriptor and reuse its number. An interrupt is delayed
    until the reply is complete; otherwise the next read would start with the rest of this reply."""
    global exchanging, held_back
    exchanging = True
    try:
        device = open_device(DEVICE, os.O_RDWR)
        try:
            if message is not None:
                write_device(device, message)
            return read_reply(device) if expects_reply else None
        finally:
            close_device(device)
    except OSError as error:
        if error.errno == errno.EMSGSIZE:
            raise ToolLimit(
                f"the arguments exceed `limits.tool_bytes`: {len(message)} bytes; send less or raise the limit"
            ) from None
        raise
    finally:
        exchanging = False
        if held_back is not None:
            error, held_back = held_back, None
            raise error


def read_reply(device):
    head = read_device(device, 4)
    if not head:
        return None
    size, parts = int.from_bytes(head, "little"), []
    while size > 0 and (part := read_device(device, size)):
        parts.append(part)
        size -= len(part)
    return decode_json(b"".join(parts).decode())


def deliver(reply):
    """Passes a reply to the task that waits for it, unless the task was cancelled or its loop was closed."""
    if reply["id"] is None:
        raise ToolError(reply["error"]["message"])
    future = pending.pop(reply["id"], None)
    if future is not None and not future.done() and not future.get_loop().is_closed():
        future.set_result(reply)


def outcome(reply):
    if "error" in reply:
        raise ERRORS.get(reply["error"]["type"], ToolError)(reply["error"]["message"])
    return reply["ok"]


def request(number, name, arguments):
    try:
        return encode_json({"id": number, "name": name, "arguments": arguments}).encode()
    except (TypeError, ValueError) as error:
        reason = str(error)
    raise TypeError(f"an argument of {name}() cannot be encoded as JSON: {reason}")


def invoke(name, arguments):
    """Calls a tool and waits for its reply. Delivers replies to other calls that arrive in the meantime."""
    forget_earlier()
    number = next(numbers)
    reply = exchange(request(number, name, arguments), True)
    misses = 0
    while True:
        if reply is None:  # a read returns early if the script is interrupted, but the script may ignore the interrupt
            misses += 1
            if misses == MAX_EMPTY_READS:
                raise ToolError("the host did not answer")
        elif reply["id"] == number:
            return outcome(reply)
        else:
            deliver(reply)
        reply = exchange(None, True)


async def start(name, arguments):
    """Calls a tool without blocking other tasks."""
    future = asyncio.get_running_loop().create_future()
    forget_earlier()
    number = next(numbers)
    exchange(request(number, name, arguments), False)
    pending[number] = future
    try:
        return outcome(await future)
    finally:
        pending.pop(number, None)


def await_reply(timeout):
    """Waits for a reply on behalf of an idle event loop, for at most `timeout` seconds or indefinitely. Returns `False`
    if no call is pending, or if the host does not answer."""
    forget_earlier()
    if not pending:
        return False
    end = None if timeout is None else time.monotonic() + timeout
    timeout_ms = b"null" if timeout is None else b"%d" % max(math.ceil(timeout * 1000), 0)
    for _ in range(MAX_EMPTY_READS):
        reply = exchange(b'{"wait":%s}' % timeout_ms, True)
        if reply is not None:
            deliver(reply)
            return True
        if end is not None:
            if (rest := end - time.monotonic()) > 0:
                time.sleep(rest)  # advances a fixed clock
            return True
    return False


# --- functions ------------------------------------------------------------------------------------


def offered():
    global catalogue
    forget_earlier()
    if catalogue is None:
        reply = exchange(b'{"list":true}', True)
        while reply is not None and "tools" not in reply:
            deliver(reply)
            reply = exchange(None, True)
        catalogue = {entry["name"]: entry for entry in reply["tools"]} if reply is not None else {}
    return catalogue


def function(name):
    """Returns the tool's function, or `None` for an unknown tool."""
    entry = offered().get(name)
    if entry is not None and name not in functions:
        functions[name] = made(entry)
    return functions.get(name)


def made(entry):
    name, parameters = entry["name"], entry["parameters"]

    def arguments(args, named):
        if len(args) > len(parameters):
            plural, verb = "" if len(parameters) == 1 else "s", "was" if len(args) == 1 else "were"
            counts = f"{len(parameters)} positional argument{plural} but {len(args)} {verb} given"
            raise TypeError(f"{name}() takes {counts}")
        for parameter in parameters[: len(args)]:
            if parameter in named:
                raise TypeError(f"{name}() got multiple values for argument {parameter!r}")
        return {**dict(zip(parameters, args)), **named}

    def call(*args, **named):
        return invoke(name, arguments(args, named))

    async def aio(*args, **named):
        return await start(name, arguments(args, named))

    for each, doc in (call, entry["description"]), (aio, f"Like tools.{name}, but awaitable: calls run concurrently."):
        each.__name__, each.__module__, each.__doc__ = name, "tools", doc
        each.__qualname__, each.__signature__ = f"tools.{name}", signature(entry)
    aio.__name__, aio.__qualname__ = "aio", f"tools.{name}.aio"
    call.aio = aio
    return call


class Absent:
    """The default value of an optional argument without a default in the schema. Such an argument is not sent."""

    def __repr__(self):
        return "..."


def signature(entry):
    """Builds a signature for `help` and `inspect.signature`. The host validates the arguments."""
    schema = entry["schema"] if isinstance(entry["schema"], dict) else {}
    required, parameters = schema.get("required", ()), []
    for name in entry["parameters"]:
        about = schema.get("properties", {}).get(name)
        about = about if isinstance(about, dict) else {}
        default = inspect.Parameter.empty if name in required else about.get("default", absent)
        kind = about.get("type")
        annotation = TYPES.get(kind, inspect.Parameter.empty) if isinstance(kind, str) else inspect.Parameter.empty
        if name.isidentifier() and not keyword.iskeyword(name):  # other names are passed as `**{name: value}`
            form = inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(inspect.Parameter(name, form, default=default, annotation=annotation))
    return inspect.Signature(parameters)


absent = Absent()


# --- search ---------------------------------------------------------------------------------------

# ASCII letters and digits, and all characters from U+00C0 except general punctuation. tools.js has the same pattern.
WORD = re.compile("[A-Z]*[0-9a-z\u00c0-\u1fff\u2070-\U0010ffff]+|[A-Z]+")
NAME_WEIGHT, TEXT_WEIGHT = 4, 1


def spaced(text):
    """Returns the words of a text in lower case, each between two spaces. A name in camel case has several words."""
    return f" {' '.join(WORD.findall(text))} ".lower()


def searched(entry):
    """Returns the words of a tool's name, and those of its description and parameters."""
    if "words" not in entry:
        schema = entry["schema"] if isinstance(entry["schema"], dict) else {}
        texts = [entry["description"], *entry["parameters"]]
        for about in schema.get("properties", {}).values():
            if isinstance(about, dict) and isinstance(about.get("description"), str):
                texts.append(about["description"])
        entry["words"] = spaced(entry["name"]), spaced(" ".join(texts))
    return entry["words"]


def pattern(word):
    """Returns two texts to look for in `searched`. The first matches the whole word. The second matches words that
    start with it, ignoring a final `s`. For a word of one or two letters, the second text equals the first."""
    if len(word) < 3:
        return f" {word} ", f" {word} "
    return f" {word} ", f" {word[:-1] if len(word) > 3 and word.endswith('s') else word}"


def relevance(entry, patterns):
    score = 0
    for text, weight in zip(searched(entry), (NAME_WEIGHT, TEXT_WEIGHT)):
        for whole, start in patterns:
            score += weight * (2 if whole in text else 1 if start in text else 0)
    return score


def matching(query):
    """Returns the entries of the tools that match at least one word, the best match first, then by name."""
    patterns = [pattern(word) for word in dict.fromkeys(spaced(query).split())]
    scores = [(relevance(entry, patterns), entry) for entry in offered().values()]
    return [entry for score, entry in sorted(scores, key=lambda scored: -scored[0]) if score > 0]


def summary(entry):
    name = entry["name"]
    return {"name": name, "description": entry["description"], "signature": f"tools.{name}{signature(entry)}"}


def search(query, limit=5):
    """Finds tools by words of their names, descriptions and parameters.

    Returns a list of {"name", "description", "signature"} with at most `limit` tools, the best match first. A query
    without words matches all tools."""
    found = matching(query) if WORD.search(query) else list(offered().values())
    return [summary(entry) for entry in found[: max(limit, 0)]]


def describe(name):
    """Returns a tool as {"name", "description", "signature", "schema"}. Raises UnknownTool, with similar names, if the
    host has no tool of this name."""
    entry = offered().get(name)
    if entry is None:
        similar = difflib.get_close_matches(name, offered(), 3) or [each["name"] for each in matching(name)[:3]]
        hint = f"similar tools: {', '.join(similar)}" if similar else "find tools with `tools.search(query)`"
        raise UnknownTool(f"the host has no tool `{name}`; {hint}")
    return {**summary(entry), "schema": entry["schema"]}


HELPERS = {"search": search, "describe": describe}
for _name, _function in HELPERS.items():
    _function.__module__, _function.__qualname__ = "tools", f"tools.{_name}"


class Tools:
    """The host's tools. Call one with `tools.NAME(...)`, or several concurrently with `await tools.NAME.aio(...)`.
    `dir(tools)` lists them, `tools.search(query)` finds tools by words, `help(tools.NAME)` and `tools.describe("NAME")`
    describe one. A tool that fails raises `tools.ToolError` or a subclass."""

    __slots__ = ()
    __module__ = "builtins"

    def __getattr__(self, name):
        if name in ERRORS:
            return ERRORS[name]
        found = None if name.startswith("_") else function(name) or HELPERS.get(name)
        if found is None:
            raise AttributeError(f"the host has no tool `{name}`", name=name, obj=self)
        return found

    def __getitem__(self, name):
        found = function(name)
        if found is None:
            raise KeyError(name)
        return found

    def __dir__(self):
        return [*offered(), *ERRORS]

    def __repr__(self):
        return f"<tools: {', '.join(offered()) or 'none'}>"


def named(name):
    found = function(name)
    if found is None:
        raise UnknownTool(f"the host has no tool `{name}`, which `{name}()` requires")
    return found


def llm_query(prompt, **more):
    """Queries a language model and returns its answer. For concurrent queries, use `await llm_query.aio(prompt)`."""
    return named("llm_query")(prompt, **more)


async def llm_query_aio(prompt, **more):
    """Like llm_query, but awaitable: calls run concurrently."""
    return await named("llm_query").aio(prompt, **more)


def rlm_query(task, *ctx, **more):
    """Runs a task in another session with its own context, by default the global `context`, and returns the answer. For
    concurrent tasks, use `await rlm_query.aio(task)`."""
    return named("rlm_query")(task, *own_context(ctx, more), **more)


async def rlm_query_aio(task, *ctx, **more):
    """Like rlm_query, but awaitable: calls run concurrently."""
    return await named("rlm_query").aio(task, *own_context(ctx, more), **more)


def own_context(given, named):
    return given if given or "ctx" in named or "context" not in namespace else (namespace["context"],)


llm_query.aio, rlm_query.aio = llm_query_aio, rlm_query_aio
for _function in llm_query, rlm_query, llm_query_aio, rlm_query_aio, chunk_text, search_context:
    _function.__module__ = "builtins"
for _function in llm_query, rlm_query, chunk_text, search_context:
    setattr(builtins, _function.__name__, _function)
builtins.tools = Tools()


