"""Requests over HTTP, in the shape of the `requests` package.

It is not that package: it has what most scripts use of it, over `http.client`, and the host performs each request if its policy lets it.
Certificates are always checked, by the host; there are no proxies, no adapters and no uploads of several parts, and a body is read whole
before the response is returned, `stream` or not.
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
    """Sends a request and returns the `Response`."""
    with Session() as one:
        return one.request(method, url, **kwargs)


def get(url, params=None, **kwargs):
    """A `GET` request."""
    return request("GET", url, params=params, **kwargs)


def options(url, **kwargs):
    """An `OPTIONS` request."""
    return request("OPTIONS", url, **kwargs)


def head(url, **kwargs):
    """A `HEAD` request, whose redirects are not followed unless `allow_redirects` says so."""
    kwargs.setdefault("allow_redirects", False)
    return request("HEAD", url, **kwargs)


def post(url, data=None, json=None, **kwargs):
    """A `POST` request."""
    return request("POST", url, data=data, json=json, **kwargs)


def put(url, data=None, **kwargs):
    """A `PUT` request."""
    return request("PUT", url, data=data, **kwargs)


def patch(url, data=None, **kwargs):
    """A `PATCH` request."""
    return request("PATCH", url, data=data, **kwargs)


def delete(url, **kwargs):
    """A `DELETE` request."""
    return request("DELETE", url, **kwargs)
