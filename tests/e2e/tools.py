# SPDX-License-Identifier: Apache-2.0
"""Clients with odd manners, run inside a sandbox: python3 tools.py VERB JSON. Prints one line of JSON.

Standard library only: the file is copied into the sandbox as it is. Every verb ends by itself within its timeout.
`outcome` says what the client met:
  served (a full exchange), reply (bytes came), alert (a TLS alert record), closed (the end without a byte), reset,
  refused, unreachable, timeout.
"""

import errno
import json
import os
import socket
import ssl
import struct
import sys
import time

TIMEOUT = 8.0


def outcome_of(error):
    if isinstance(error, (TimeoutError, socket.timeout)):
        return "timeout"
    number = getattr(error, "errno", None)
    if number == errno.ECONNREFUSED:
        return "refused"
    if number in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
        return "reset"
    if number in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EPERM, errno.ENONET):
        return "unreachable"
    return f"error {error}"


def connect(address, port, timeout=TIMEOUT):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.connect((address, port))
    return connection


# --- TLS by hand ---------------------------------------------------------------------------------------------------

class Client:
    """A real TLS client whose bytes go through our fingers, so that they can be cut anywhere."""

    def __init__(self, name, cafile=None, pad_to=0, version=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if cafile:
            context.load_verify_locations(cafile)
        else:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if name is None:
            context.check_hostname = False
        if version == "1.2":
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        if pad_to:  # as large as a hello with post-quantum key shares, or larger
            left = max(0, pad_to - 300)
            context.set_alpn_protocols(["http/1.1"] + ["x" * 250] * (left // 251) + ["y" * max(1, left % 251)])
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        self.hello = self.outgoing.read()

    def step(self, connection, operation):
        while True:
            try:
                result = operation()
                connection.sendall(self.outgoing.read())
                return result
            except ssl.SSLWantReadError:
                connection.sendall(self.outgoing.read())
                data = connection.recv(65536)
                if not data:
                    raise ConnectionResetError(errno.ECONNRESET, "closed in the handshake")
                self.incoming.write(data)


def one_hello(name):
    return Client(name).hello


def in_records(hello, sizes):
    """The same handshake bytes, framed as several records; the last size holds for the rest."""
    body, out, version = hello[5:], b"", hello[1:3]
    sizes = list(sizes)
    while body:
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        out += b"\x16" + version + struct.pack("!H", len(body[:size])) + body[:size]
        body = body[size:]
    return out


def hello(address, port=443, name=None, pad_to=0, cuts=(), pause=0.0, records=None, cafile=None, host=None,
          version=None, timeout=TIMEOUT):
    """Sends a hello cut at `cuts` (offsets; "all" = one byte at a time), then finishes the handshake and asks for /."""
    client = Client(name, cafile, pad_to, version)
    wire = in_records(client.hello, records) if records else client.hello
    if cuts == "all":
        cuts = range(1, len(wire))
    started = time.monotonic()
    connection = None
    try:
        connection = connect(address, port, timeout)
        at = 0
        for cut in [*cuts, len(wire)]:
            connection.sendall(wire[at:cut])
            at = cut
            if pause:
                time.sleep(pause)
        first = connection.recv(65536)
        if not first:
            return {"outcome": "closed", "ms": (time.monotonic() - started) * 1000}
        if first[0] == 0x15:
            return {"outcome": "alert", "alert": first[6] if len(first) > 6 else None, "hello": len(wire),
                    "ms": (time.monotonic() - started) * 1000}
        if first[0] != 0x16:
            return {"outcome": "reply", "hex": first[:64].hex()}
        client.incoming.write(first)
        client.step(connection, client.tls.do_handshake)
        request = f"GET / HTTP/1.1\r\nHost: {host or name or address}\r\nConnection: close\r\n\r\n".encode()
        client.step(connection, lambda: client.tls.write(request))
        answer = client.step(connection, lambda: client.tls.read(65536))
        certificate = client.tls.getpeercert() or {}
        body = answer.partition(b"\r\n\r\n")[2]
        return {"outcome": "served", "hello": len(wire), "seen": json.loads(body or b"{}"),
                "issuer": str(certificate.get("issuer", "")), "ms": (time.monotonic() - started) * 1000}
    except ssl.SSLError as error:
        return {"outcome": "alert" if "ALERT" in str(error).upper() else f"error {error}"}
    except OSError as error:
        return {"outcome": outcome_of(error), "ms": (time.monotonic() - started) * 1000}
    finally:
        if connection:
            connection.close()


def hello_cuts(address, port=443, name=None, step=1, pad_to=1700):
    """One connection per cut position; how often each outcome was met."""
    counts, length = {}, len(Client(name, None, pad_to).hello)
    for cut in range(1, length, step):
        met = hello(address, port, name, pad_to, [cut])["outcome"]
        counts[met] = counts.get(met, 0) + 1
    return {"outcome": "done", "counts": counts, "length": length}


# --- TCP -----------------------------------------------------------------------------------------------------------

def tcp(address, port, send="", text=None, shut=False, expect=1, timeout=TIMEOUT, linger0=False):
    """Connects, sends hex `send` (or `text`), perhaps half-closes, and reads up to `expect` bytes (-1: to the end)."""
    started = time.monotonic()
    connection, got = None, b""
    try:
        connection = connect(address, port, timeout)
        data = text.encode() if text is not None else bytes.fromhex(send)
        if linger0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return {"outcome": "sent"}
        if data:
            connection.sendall(data)
        if shut:
            connection.shutdown(socket.SHUT_WR)
        total = 0
        while expect < 0 or total < expect:
            piece = connection.recv(65536)
            if not piece:
                break
            total += len(piece)
            got = (got + piece)[:4096]
        met = "alert" if got[:1] == b"\x15" else "reply" if total else "closed"
        return {"outcome": met, "bytes": total, "text": got.decode("latin-1"), "ms": (time.monotonic() - started) * 1000}
    except OSError as error:
        return {"outcome": outcome_of(error), "bytes": len(got), "text": got.decode("latin-1"),
                "ms": (time.monotonic() - started) * 1000}
    finally:
        if connection:
            connection.close()


def resets(address, port, count):
    """Connects and resets at once, many times; then one ordinary exchange."""
    for _ in range(count):
        try:
            connection = connect(address, port, 3)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        except OSError:
            pass
    return tcp(address, port, text="after", expect=5)


def many(address, port, count, text="x", hold=1.0, name=None):
    """Opens `count` connections at once and holds them; how many were answered."""
    held, answered, failed = [], 0, 0
    data = one_hello(name) if name else text.encode()
    for _ in range(count):
        try:
            connection = connect(address, port, 3)
            connection.sendall(data)
            held.append(connection)
        except OSError:
            failed += 1
    for connection in held:
        try:
            answered += bool(connection.recv(1))
        except OSError:
            failed += 1
    time.sleep(hold)
    return {"outcome": "done", "answered": answered, "failed": failed}


def upload(address, port, name, size, greeting=True):
    """A flow admitted by its hello, over which opaque bytes go up after the server has closed its side (R-019)."""
    import hashlib
    connection = connect(address, port)
    head = one_hello(name) if name else b""
    connection.sendall(head)
    if greeting:
        while connection.recv(4096):
            pass
    digest, left, block = hashlib.sha256(head), size, bytes(range(256)) * 256
    while left:
        piece = block[:min(left, len(block))]
        connection.sendall(piece)
        digest.update(piece)
        left -= len(piece)
    connection.shutdown(socket.SHUT_WR)
    try:
        while connection.recv(4096):
            pass
    except OSError as error:
        return {"outcome": outcome_of(error)}
    return {"outcome": "done", "size": size + len(head), "sha256": digest.hexdigest()}


def half_close(address, port, name, expect):
    """Hello, end of sending, then count what still comes (R-016)."""
    connection = connect(address, port)
    connection.sendall(one_hello(name) if name else b"0123456789")
    connection.shutdown(socket.SHUT_WR)
    total = 0
    while piece := connection.recv(65536):
        total += len(piece)
    return {"outcome": "done" if total == expect else "short", "bytes": total}


def ticker(address, port, name=None, seconds=20.0, every=0.005):
    """Sends a byte every few milliseconds until it can't; prints `started` first (a line of its own)."""
    connection = connect(address, port)
    if name:
        connection.sendall(one_hello(name))
    print(json.dumps({"started": True}), flush=True)
    sent, end = 0, time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            connection.sendall(b".")
            sent += 1
            time.sleep(every)
        return {"outcome": "alive", "sent": sent}
    except OSError as error:
        return {"outcome": outcome_of(error), "sent": sent}


def idle(address, port, name=None, seconds=15.0):
    """Opens a connection and waits for its end; prints `started` first."""
    connection = connect(address, port)
    connection.sendall(one_hello(name) if name else b"x")
    connection.settimeout(seconds)
    print(json.dumps({"started": True}), flush=True)
    try:
        while True:
            if not connection.recv(4096):
                return {"outcome": "closed"}
    except OSError as error:
        return {"outcome": "alive" if outcome_of(error) == "timeout" else outcome_of(error)}


# --- UDP and the rest ----------------------------------------------------------------------------------------------

def udp(address, port, text="ping", timeout=2.0, send=None):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    started = time.monotonic()
    with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(timeout)
        try:
            datagrams.connect((address, port))
            datagrams.send(bytes.fromhex(send) if send else text.encode())
            got = datagrams.recv(65536)
            return {"outcome": "reply", "text": got.decode("latin-1"), "ms": (time.monotonic() - started) * 1000}
        except OSError as error:
            return {"outcome": outcome_of(error), "ms": (time.monotonic() - started) * 1000}


def udp_flood(address, port, count):
    """Many datagrams from changing source ports."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sent = 0
    for _ in range(count):
        with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
            datagrams.setblocking(False)
            try:
                datagrams.sendto(b"flood", (address, port))
                sent += 1
            except OSError:
                pass
    return {"outcome": "sent", "sent": sent}


def query(name, rdtype=1, identity=0x1234, edns=None):
    wire = struct.pack("!HHHHHH", identity, 0x0100, 1, 0, 0, 1 if edns else 0)
    for label in name.rstrip(".").split("."):
        wire += bytes([len(label)]) + label.encode("latin-1")
    wire += b"\0" + struct.pack("!HH", rdtype, 1)
    if edns:
        wire += b"\0" + struct.pack("!HHIH", 41, edns, 0, 0)
    return wire


def dns_flood(address, name, count, window=32):
    """Queries from changing source ports; how many were answered."""
    answered = 0
    for at in range(0, count, window):
        sockets = []
        for n in range(min(window, count - at)):
            datagrams = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
            datagrams.settimeout(5)
            datagrams.sendto(query(name, identity=n), (address, 53))
            sockets.append(datagrams)
        for datagrams in sockets:
            try:
                answered += bool(datagrams.recv(4096))
            except OSError:
                pass
            datagrams.close()
    return {"outcome": "done", "answered": answered}


def storm(targets, seconds):
    """Connects, sends hellos and queries to all of `targets` as fast as it can. What may be reached is the test's
    affair; prints how often each outcome was met."""
    counts, end = {}, time.monotonic() + seconds
    print(json.dumps({"started": True}), flush=True)
    while time.monotonic() < end:
        for target in targets:
            kind, arguments = target[0], target[1:]
            try:
                met = VERBS[kind](*arguments)["outcome"]
            except OSError as error:
                met = outcome_of(error)
            key = f"{kind} {arguments[0]} {met}"
            counts[key] = counts.get(key, 0) + 1
    return {"outcome": "done", "counts": counts}


def quick_tcp(address, port, text="x"):
    return tcp(address, port, text=text, timeout=0.5)


def quick_hello(address, name):
    return hello(address, 443, name, timeout=1.5)


def quick_udp(address, port):
    return udp(address, port, timeout=0.05)


def dns(name, address=None, rdtype=1, tcp=False, edns=None, timeout=5.0, port=53):
    """One query by hand, to the resolver of resolv.conf unless told otherwise. rcode, answer count, sizes, TC."""
    if address is None:
        with open("/etc/resolv.conf") as file:
            address = [line.split()[1] for line in file if line.startswith("nameserver")][0]
    wire = query(name, rdtype, edns=edns)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    started = time.monotonic()
    try:
        if tcp:
            connection = connect(address, port, timeout)
            connection.sendall(struct.pack("!H", len(wire)) + wire)
            stream = connection.makefile("rb")
            got = stream.read(struct.unpack("!H", stream.read(2))[0])
        else:
            with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
                datagrams.settimeout(timeout)
                datagrams.connect((address, port))
                datagrams.send(wire)
                got = datagrams.recv(65536)
    except (OSError, struct.error) as error:
        return {"outcome": outcome_of(error), "ms": (time.monotonic() - started) * 1000}
    flags, _questions, answers, authority = struct.unpack("!HHHH", got[2:10])
    return {"outcome": "reply", "rcode": flags & 15, "answers": answers, "authority": authority, "bytes": len(got),
            "tc": bool(flags & 0x0200), "ms": (time.monotonic() - started) * 1000}


def lookup(name):
    """What getaddrinfo says, and how long it took."""
    started = time.monotonic()
    try:
        found = sorted({entry[4][0] for entry in socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)})
        return {"outcome": "reply", "addresses": found, "ms": (time.monotonic() - started) * 1000}
    except socket.gaierror as error:
        return {"outcome": "failed", "error": str(error), "code": error.errno,
                "ms": (time.monotonic() - started) * 1000}


VERBS = {function.__name__: function for function in (
    hello, hello_cuts, tcp, resets, many, upload, half_close, ticker, idle, udp, udp_flood, dns_flood, storm,
    quick_tcp, quick_hello, quick_udp, dns, lookup)}

if __name__ == "__main__":
    print(json.dumps(VERBS[sys.argv[1]](**json.loads(sys.argv[2] if len(sys.argv) > 2 else "{}"))), flush=True)
    os._exit(0)
