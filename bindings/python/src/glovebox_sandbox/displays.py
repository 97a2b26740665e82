"""The displays of scripts: objects that they show in addition to their printed output."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_TEXTS = ("application/json", "application/javascript", "application/xml")


def is_text(media_type: str) -> bool:
    """Returns `True` if data of a media type is text."""
    return media_type.startswith("text/") or media_type.endswith(("+json", "+xml")) or media_type in _TEXTS


class Display(Mapping[str, "str | bytes"]):
    """An object that a script displayed, in one or more forms by media type. A client renders the form that suits it
    best.

    The content is untrusted: an HTML page may contain scripts, and `image/png` might not be an image. Render it like
    any untrusted data.

    >>> shown = Display([("text/plain", b"1"), ("image/png", b"...")])
    >>> shown.text, shown.png, shown.html, list(shown)
    ('1', b'...', None, ['text/plain', 'image/png'])
    """

    def __init__(self, forms: Sequence[tuple[str, bytes]], is_result: bool = False) -> None:
        self._forms = {name: data.decode("utf-8", "replace") if is_text(name) else data for name, data in forms}
        self.is_result = is_result
        """`True` for the value of the script's last expression, `False` for a call to `display`."""

    def __getitem__(self, media_type: str) -> str | bytes:
        return self._forms[media_type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._forms)

    def __len__(self) -> int:
        return len(self._forms)

    def __repr__(self) -> str:
        return f"<Display: {', '.join(self._forms)}>"

    def _text(self, media_type: str) -> str | None:
        data = self._forms.get(media_type)
        return data if isinstance(data, str) else None

    def _bytes(self, media_type: str) -> bytes | None:
        data = self._forms.get(media_type)
        return data if isinstance(data, bytes) else None

    @property
    def text(self) -> str | None:
        """The `text/plain` form."""
        return self._text("text/plain")

    @property
    def html(self) -> str | None:
        """The `text/html` form."""
        return self._text("text/html")

    @property
    def markdown(self) -> str | None:
        """The `text/markdown` form."""
        return self._text("text/markdown")

    @property
    def svg(self) -> str | None:
        """The `image/svg+xml` form."""
        return self._text("image/svg+xml")

    @property
    def png(self) -> bytes | None:
        """The `image/png` form."""
        return self._bytes("image/png")

    @property
    def jpeg(self) -> bytes | None:
        """The `image/jpeg` form."""
        return self._bytes("image/jpeg")

    @property
    def json(self) -> str | None:
        """The `application/json` form, as text."""
        return self._text("application/json")

    def bundle(self) -> dict[str, str]:
        """Returns the forms as notebooks store them, with bytes as base64."""
        encoded = ((name, data if isinstance(data, str) else base64.b64encode(data).decode()) for name, data in self.items())
        return dict(encoded)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Renders the display in a notebook."""
        return self.bundle()
