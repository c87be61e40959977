# SPDX-License-Identifier: Apache-2.0
"""Verbs for the end-to-end tests: a Node (the daemon in the lab) and its Sandboxes, so that a case is a few lines.

Everything goes through the public doors: the HTTP API on the daemon's socket and the CLI. Results of programs that ran
inside are values; waiting is done for events (a log line, a finished command), never by sleeping.
"""

import base64
import contextlib
import dataclasses
import glob
import http.client
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LAB = f"{ROOT}/tests/lab/lab"
sys.path.insert(0, f"{ROOT}/tests/lab")

PATIENCE = 10.0  # for an event that is sure to come; a test that meets this limit has failed


class ApiError(Exception):
    def __init__(self, status, body):
        self.status, self.body = status, body
        error = body.get("error", {}) if isinstance(body, dict) else {}
        self.code, self.message = error.get("code"), error.get("message", "")
        super().__init__(f"{status} {self.code}: {self.message}")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("sandboxd", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


@dataclasses.dataclass
class Ran:
    """A finished program."""
    code: int
    out: str
    err: str

    def json(self):
        return json.loads(self.out.strip().splitlines()[-1])


def wait_for(condition, what, patience=PATIENCE):
    """Asks until the answer is true; for events that have no descriptor to wait on."""
    end = time.monotonic() + patience
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience:g} s in vain for {what}")
        time.sleep(0.01)


class JsonLog:
    """A log of JSON lines that grows; remembers where a test began."""

    def __init__(self, path):
        self.path, self.position = path, 0
        self.mark()

    def mark(self):
        self.position = os.path.getsize(self.path) if os.path.exists(self.path) else 0

    def lines(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path, "rb") as file:
            file.seek(self.position)
            data = file.read()
        return [json.loads(line) for line in data[:data.rfind(b"\n") + 1].splitlines()]


