"""Who asks."""

from base64 import b64encode


class AuthBase:
    """Changes a prepared request when it is called with one."""

    def __call__(self, request):
        raise NotImplementedError("a subclass of AuthBase has __call__")


class HTTPBasicAuth(AuthBase):
    """User and password. Where the password is a secret's placeholder, the host puts the secret in its place."""

    def __init__(self, username, password):
        self.username, self.password = username, password

    def __eq__(self, other):
        return (self.username, self.password) == (getattr(other, "username", None), getattr(other, "password", None))

    def __call__(self, request):
        pair = b":".join(part if isinstance(part, bytes) else str(part).encode("latin-1") for part in (self.username, self.password))
        request.headers["Authorization"] = f"Basic {b64encode(pair).decode()}"
        return request
