"""Displays: `display(value)`, `pyplot.show()`, and the value of the last statement if it has a rich representation.

A display is one message to a device: its kind, then the media type and the data of each representation. The host drops
displays that exceed its limits.
"""

DISPLAYS = "/dev/glovebox/displays"
BACKEND = "module://glovebox_figures"  # the value of `MPLBACKEND` that selects this backend

# The methods with which libraries define representations for IPython notebooks, by media type.
_METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
    ("application/pdf", "_repr_pdf_"),
)
_TEXTS = "text/", "application/json", "application/javascript", "image/svg+xml"
# Common types without a rich representation.
_PLAIN = frozenset((bool, bytes, complex, dict, float, frozenset, int, list, range, set, str, tuple))


def display(*values, include=None, exclude=None, raw=False):
    """Displays values to the caller of the script: images, tables and figures in their rich form, other values as text.

    As in notebooks, a value's representations come from `_repr_mimebundle_` and from methods such as `_repr_html_` and
    `_repr_png_`. `include` and `exclude` select media types. With `raw=True`, values are dicts from media type to data.
    """
    for value in values:
        if raw:
            forms = dict(value)
        else:
            forms = {"text/plain": clipped_repr(value), **forms_of(value)}
        if include is not None:
            forms = {each: forms[each] for each in forms if each in include}
        if exclude is not None:
            forms = {each: forms[each] for each in forms if each not in exclude}
        if forms:
            send_display(b"D", forms)


display.__module__ = "builtins"
builtins.display = display


def show_result(value, text):
    """Displays the value of a script's last statement if it has a rich representation."""
    try:
        forms = forms_of(value)
        if forms:
            send_display(b"R", {"text/plain": text, **forms})
    except Exception:  # the value is reported as text only
        pass


def clipped_repr(value):
    text = repr(value)
    return text if len(text) <= REPR_CHARS else clip(text, REPR_CHARS - 7)


def forms_of(value):
    """Returns a value's rich representations by media type. Methods that fail are ignored, as in notebooks."""
    kind, forms = type(value), {}
    if kind in _PLAIN:
        return forms
    figure = sys.modules.get("matplotlib.figure")
    if figure is not None and isinstance(value, figure.Figure):
        shown_figures.add(value)
        return {"image/png": picture(value)}
    if kind.__module__.startswith("leather."):  # charts have `to_svg`, but no `_repr_svg_`
        return {"image/svg+xml": value.to_svg()}
    bundle = getattr(kind, "_repr_mimebundle_", None)
    if bundle is not None:
        try:
            found = bundle(value, include=None, exclude=None)
            forms.update(found[0] if isinstance(found, tuple) else found)
        except Exception:
            pass
    for media_type, name in _METHODS:
        method = None if media_type in forms else getattr(kind, name, None)
        # Omits the JPEG if the value also has a PNG.
        if method is None or media_type == "image/jpeg" and "image/png" in forms:
            continue
        try:
            found = method(value)
        except Exception:
            continue
        if found is not None:
            forms[media_type] = found[0] if isinstance(found, tuple) else found
    return forms


def picture(figure):
    data = io.BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight")
    return data.getvalue()


def send_display(kind, forms):
    """Sends a display to the host. Omits data that cannot be encoded as JSON."""
    parts = [kind]
    for media_type, data in forms.items():
        if isinstance(data, str):
            if media_type.startswith(_TEXTS) or media_type.endswith(("+json", "+xml")):
                data = data.encode("utf-8", "replace")
            else:  # base64, as in notebook files
                data = base64.b64decode(data)
        elif isinstance(data, (bytes, bytearray, memoryview)):
            data = bytes(data)
        else:
            try:
                data = encode_json(data).encode("utf-8", "replace")
            except (TypeError, ValueError):
                continue
        media_type = media_type.encode()
        parts += len(media_type).to_bytes(4, "little"), media_type, len(data).to_bytes(4, "little"), data
    if len(parts) > 1:
        device = open_device(DISPLAYS, os.O_WRONLY)
        try:
            write_device(device, b"".join(parts))
        finally:
            close_device(device)


# --- matplotlib's backend -------------------------------------------------------------------------


shown_figures = weakref.WeakSet()  # figures already displayed, by `display` or as the value of a script


def show_left(result, name):
    """Displays the figures that a script left open, as notebooks do, if `BACKEND` is selected. `result` is the script's
    report."""
    global running
    try:
        figures = sys.modules["matplotlib._pylab_helpers"].Gcf
        if not figures.figs:  # no call, because the script may have replaced matplotlib's functions
            return result
        chosen = sys.modules["matplotlib.pyplot"].get_backend(), os.environ.get("MPLBACKEND")
        if chosen != (BACKEND, BACKEND):
            return result
        running = True
        try:
            if result is None or result[:1] != b"I":  # the script was not interrupted near a limit
                show_open(figures.get_all_fig_managers())
        finally:
            figures.destroy_all()
            running = False
    except BaseException as error:
        running = False
        return failed(error, name)
    return result


def show_open(managers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings would name the driver's lines
        for manager in managers:
            if manager.canvas.figure not in shown_figures:
                try:
                    display(manager.canvas.figure)
                except Exception as error:  # e.g. an invalid formula; the script itself has already finished
                    write_error(render(error))


def show_figures(*args, **kwargs):
    """Displays all open figures and closes them, as in notebooks."""
    from matplotlib._pylab_helpers import Gcf

    try:
        for manager in Gcf.get_all_fig_managers():
            display(manager.canvas.figure)
    finally:
        Gcf.destroy_all()


show_figures.__module__ = "matplotlib.pyplot"


def make_figures():
    """Creates the backend module. `library.py` calls this when a script imports pyplot, which loads the backend."""
    figures = type(sys)("glovebox_figures")
    figures.FigureCanvas = importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg
    figures.show = show_figures
    sys.modules[figures.__name__] = figures
