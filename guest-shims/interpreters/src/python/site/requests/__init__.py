"""HTTP requests with the API of the `requests` package.

This is not the original package. It implements the most common functions with `http.client`; the host performs each
request if its policy allows it. The host always verifies certificates. Proxies, adapters and multipart uploads are
unsupported. The body is always read before the response is returned, even with `stream`.
"""

from . import auth, cookies, exceptions, models, sessions, structures
from .exceptions import (
    ConnectionError,
    ConnectTimeout,
    HTTPError,
    JSONDecodeError,
    ReadTimeout,
    RequestException,
    Timeout,
    TooManyRedirects,
    URLRequired,
)
from .models import PreparedRequest, Request, Response, codes
from .sessions import Session, session

__version__ = "2.32.0+glovebox"


def request(method, url, **kwargs):
    """Constructs and sends a Request. Returns a Response."""
    with Session() as one:
        return one.request(method, url, **kwargs)


def get(url, params=None, **kwargs):
    """Sends a GET request."""
    return request("GET", url, params=params, **kwargs)


def options(url, **kwargs):
    """Sends an OPTIONS request."""
    return request("OPTIONS", url, **kwargs)


def head(url, **kwargs):
    """Sends a HEAD request. Does not follow redirects, unless `allow_redirects` is set."""
    kwargs.setdefault("allow_redirects", False)
    return request("HEAD", url, **kwargs)


def post(url, data=None, json=None, **kwargs):
    """Sends a POST request."""
    return request("POST", url, data=data, json=json, **kwargs)


def put(url, data=None, **kwargs):
    """Sends a PUT request."""
    return request("PUT", url, data=data, **kwargs)


def patch(url, data=None, **kwargs):
    """Sends a PATCH request."""
    return request("PATCH", url, data=data, **kwargs)


def delete(url, **kwargs):
    """Sends a DELETE request."""
    return request("DELETE", url, **kwargs)
