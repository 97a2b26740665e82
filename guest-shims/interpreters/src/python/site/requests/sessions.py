"""Sessions: settings that persist across requests."""

import datetime
import email.message
import http.client
import time
from urllib.parse import urldefrag, urljoin, urlsplit

from .cookies import RequestsCookieJar
from .exceptions import ConnectionError, InvalidHeader, InvalidURL, ReadTimeout, RequestException, TooManyRedirects
from .models import PreparedRequest, Request, Response
from .structures import CaseInsensitiveDict

MAX_REDIRECTS = 5  # the host's own limit


def merged(own, shared):
    """Merges headers. `own` overrides `shared`; the value `None` removes a header."""
    both = CaseInsensitiveDict(shared)
    both.update(own or {})
    return CaseInsensitiveDict((name, value) for name, value in both.items() if value is not None)


def seconds(timeout):
    """Converts `timeout` to a number. Adds up separate timeouts for connecting and reading, because the host supports
    only one."""
    if isinstance(timeout, tuple):
        parts = [part for part in timeout if part is not None]
        return sum(parts) if parts else None
    return timeout


class Session:
    """A Requests session. Persists headers, cookies, `auth` and `params` across requests."""

    def __init__(self):
        self.headers = CaseInsensitiveDict({"User-Agent": "python-requests (glovebox)", "Accept": "*/*"})
        self.auth, self.params, self.cookies = None, {}, RequestsCookieJar()
        self.max_redirects, self.verify, self.stream, self.trust_env = MAX_REDIRECTS, True, False, False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        pass

    def prepare_request(self, request):
        prepared = PreparedRequest()
        params = request.params
        if self.params and not isinstance(params, (str, bytes)):
            params = {**dict(self.params), **dict(params or {})}
        prepared.prepare(
            request.method, request.url, merged(request.headers, self.headers), request.data, params, request.auth or self.auth,
            request.cookies, request.json,
        )
        return prepared

    def request(
        self, method, url, params=None, data=None, headers=None, cookies=None, files=None, auth=None, timeout=None,
        allow_redirects=True, proxies=None, hooks=None, stream=None, verify=None, cert=None, json=None,
    ):
        request = Request(method, url, headers, files, data, params, auth, cookies, hooks, json)
        return self.send(
            self.prepare_request(request), timeout=timeout, allow_redirects=allow_redirects, verify=verify, cert=cert, proxies=proxies
        )

    def send(self, request, timeout=None, allow_redirects=True, verify=None, cert=None, proxies=None, stream=None):
        if False in (verify, self.verify):
            raise NotImplementedError("`verify=False` is not supported; the host always verifies certificates")
        if cert or proxies:
            raise NotImplementedError("`cert` and `proxies` are not supported; remove them")
        history = []
        response = self._once(request, timeout)
        while allow_redirects and response.is_redirect:
            if len(history) >= self.max_redirects:
                raise TooManyRedirects(f"Exceeded {self.max_redirects} redirects.", response=response)
            history.append(response)
            request = self._redirected(request, response)
            response = self._once(request, timeout)
        response.history = history
        return response

    def _once(self, request, timeout):
        parts, begun = urlsplit(request.url), time.monotonic()
        try:
            of = http.client.HTTPSConnection if parts.scheme.lower() == "https" else http.client.HTTPConnection
            connection = of(parts.hostname or "", parts.port)
        except (ValueError, http.client.InvalidURL) as error:
            raise InvalidURL(str(error), request=request) from None
        connection.timeout = seconds(timeout)
        cookie = self.cookies.header(request.url, request.own_cookies)
        headers = {**request.headers, **({"Cookie": cookie} if cookie and "cookie" not in request.headers else {})}
        try:
            connection.request(request.method, request.path_url, request.body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except http.client.NetworkTimeout as error:
            raise ReadTimeout(str(error), request=request) from error
        except http.client.NetworkError as error:
            of = {"redirects": TooManyRedirects, "invalid": RequestException, "limit": RequestException}.get(error.code, ConnectionError)
            raise of(str(error), request=request) from error
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(str(error), request=request) from error
        except ValueError as error:
            raise InvalidHeader(str(error), request=request) from error
        return self._response(request, answer, content, begun)

    def _response(self, request, answer, content, begun):
        response = Response()
        response.status_code, response.reason, response.url, response.request = answer.status, answer.reason, request.url, request
        for name, value in answer.getheaders():
            response.headers[name] = f"{response.headers[name]}, {value}" if name in response.headers else value
        response._content = content
        kind = email.message.Message()
        kind["content-type"] = response.headers.get("content-type", "")
        response.encoding = kind.get_content_charset() or (
            "ISO-8859-1" if "text" in kind.get_content_type() and "content-type" in response.headers else None
        )
        response.elapsed = datetime.timedelta(seconds=time.monotonic() - begun)
        for jar in response.cookies, self.cookies:
            jar.read(request.url, answer.msg)
        return response

    def _redirected(self, request, response):
        following = request.copy()
        following.url = urljoin(response.url, urldefrag(response.headers["location"])[0])
        before, after = urlsplit(request.url), urlsplit(following.url)
        if after.scheme.lower() not in ("http", "https"):
            raise InvalidURL(f"No connection adapters were found for {following.url!r}", response=response)
        becomes_get = response.status_code == 303 and request.method != "HEAD" or response.status_code == 302 and request.method != "HEAD"
        if becomes_get or response.status_code == 301 and request.method == "POST":
            following.method = "GET"
        if response.status_code not in (307, 308):
            following.body = None
            for name in "Content-Length", "Content-Type", "Transfer-Encoding":
                following.headers.pop(name, None)
        if (before.scheme, before.hostname, before.port) != (after.scheme, after.hostname, after.port):
            following.headers.pop("Authorization", None)
            following.own_cookies = {}
        return following

    def get(self, url, **kwargs):
        return self.request("GET", url, **kwargs)

    def options(self, url, **kwargs):
        return self.request("OPTIONS", url, **kwargs)

    def head(self, url, **kwargs):
        kwargs.setdefault("allow_redirects", False)
        return self.request("HEAD", url, **kwargs)

    def post(self, url, data=None, json=None, **kwargs):
        return self.request("POST", url, data=data, json=json, **kwargs)

    def put(self, url, data=None, **kwargs):
        return self.request("PUT", url, data=data, **kwargs)

    def patch(self, url, data=None, **kwargs):
        return self.request("PATCH", url, data=data, **kwargs)

    def delete(self, url, **kwargs):
        return self.request("DELETE", url, **kwargs)


def session():
    """Returns a new Session."""
    return Session()
