def attempt(call):
    try:
        call()
        print("connected")
    except (OSError, ImportError, AttributeError):
        print("refused")


def raw():
    import socket

    socket.create_connection(("127.0.0.1", 80), timeout=1)


def listen():
    import socket

    s = socket.socket()
    s.bind(("127.0.0.1", 0))


def http():
    import urllib.request

    urllib.request.urlopen("http://127.0.0.1/")


attempt(raw)
attempt(listen)
attempt(http)
