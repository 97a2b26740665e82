"""The exceptions of `requests`."""

from json import JSONDecodeError as _JSONDecodeError


class RequestException(IOError):
    """The base class of exceptions that occur while handling a request."""

    def __init__(self, *args, **kwargs):
        self.response = kwargs.pop("response", None)
        self.request = kwargs.pop("request", None)
        if self.request is None and self.response is not None:
            self.request = self.response.request
        super().__init__(*args, **kwargs)


class InvalidJSONError(RequestException):
    """The JSON of a request or a response is invalid."""


class JSONDecodeError(InvalidJSONError, _JSONDecodeError):
    """The body of a response is not valid JSON."""

    def __init__(self, *args, **kwargs):
        _JSONDecodeError.__init__(self, *args)
        InvalidJSONError.__init__(self, *self.args, **kwargs)

    def __reduce__(self):
        return _JSONDecodeError.__reduce__(self)


class HTTPError(RequestException):
    """The response has an error status. Raised by `Response.raise_for_status`."""


class ConnectionError(RequestException):
    """The connection failed, or the host's policy does not allow the request."""


class Timeout(RequestException):
    """The request timed out."""


class ConnectTimeout(ConnectionError, Timeout):
    """The request timed out while trying to connect to the remote server. Not raised here."""


class ReadTimeout(Timeout):
    """The request timed out. The host does not distinguish timeouts for connecting and for reading."""


class URLRequired(RequestException):
    """A valid URL is required to make a request. Not raised here."""


class TooManyRedirects(RequestException):
    """The response redirects more often than the maximum allows."""


class MissingSchema(RequestException, ValueError):
    """The URL has no scheme such as http or https."""


class InvalidSchema(RequestException, ValueError):
    """The URL scheme is invalid or unsupported."""


class InvalidURL(RequestException, ValueError):
    """The URL is invalid."""


class InvalidHeader(RequestException, ValueError):
    """A header value is invalid."""


class ChunkedEncodingError(RequestException):
    """The server declared chunked encoding but sent an invalid chunk. Not raised here."""


class ContentDecodingError(RequestException):
    """Failed to decode response content. Not raised here."""


class StreamConsumedError(RequestException, TypeError):
    """The content for this response was already consumed. Not raised here."""


class RetryError(RequestException):
    """All retries failed. Not raised here."""


class ProxyError(ConnectionError):
    """A proxy error occurred. Not raised here."""


class SSLError(ConnectionError):
    """An SSL error occurred. Not raised here: the host verifies certificates."""
