"""Cookies, based on `http.cookiejar`."""

import http.cookiejar
import urllib.request
from collections.abc import MutableMapping


class RequestsCookieJar(http.cookiejar.CookieJar, MutableMapping):
    """A CookieJar with a dict interface."""

    def set(self, name, value, domain="", path="/", **kwargs):
        if value is None:
            for cookie in [cookie for cookie in self if cookie.name == name]:
                self.clear(cookie.domain, cookie.path, cookie.name)
            return None
        cookie = http.cookiejar.Cookie(
            0, name, value, None, False, domain, bool(domain), domain.startswith("."), path, bool(path), False, None, True, None, None, {}
        )
        self.set_cookie(cookie)
        return cookie

    def __setitem__(self, name, value):
        self.set(name, value)

    def __getitem__(self, name):
        for cookie in self:
            if cookie.name == name:
                return cookie.value
        raise KeyError(name)

    def get(self, name, default=None, domain=None, path=None):
        for cookie in self:
            if cookie.name == name and domain in (None, cookie.domain) and path in (None, cookie.path):
                return cookie.value
        return default

    def __delitem__(self, name):
        self[name]
        self.set(name, None)

    def __contains__(self, name):
        return any(cookie.name == name for cookie in self)

    def keys(self):
        return [cookie.name for cookie in self]

    def values(self):
        return [cookie.value for cookie in self]

    def items(self):
        return [(cookie.name, cookie.value) for cookie in self]

    def get_dict(self, domain=None, path=None):
        return {cookie.name: cookie.value for cookie in self if domain in (None, cookie.domain) and path in (None, cookie.path)}

    def update(self, other=(), **kwargs):
        if isinstance(other, http.cookiejar.CookieJar):
            for cookie in other:
                self.set_cookie(cookie)
        else:
            for name, value in dict(other, **kwargs).items():
                self.set(name, value)

    def header(self, url, own):
        """Returns the `Cookie` header for a URL, or `None`. `own` contains the cookies of the request itself, which are
        sent to any URL."""
        request = urllib.request.Request(url)
        self.add_cookie_header(request)
        parts = [request.get_header("Cookie")] if request.has_header("Cookie") else []
        parts += [f"{name}={value}" for name, value in (*self._everywhere(), *own.items())]
        return "; ".join(parts) or None

    def _everywhere(self):
        """Returns the cookies without a domain, which are sent to any URL."""
        return [(cookie.name, cookie.value) for cookie in self if not cookie.domain]

    def read(self, url, message):
        """Adds the cookies that a response sets."""

        class Answer:
            def info(self):
                return message

        self.extract_cookies(Answer(), urllib.request.Request(url))


def cookiejar_from_dict(cookies):
    jar = RequestsCookieJar()
    jar.update(cookies)
    return jar


def dict_from_cookiejar(jar):
    return {cookie.name: cookie.value for cookie in jar}