class Node:
    """The lab with a daemon in it."""

    def __init__(self):
        shown = subprocess.run([LAB, "env"], check=True, capture_output=True, text=True).stdout
        self.env = dict(re.findall(r"export (\w+)='(.*)'", shown))
        self.socket, self.run, self.state = self.env["LAB_SOCKET"], self.env["LAB_RUN"], self.env["LAB_STATE"]
        with open(self.env["LAB_CA"]) as file:
            self.ca = file.read()
        self.attacker = JsonLog(f"{self.run}/logs/attacker.jsonl")
        self.canary = JsonLog(f"{self.run}/logs/canary.jsonl")
        self.dns = JsonLog(f"{self.run}/logs/dns.jsonl")
        self.services = JsonLog(f"{self.run}/logs/services.jsonl")
        self.numbers = itertools.count(1)

    def mark(self):
        for log in (self.attacker, self.canary, self.dns, self.services):
            log.mark()

    # -- API and CLI

    def api(self, method, path, body=None, timeout=120):
        with contextlib.closing(UnixConnection(self.socket, timeout)) as connection:
            data = body if isinstance(body, (bytes, str)) else None if body is None else json.dumps(body)
            connection.request(method, path, data, {"content-type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        try:
            value = json.loads(text) if text else {}
        except ValueError:
            value = {"text": text.decode("latin-1")}
        if answer.status >= 300:
            raise ApiError(answer.status, value)
        return value

    def cli(self, *arguments, stdin=None, timeout=120):
        done = subprocess.run([LAB, "sandbox", *arguments], input=stdin, capture_output=True, text=True,
                              timeout=timeout)
        return Ran(done.returncode, done.stdout, done.stderr)

    def lab(self, *arguments, check=True):
        return subprocess.run([LAB, *arguments], check=check, capture_output=True, text=True)

    # -- the daemon as a process

    def daemon_pid(self):
        with open(f"{self.run}/pids/sandboxd") as file:
            return int(file.read().split()[0])

    def restart(self, how=signal.SIGTERM):
        os.kill(self.daemon_pid(), how)
        wait_for(lambda: not alive(self.daemon_pid()), "the daemon's end", 40)
        self.lab("sandboxd", "start")

    # -- sandboxes

    def create(self, policy=None, **body):
        request = {"projectId": "default", "name": f"t{os.getpid()}-{next(self.numbers)}", "timeout": 600_000,
                   "persistent": False, **body}
        if policy is not None:
            request["networkPolicy"] = policy
        return Sandbox(self, self.api("POST", "/v3/sandboxes", request))

    def sandboxes(self):
        return self.api("GET", "/v2/sandboxes?project=default&limit=50")["sandboxes"]

    # -- the world outside

    def attacker_packets(self):
        """Everything the attacker got since the mark. A packet of our own goes last, so that nothing is on its way."""
        marker = uuid.uuid4().hex
        send = ("import socket,sys; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); "
                "s.sendto(sys.argv[1].encode(),('198.18.66.6',9))")
        self.lab("net", "/usr/bin/python3", "-c", send, marker)
        code = marker.encode().hex()
        wait_for(lambda: any(code in line["hex"] for line in self.attacker.lines()), "the marker at the attacker")
        return [line for line in self.attacker.lines() if not line.get("ports", [0, 0])[1] == 9 or
                line.get("source") != "198.18.66.1"]

    def queries(self, below):
        """Queries for `below` or a name under it that reached the authority."""
        return [line for line in self.dns.lines()
                if line.get("name") and ("." + line["name"]).endswith("." + below)]


class Sandbox:
    def __init__(self, node, created):
        self.node, self.created = node, created
        self.name, self.id = created["sandbox"]["name"], created["session"]["id"]
        self.equipped = False
        self.seen = 0  # lines of the egress log that belong to an earlier test

    # -- programs inside

    def start(self, command, *arguments, sudo=False, env=None, cwd=None, timeout=None, detached=False):
        return Program(self, {"command": command, "args": list(arguments), "sudo": sudo, "env": env or {},
                              **({"cwd": cwd} if cwd else {}), **({"timeout": timeout} if timeout else {})}, detached)

    def run(self, command, *arguments, patience=90, **options):
        return self.start(command, *arguments, **options).wait(patience)

    def sh(self, script, **options):
        return self.run("sh", "-c", script, **options)

    def equip(self):
        """Puts the odd clients and the lab's CA into the sandbox, once."""
        if not self.equipped:
            with open(f"{HERE}/tools.py", "rb") as file:
                tools = base64.b64encode(file.read()).decode()
            put = self.run("python3", "-c", "import base64,sys\n"
                           "open('/tmp/tools.py','wb').write(base64.b64decode(sys.argv[1]))\n"
                           "open('/tmp/lab-ca.pem','w').write(sys.argv[2])", tools, self.node.ca)
            assert put.code == 0, put.err
            self.equipped = True

    def tool(self, verb, sudo=False, **arguments):
        """Runs one of tools.py and gives its answer."""
        self.equip()
        ran = self.run("python3", "/tmp/tools.py", verb, json.dumps(arguments), sudo=sudo)
        assert ran.code == 0, ran.err
        return ran.json()

    def start_tool(self, verb, **arguments):
        """The same in the background, once it has said that it started."""
        self.equip()
        program = self.start("python3", "/tmp/tools.py", verb, json.dumps(arguments))
        program.until('"started"')
        return program

    def curl(self, url, *options, limit=20):
        """Status of an HTTP exchange as curl sees it: code 0 and a body, or curl's own exit code."""
        self.equip()
        return self.run("curl", "-sS", "-m", str(limit), "--cacert", "/tmp/lab-ca.pem", *options, url)

    def fetch(self, url, *options):
        """What the lab's web server saw, or an AssertionError that says why not."""
        ran = self.curl(url, *options)
        assert ran.code == 0, f"{url}: curl exit {ran.code}: {ran.err}"
        return json.loads(ran.out)

    def dig(self, name, rdtype="A", *options):
        """(status, [rdata]) as dig prints them; status "" means no answer came."""
        ran = self.run("dig", "+tries=1", "+time=5", *options, name, rdtype)
        status = re.search(r"status: (\w+)", ran.out)
        answer = re.findall(r"^[^;\s]\S*\s+\d+\s+IN\s+(\S+)\s+(.*)$", ran.out, re.M)
        return (status.group(1) if status else ""), [value for kind, value in answer if kind in (rdtype, "CNAME")]

    def psql(self, host, *settings, sql="select 'hello'"):
        connection = " ".join([f"host={host}", "user=postgres", "dbname=postgres", "connect_timeout=8", *settings])
        return self.run("psql", connection, "-XAtc", sql)

    # -- policy and log

    def set_policy(self, policy):
        return self.node.api("POST", f"/v2/sandboxes/sessions/{self.id}/network-policy",
                             policy if policy is not None else {})

    def policy(self):
        return self.node.api("GET", f"/sallyport/v1/sandboxes/{self.name}/policy")

    def egress(self):
        with contextlib.closing(UnixConnection(self.node.socket, 30)) as connection:
            connection.request("GET", f"/sallyport/v1/sandboxes/{self.name}/egress")
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status == 200, text
        return [json.loads(line) for line in text.splitlines() if line.strip()][self.seen:]

    def forget_egress(self):
        self.seen += len(self.egress())

    def egress_line(self, **wanted):
        """The first line of the egress log with these values; waits for it, since it is written at a flow's end."""
        def find():
            return next((line for line in self.egress()
                         if all(line.get(key) == value for key, value in wanted.items())), None)
        try:
            return wait_for(find, f"an egress line with {wanted}")
        except AssertionError as error:
            raise AssertionError(f"{error}; there are: {self.egress()[-5:]}") from None

    # -- life

    def info(self):
        return self.node.api("GET", f"/v2/sandboxes/{self.name}?projectId=default&resume=false")

    def stop(self):
        return self.node.api("POST", f"/v2/sandboxes/sessions/{self.id}/stop")

    def delete(self):
        with contextlib.suppress(ApiError):
            self.node.api("DELETE", f"/v2/sandboxes/{self.name}?projectId=default")

    def worker_pid(self):
        """The firewall worker of this sandbox, as the host sees it."""
        for status in glob.glob("/proc/[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                with open(status, "rb") as file:
                    words = file.read().split(b"\0")
                if words[0].endswith(b"sandbox-firewall") and self.id.encode() in words:
                    return int(status.split("/")[2])
        return None


class Program:
    """A command that runs in a sandbox; its output arrives on a thread of our own."""

    def __init__(self, sandbox, request, detached):
        self.sandbox, self.out, self.err = sandbox, "", ""
        self.code, self.failure, self.raw = None, None, []
        self.changed = threading.Condition()
        self.connection = UnixConnection(sandbox.node.socket, 300)
        if detached:
            self.command = sandbox.node.api("POST", f"/v2/sandboxes/sessions/{sandbox.id}/cmd", request)["command"]
            self.thread = None
            return
        self.connection.request("POST", f"/v2/sandboxes/sessions/{sandbox.id}/cmd",
                                json.dumps({**request, "wait": True, "logs": True}),
                                {"content-type": "application/json"})
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            text = self.answer.read()
            self.connection.close()
            raise ApiError(self.answer.status, json.loads(text or b"{}"))
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            for line in self.answer:
                if line.strip():
                    self._take(json.loads(line))
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.failure = self.failure or error
        finally:
            self.connection.close()
            with self.changed:
                if self.code is None and self.failure is None:
                    self.failure = RuntimeError("the stream ended without an exit code")
                self.changed.notify_all()

    def _take(self, record):
        with self.changed:
            self.raw.append(record)
            if record.get("stream") == "stdout":
                self.out += record["data"]
            elif record.get("stream") == "stderr":
                self.err += record["data"]
            elif record.get("stream") == "error":
                self.failure = RuntimeError(str(record["data"]))
            elif record.get("command", {}).get("exitCode") is not None:
                self.code = record["command"]["exitCode"]
            self.changed.notify_all()

    def _until(self, condition, patience, what):
        with self.changed:
            if not self.changed.wait_for(condition, patience):
                raise AssertionError(f"waited {patience:g} s in vain for {what}; so far: {self.out[-300:]!r} {self.err[-300:]!r}")

    def until(self, text, patience=30):
        self._until(lambda: text in self.out or self.code is not None or self.failure, patience, repr(text))
        assert text in self.out, f"{self.failure or self.code}: {self.out[-300:]!r} {self.err[-500:]!r}"

    def until_bytes(self, count, patience=30):
        self._until(lambda: len(self.out) >= count or self.code is not None or self.failure, patience, f"{count} bytes")
        assert len(self.out) >= count, f"{self.failure or self.code}: {self.err[-500:]!r}"

    @property
    def ended(self):
        return self.code is not None or self.failure is not None

    def wait(self, patience=90):
        self._until(lambda: self.ended, patience, "the end of a program")
        if self.failure:
            raise self.failure
        return Ran(self.code, self.out, self.err)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


ALLOW_ALL, DENY_ALL = {"mode": "allow-all"}, {"mode": "deny-all"}


def domains(*names):
    return {"allow": list(names)}


def ranges(*allow, deny=()):
    return {"subnets": {"allow": list(allow), **({"deny": list(deny)} if deny else {})}}


def both(names, allow=(), deny=()):
    return {"allow": list(names), "subnets": {"allow": list(allow), "deny": list(deny)}}
