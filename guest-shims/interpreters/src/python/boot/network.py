"""HTTP requests, performed by the host if its policy allows them.

`http.client` has no socket here. A connection buffers a request, and the host performs it as a whole. `urllib.request`
and other users of `http.client` therefore work unchanged. The host checks each request against the policy; without a
network, a request raises an exception. The host also handles TLS: there is no `ssl` module.
"""

NETWORK_OFF = "the network is off in this sandbox; the operator can allow addresses with `[network] allow`"


class NetworkError(OSError):
    """A failed request. `code` is the reason: `refused`, `invalid`, `limit`, `redirects`, `unreachable`, `broken`,
    `timeout` or `off`."""

    code = "broken"


class NetworkRefused(NetworkError, PermissionError):
    """The policy does not allow the request, or the network is off."""


class NetworkUnreachable(NetworkError, ConnectionError):
    """The connection failed or was interrupted."""


class NetworkTimeout(NetworkError, TimeoutError):
    """The request timed out."""


for _error in NetworkError, NetworkRefused, NetworkUnreachable, NetworkTimeout:
    _error.__module__ = "http.client"


def network_error(error):
    if isinstance(error, UnknownTool):
        made = NetworkRefused(NETWORK_OFF)
        made.code = "off"
        return made
    code, _, message = str(error).partition(": ")
    if not message or not code.isalpha():
        code, message = "limit" if isinstance(error, ToolLimit) else "broken", str(error)
    if code == "timeout" or isinstance(error, ToolTimeout):
        of, code = NetworkTimeout, "timeout"
    else:
        of = {"refused": NetworkRefused, "unreachable": NetworkUnreachable, "broken": NetworkUnreachable}.get(code, NetworkError)
    made = of(message)
    made.code = code
    return made


class Wire:
    """Replaces the socket of a connection. Performs one request at a time."""

    def __init__(self, connection, scheme):
        self.connection, self.scheme = connection, scheme
        self.written, self.answer = [], None

    def sendall(self, data):
        self.written.append(bytes(data))

    send = sendall

    def makefile(self, *args, **named):
        return io.BufferedReader(io.BytesIO(self.perform()))

    def close(self):
        self.written, self.answer = [], None

    def settimeout(self, timeout):
        self.connection.timeout = timeout

    def gettimeout(self):
        return self.connection.timeout

    def setsockopt(self, *args):
        pass

    def shutdown(self, how):
        pass

    def perform(self):
        """Returns the bytes of the response, as a socket would. Performs the request if it is still pending."""
        if self.answer is None:
            written, self.written = b"".join(self.written), []
            self.answer = self.exchange(written)
        answer, self.answer = self.answer, None
        return answer

    def exchange(self, written):
        head, _, body = written.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target = first.split(" ")[:2]
        place = self.place()
        message = {"method": method, "redirect": "manual"}
        # A request target for a proxy is an absolute URL.
        is_whole = target.startswith(("http://", "https://"))
        message["url"] = target if is_whole else f"{self.scheme}://{place}{target}"
        headers = [tuple(line.split(": ", 1)) if ": " in line else (line.rstrip(":"), "") for line in lines]
        named = {name.lower(): value for name, value in headers}
        if "chunked" in named.get("transfer-encoding", "").lower():
            body = unchunked(body)
        # Headers that the host sets itself. Those that `http.client` added are omitted.
        own = {
            "accept-encoding": named.get("accept-encoding") == "identity",
            "connection": named.get("connection", "").lower() in ("close", "keep-alive"),
            "content-length": True,
            "host": named.get("host", "").lower() in (place, f"{place}:{self.connection.port}"),
            "transfer-encoding": True,
        }
        message["headers"] = [(name, value) for name, value in headers if not own.get(name.lower(), False)]
        if body:
            try:
                message["text"] = body.decode()
            except UnicodeDecodeError:
                message["base64"] = base64.b64encode(body).decode()
        timeout = self.connection.timeout
        if isinstance(timeout, (int, float)):
            message["timeout_ms"] = max(math.ceil(timeout * 1000), 1)
        failure = None
        try:
            response = invoke("network.fetch", message)
        except ToolError as error:
            failure = network_error(error)
        if failure is not None:
            raise failure
        return raw_response(response, method)

    def place(self):
        connection = self.connection
        host = f"[{connection.host}]" if ":" in connection.host else connection.host
        return host.lower() if connection.port == connection.default_port else f"{host.lower()}:{connection.port}"


def unchunked(body):
    whole, at = [], 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].partition(b";")[0], 16)
        if size == 0:
            return b"".join(whole)
        whole.append(body[end + 2 : end + 2 + size])
        at = end + 4 + size


def raw_response(response, method):
    body = base64.b64decode(response["base64"]) if "base64" in response else response["text"].encode()
    lines = [f"HTTP/1.1 {response['status']} {response['reason']}".rstrip()]
    has_body = method != "HEAD" and response["status"] not in (204, 304)
    lines += [f"{name}: {value}" for name, value in response["headers"] if not (has_body and name.lower() == "content-length")]
    if has_body:
        lines.append(f"Content-Length: {len(body)}")
    lines.append("Connection: close")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


_http, _request = sys.modules["http.client"], sys.modules["urllib.request"]
_HTTPConnection = _http.HTTPConnection
_send_request = _HTTPConnection._send_request


def connect(self):
    if self._tunnel_host:
        raise NetworkError("proxies are not supported in this sandbox")
    self.sock = Wire(self, "https" if isinstance(self, HTTPSConnection) else "http")


def send_request(self, *args, **named):
    _send_request(self, *args, **named)
    if isinstance(self.sock, Wire):
        # Performs the request now: `urllib` turns an exception at this point into a `URLError`.
        self.sock.answer = self.sock.perform()


class HTTPSConnection(_HTTPConnection):
    """An HTTPS connection. The host performs TLS and verifies certificates."""

    default_port = _http.HTTPS_PORT

    def __init__(self, host, port=None, *, context=None, **named):
        super().__init__(host, port, **named)


class HTTPSHandler(_request.AbstractHTTPHandler):
    """Opens `https` URLs."""

    def __init__(self, debuglevel=None, context=None, check_hostname=None):
        super().__init__(debuglevel)

    def https_open(self, request):
        return self.do_open(HTTPSConnection, request)

    https_request = _request.AbstractHTTPHandler.do_request_


_request.HTTPRedirectHandler.max_redirections = 5  # the host's own limit
replace(_HTTPConnection, "connect", connect)
replace(_HTTPConnection, "_send_request", send_request)
for _class, _module in (HTTPSConnection, _http), (HTTPSHandler, _request):
    for _value in _class, *filter(callable, vars(_class).values()):
        _value.__module__ = _module.__name__
    setattr(_module, _class.__name__, _class)
    if _class.__name__ not in _module.__all__:
        _module.__all__.append(_class.__name__)
for _error in NetworkError, NetworkRefused, NetworkUnreachable, NetworkTimeout:
    setattr(_http, _error.__name__, _error)
