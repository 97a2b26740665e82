"""Request and response classes."""

import datetime
import http
import json as json_module
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from .auth import HTTPBasicAuth
from .cookies import RequestsCookieJar
from .exceptions import HTTPError, InvalidHeader, InvalidJSONError, InvalidSchema, InvalidURL, JSONDecodeError, MissingSchema
from .structures import CaseInsensitiveDict

REDIRECTS = (301, 302, 303, 307, 308)
UNCHANGED = "!#$%&'()*+,/:;=?@[]~"  # characters of a URL that are not percent-encoded


class _Codes:
    """Status codes by name: `codes.ok`, `codes.not_found`."""

    def __init__(self):
        for status in http.HTTPStatus:
            for name in (status.name, status.name.lower()):
                setattr(self, name, int(status))

    def __getitem__(self, name):
        return getattr(self, name)


codes = _Codes()


def encoded(data):
    """Percent-encodes the fields of a form or query. A field can have a list of values."""
    pairs = data.items() if hasattr(data, "items") else data
    flat = []
    for name, values in pairs:
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            values = [values]
        flat += [(name, value) for value in values if value is not None]
    return urlencode(flat)


class Request:
    """A request that a script creates. `prepare` converts it to a PreparedRequest, which is sent to the server."""

    def __init__(
        self, method=None, url=None, headers=None, files=None, data=None, params=None, auth=None, cookies=None, hooks=None, json=None
    ):
        if files:
            raise NotImplementedError("`files` is not supported; send the bytes as `data`")
        self.method, self.url, self.headers, self.data, self.params = method, url, headers or {}, data or [], params or {}
        self.auth, self.cookies, self.json = auth, cookies, json

    def prepare(self):
        prepared = PreparedRequest()
        prepared.prepare(self.method, self.url, self.headers, self.data, self.params, self.auth, self.cookies, self.json)
        return prepared

    def __repr__(self):
        return f"<Request [{self.method}]>"


class PreparedRequest:
    """A request with the exact values that are sent to the server."""

    def __init__(self):
        self.method = self.url = self.headers = self.body = None
        self.own_cookies = {}

    def prepare(self, method=None, url=None, headers=None, data=None, params=None, auth=None, cookies=None, json=None):
        self.method = (method or "GET").upper()
        self.prepare_url(url, params)
        self.prepare_headers(headers)
        self.prepare_body(data, json)
        self.prepare_auth(auth)
        self.own_cookies = dict(cookies or {})

    def prepare_url(self, url, params):
        text = url.decode() if isinstance(url, bytes) else str(url)
        text = text.lstrip()
        try:
            scheme, place, path, query, fragment = urlsplit(text)
        except ValueError as error:
            raise InvalidURL(str(error)) from None
        if not scheme:
            raise MissingSchema(f"Invalid URL {text!r}: No scheme supplied. Perhaps you meant https://{text}?")
        if scheme.lower() not in ("http", "https"):
            raise InvalidSchema(f"No connection adapters were found for {text!r}")
        if not place:
            raise InvalidURL(f"Invalid URL {text!r}: No host supplied")
        if params:
            more = params.decode() if isinstance(params, bytes) else params if isinstance(params, str) else encoded(params)
            query = f"{query}&{more}" if query and more else query or more
        self.url = urlunsplit((scheme, place, quote(path or "/", UNCHANGED), quote(query, UNCHANGED), quote(fragment, UNCHANGED)))

    def prepare_headers(self, headers):
        self.headers = CaseInsensitiveDict()
        for name, value in (headers or {}).items():
            name, value = (part.decode("latin-1") if isinstance(part, bytes) else part for part in (name, value))
            if not isinstance(value, str):
                raise InvalidHeader(f"Header value of {name!r} must be of type str or bytes, not {type(value)}")
            if "\r" in value or "\n" in value or value[:1].isspace():
                raise InvalidHeader(f"Invalid leading whitespace, reserved character(s), or return character(s) in header value: {value!r}")
            self.headers[name] = value

    def prepare_body(self, data, json):
        body = kind = None
        if not data and json is not None:
            kind = "application/json"
            try:
                body = json_module.dumps(json, allow_nan=False).encode()
            except ValueError as error:
                raise InvalidJSONError(error, request=self) from None
        elif hasattr(data, "read"):
            body = data.read()
        elif isinstance(data, (str, bytes, bytearray)):
            body, kind = data, "application/x-www-form-urlencoded" if isinstance(data, str) and data else None
        elif data and (hasattr(data, "items") or isinstance(data, (list, tuple))):
            body, kind = encoded(data), "application/x-www-form-urlencoded"
        elif data:
            body = b"".join(part.encode() if isinstance(part, str) else part for part in data)
        self.body = body.encode() if isinstance(body, str) else body
        if kind and "content-type" not in self.headers:
            self.headers["Content-Type"] = kind

    def prepare_auth(self, auth):
        parts = urlsplit(self.url)
        if auth is None and "@" in parts.netloc:
            auth = (parts.username or "", parts.password or "")
        if "@" in parts.netloc:
            self.url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        if auth:
            if isinstance(auth, tuple) and len(auth) == 2:
                auth = HTTPBasicAuth(*auth)
            self.__dict__.update(auth(self).__dict__)

    @property
    def path_url(self):
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def copy(self):
        other = PreparedRequest()
        other.__dict__.update(self.__dict__, headers=self.headers.copy(), own_cookies=dict(self.own_cookies))
        return other

    def __repr__(self):
        return f"<PreparedRequest [{self.method}]>"


