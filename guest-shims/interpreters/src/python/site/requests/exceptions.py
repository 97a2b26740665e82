"""What goes wrong with requests."""

from json import JSONDecodeError as _JSONDecodeError


class RequestException(IOError):
    """Anything that goes wrong with a request."""

    def __init__(self, *args, **kwargs):
        self.response = kwargs.pop("response", None)
        self.request = kwargs.pop("request", None)
        if self.request is None and self.response is not None:
            self.request = self.response.request
        super().__init__(*args, **kwargs)


class InvalidJSONError(RequestException):
    """What was to be sent as JSON, or was read as such, is none."""


class JSONDecodeError(InvalidJSONError, _JSONDecodeError):
    """The response is no JSON."""

    def __init__(self, *args, **kwargs):
        _JSONDecodeError.__init__(self, *args)
        InvalidJSONError.__init__(self, *self.args, **kwargs)

    def __reduce__(self):
        return _JSONDecodeError.__reduce__(self)


class HTTPError(RequestException):
    """The response has a status of an error."""


class ConnectionError(RequestException):
    """There was no connection, or the host's policy allows none."""


class Timeout(RequestException):
    """It took too long."""


class ConnectTimeout(ConnectionError, Timeout):
    """The connection took too long."""


class ReadTimeout(Timeout):
    """The response took too long."""


class URLRequired(RequestException):
    """There is no URL."""


class TooManyRedirects(RequestException):
    """There were more redirects than are followed."""


class MissingSchema(RequestException, ValueError):
    """The URL begins with no scheme."""


class InvalidSchema(RequestException, ValueError):
    """The URL's scheme is neither `http` nor `https`."""


class InvalidURL(RequestException, ValueError):
    """The URL is none."""


class InvalidHeader(RequestException, ValueError):
    """A header cannot be sent."""


class ChunkedEncodingError(RequestException):
    """The response's body broke off."""


class ContentDecodingError(RequestException):
    """The response's body cannot be decoded."""


class StreamConsumedError(RequestException, TypeError):
    """The response's body was read before."""


class RetryError(RequestException):
    """Of retries, which there are none of."""


class ProxyError(ConnectionError):
    """Of proxies, which there are none of."""


class SSLError(ConnectionError):
    """Of certificates, which the host checks."""
