"""Builtin functions for scripts that split or search a long text in the global `context`."""


def chunk_text(text, size, overlap=0):
    """Splits text into chunks of `size` characters. Each starts with the last `overlap` characters of the previous
    one."""
    if size < 1 or not 0 <= overlap < size:
        raise ValueError("size must be at least 1, and overlap must be at least 0 and less than size")
    starts = range(0, max(len(text) - overlap, 1), size - overlap) if text else ()
    return [text[start : start + size] for start in starts]


def search_context(pattern, window=100):
    """Searches the global `context` for a regular expression. If `context` is not a string, searches its JSON text.

    Returns a list of {"match", "start", "end", "context"}; "context" includes `window` characters on either side."""
    try:
        text = namespace["context"]
    except KeyError:
        raise NameError("name 'context' is not defined", name="context") from None
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False, separators=(",", ":"))
    found = []
    for match in re.finditer(pattern, text):
        start, end = match.span()
        around = text[max(start - window, 0) : end + window]
        found.append({"match": match[0], "start": start, "end": end, "context": around})
    return found