class Response:
    """The server's response to a request. Its truth value is `ok`: the status code is less than 400."""

    def __init__(self):
        self._content = b""
        self.status_code = self.reason = self.url = self.encoding = self.request = None
        self.headers, self.cookies, self.history = CaseInsensitiveDict(), RequestsCookieJar(), []
        self.elapsed = datetime.timedelta(0)

    def __repr__(self):
        return f"<Response [{self.status_code}]>"

    def __bool__(self):
        return self.ok

    def __iter__(self):
        return self.iter_content(128)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    @property
    def ok(self):
        return self.status_code < 400

    @property
    def is_redirect(self):
        return "location" in self.headers and self.status_code in REDIRECTS

    @property
    def is_permanent_redirect(self):
        return "location" in self.headers and self.status_code in (301, 308)

    @property
    def content(self):
        return self._content

    @property
    def apparent_encoding(self):
        try:
            self._content.decode()
        except UnicodeDecodeError:
            return "latin-1"
        return "utf-8"

    @property
    def text(self):
        try:
            return self._content.decode(self.encoding or self.apparent_encoding, "replace")
        except LookupError:
            return self._content.decode("utf-8", "replace")

    def json(self, **kwargs):
        try:
            return json_module.loads(self._content.decode("utf-8-sig") if self._content else "", **kwargs)
        except UnicodeDecodeError:
            text = self.text
        except json_module.JSONDecodeError as error:
            raise JSONDecodeError(error.msg, error.doc, error.pos) from None
        try:
            return json_module.loads(text, **kwargs)
        except json_module.JSONDecodeError as error:
            raise JSONDecodeError(error.msg, error.doc, error.pos) from None

    def iter_content(self, chunk_size=1, decode_unicode=False):
        data, size = (self.text if decode_unicode else self._content), chunk_size or len(self._content) or 1
        return (data[at : at + size] for at in range(0, len(data), size))

    def iter_lines(self, chunk_size=512, decode_unicode=False, delimiter=None):
        data = self.text if decode_unicode else self._content
        return iter(data.split(delimiter) if delimiter else data.splitlines())

    @property
    def links(self):
        """Returns the parsed `Link` headers, by `rel`, or by URL if `rel` is missing."""
        found = {}
        for part in self.headers.get("link", "").split(","):
            url, *parameters = part.split(";")
            link = {"url": url.strip("<> '\"")}
            for parameter in parameters:
                name, _, value = parameter.partition("=")
                link[name.strip("> '\"")] = value.strip("> '\"")
            if link["url"]:
                found[link.get("rel") or link["url"]] = link
        return found

    def raise_for_status(self):
        kind = {4: "Client Error", 5: "Server Error"}.get(self.status_code // 100)
        if kind is not None:
            raise HTTPError(f"{self.status_code} {kind}: {self.reason} for url: {self.url}", response=self)

    def close(self):
        pass
