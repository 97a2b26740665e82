"""Helpers for a `context` that is longer than anybody wants to read at once. They are builtins."""


def chunk_text(text, size, overlap=0):
    """Cuts text into pieces of `size` characters, each beginning with the last `overlap` of the one before."""
    if size < 1 or not 0 <= overlap < size:
        raise ValueError("size must be at least 1, and overlap at least 0 and less than size")
    starts = range(0, max(len(text) - overlap, 1), size - overlap) if text else ()
    return [text[start : start + size] for start in starts]


def search_context(pattern, window=100):
    """Finds a regular expression in the global `context` (in its JSON text, unless it is a string).

    Returns a list of {"match", "start", "end", "context"}, the last with `window` characters on either side."""
    try:
        text = namespace["context"]
    except KeyError:
        raise NameError("there is no `context` to search", name="context") from None
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False, separators=(",", ":"))
    found = []
    for match in re.finditer(pattern, text):
        start, end = match.span()
        around = text[max(start - window, 0) : end + window]
        found.append({"match": match[0], "start": start, "end": end, "context": around})
    return found
