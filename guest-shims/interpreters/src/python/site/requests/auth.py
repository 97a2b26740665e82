"""Authentication handlers."""

from base64 import b64encode


class AuthBase:
    """Base class that all auth implementations derive from."""

    def __call__(self, request):
        raise NotImplementedError("Auth hooks must be callable.")


class HTTPBasicAuth(AuthBase):
    """Attaches HTTP Basic Authentication to a request. The host replaces a secret's placeholder with the secret."""

    def __init__(self, username, password):
        self.username, self.password = username, password

    def __eq__(self, other):
        return (self.username, self.password) == (getattr(other, "username", None), getattr(other, "password", None))

    def __call__(self, request):
        pair = b":".join(part if isinstance(part, bytes) else str(part).encode("latin-1") for part in (self.username, self.password))
        request.headers["Authorization"] = f"Basic {b64encode(pair).decode()}"
        return request
