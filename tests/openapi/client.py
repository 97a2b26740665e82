"""Runs executions on a server with the client that openapi-python-client generates."""

import os
import re
import subprocess

from glovebox_http import AuthenticatedClient
from glovebox_http.api.scripts import execute
from glovebox_http.api.sessions import close_session, execute_in_session, open_session
from glovebox_http.models import ExecuteBody, OpenBody

TOKEN = "a token of this test"

server = subprocess.Popen(
    [os.environ["GLOVEBOX"], "serve", "--listen", "127.0.0.1:0"],
    env={**os.environ, "GLOVEBOX_TOKEN": TOKEN},
    stderr=subprocess.PIPE,
    text=True,
)
try:
    address = next(found[0] for line in server.stderr if (found := re.findall(r"http://[\d.]+:\d+", line)))
    client = AuthenticatedClient(base_url=address, token=TOKEN, timeout=120)
    ran = execute.sync_detailed(client=client, body=ExecuteBody(source="print(6 * 7)", language="python"))
    assert ran.status_code == 200, ran
    assert ran.parsed.stdout == "42\n", ran.parsed
    opened = open_session.sync_detailed(client=client, body=OpenBody(id="s", language="python"))
    assert opened.status_code == 201, opened
    execute_in_session.sync_detailed("s", client=client, body=ExecuteBody(source="x = 6"))
    ran = execute_in_session.sync_detailed("s", client=client, body=ExecuteBody(source="print(x * 7)"))
    assert ran.parsed.stdout == "42\n", ran.parsed
    refused = execute.sync_detailed(client=client, body=ExecuteBody(source="1", language="cobol"))
    assert refused.status_code == 400, refused
    assert close_session.sync_detailed("s", client=client).status_code == 204
finally:
    server.terminate()
    server.wait()
print("the generated client runs scripts")
