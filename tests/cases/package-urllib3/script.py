import urllib3
from urllib3.util import Retry, parse_url

url = parse_url("https://user@example.org:8443/a%20b/./c?q=1#top")
print(url.scheme, url.auth, url.host, url.port, url.path, url.query, url.fragment)
print(urllib3.encode_multipart_formdata({"a": "1"}, boundary="b")[0].decode().split("\r\n"))
try:
    urllib3.PoolManager(retries=Retry(0)).request("GET", "http://example.org/")
except Exception as error:
    print(type(error).__name__, error)
