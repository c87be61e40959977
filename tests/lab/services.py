# SPDX-License-Identifier: Apache-2.0
"""The servers of the lab's internet, all in one process: web with and without TLS, SSH-like and server-first banners,
half-closing TCP, UDP echo. Which port does what: internet.py. Arguments: PKIDIR LOGFILE READY_FD.

Web paths: / tells in JSON what the server saw; /bytes/N; /slow trickles for ever; /redirect/HOST; POST /upload
answers size and SHA-256; anything else 404.
"""

import asyncio
import hashlib
import json
import os
import socket
import ssl
import sys
import time

import internet
import pki

CHUNK = bytes(range(256)) * 256


class Lab:
    def __init__(self, folder, path):
        self.authority = pki.Authority(folder)
        self.log = open(path, "a", buffering=1)

    def note(self, **line):
        self.log.write(json.dumps({"time": time.time(), **line}) + "\n")

    def tls_context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        default = self.authority.context_for("default.example")
        del default
        context.load_cert_chain(f"{self.authority.folder}/leaf-0.pem", f"{self.authority.folder}/leaf-0.key")
        context.set_alpn_protocols(["http/1.1"])

        def choose(connection, name, _context):
            connection.lab_name = name
            if name:
                connection.context = self.authority.context_for(name.lower())
        context.sni_callback = choose
        return context


class Web:
    """One request after another on a connection, enough HTTP/1.1 for curl."""

    def __init__(self, lab, reader, writer):
        self.lab, self.reader, self.writer = lab, reader, writer
        tls = writer.get_extra_info("ssl_object")
        self.sni = getattr(tls, "lab_name", None) if tls else None
        self.secure = tls is not None
        self.local = writer.get_extra_info("sockname")
        self.peer = writer.get_extra_info("peername")

    async def serve(self):
        try:
            while await self.exchange():
                pass
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ssl.SSLError, OSError):
            pass
        finally:
            self.writer.close()

    async def exchange(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _version = head[0].split(" ", 2)
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        self.lab.note(service="https" if self.secure else "http", sni=self.sni, host=headers.get("host"),
                      method=method, path=path, local=self.local[:2], peer=self.peer[:2])
        if headers.get("expect", "").lower() == "100-continue":
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        upload = await self.read_body(headers)
        if path == "/slow":
            await self.trickle()
        if path.startswith("/bytes/"):
            return await self.send_bytes(int(path.split("/")[2]))
        if path.startswith("/redirect/"):
            return await self.reply("302 Found", b"", f"Location: https://{path.split('/')[2]}/\r\n")
        if path == "/upload":
            return await self.reply("200 OK", json.dumps(upload).encode())
        if path != "/":
            return await self.reply("404 Not Found", b"no such page\n")
        seen = {"secure": self.secure, "sni": self.sni, "host": headers.get("host"), "headers": headers,
                "local": list(self.local[:2]), "peer": list(self.peer[:2])}
        return await self.reply("200 OK", json.dumps(seen).encode() + b"\n")

    async def read_body(self, headers):
        digest, size = hashlib.sha256(), 0
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while True:
                length = int(await self.reader.readline(), 16)
                digest.update(await self.reader.readexactly(length))
                await self.reader.readline()
                size += length
                if length == 0:
                    break
        else:
            left = int(headers.get("content-length", 0))
            while left:
                data = await self.reader.read(min(left, 1 << 16))
                if not data:
                    raise ConnectionError
                digest.update(data)
                size, left = size + len(data), left - len(data)
        return {"size": size, "sha256": digest.hexdigest()}

    async def reply(self, status, body, extra=""):
        self.writer.write(f"HTTP/1.1 {status}\r\nServer: lab\r\n{extra}Content-Type: application/json\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await self.writer.drain()
        return True

    async def send_bytes(self, size):
        self.writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        while size:
            self.writer.write(CHUNK[:min(size, len(CHUNK))])
            size -= min(size, len(CHUNK))
            await self.writer.drain()
        return True

    async def trickle(self):
        self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n\r\n")
        while True:
            self.writer.write(CHUNK[:16384])
            await self.writer.drain()
            await asyncio.sleep(0.05)


async def drain_in(reader):
    """Reads to the end; what came, when the last byte did, and how it ended."""
    digest, size, last, end = hashlib.sha256(), 0, None, "eof"
    try:
        while data := await reader.read(1 << 16):
            digest.update(data)
            size, last = size + len(data), time.time()
    except OSError:
        end = "reset"
    return {"size": size, "sha256": digest.hexdigest(), "last": last, "end": end}


async def echo(reader, writer):
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


def odd_servers(lab):
    """port -> what a connection to it meets."""

    async def ssh(reader, writer):
        writer.write(b"SSH-2.0-lab\r\n")
        await echo(reader, writer)

    async def banner(reader, writer):
        writer.write(b"banner from the lab\r\n")
        await echo(reader, writer)

    async def half_close(reader, writer):
        lab.note(service="half_close", **await drain_in(reader))
        for _ in range(4):
            writer.write(CHUNK)
            await writer.drain()

    async def greeting(reader, writer):
        writer.write(b"hello\r\n")
        writer.write_eof()
        lab.note(service="greeting", **await drain_in(reader))

    async def never_close(reader, writer):
        lab.note(service="never_close", **await drain_in(reader))
        await asyncio.Event().wait()

    async def sink(reader, writer):
        while data := await reader.read(1 << 16):
            lab.note(service="sink", size=len(data))

    return {internet.SINK_PORT: sink, internet.SSH_PORT: ssh, internet.BANNER_PORT: banner, internet.ECHO_PORT: echo,
            internet.HALF_CLOSE_PORT: half_close, internet.GREETING_PORT: greeting,
            internet.NEVER_CLOSE_PORT: never_close}


def forgiving(serve):
    async def run(reader, writer):
        try:
            await serve(reader, writer)
        except (ConnectionError, OSError):
            pass
        finally:
            writer.close()
    return run


class UdpEcho(asyncio.DatagramProtocol):
    def __init__(self, lab, port):
        self.lab, self.port, self.transport = lab, port, None

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        self.lab.note(service="udp", port=self.port, peer=list(peer[:2]), size=len(data))
        self.transport.sendto(data, peer)


def everywhere(port):
    return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)


async def main():
    lab, ready = Lab(sys.argv[1], sys.argv[2]), int(sys.argv[3])
    loop = asyncio.get_running_loop()
    tls = lab.tls_context()

    async def web(reader, writer):
        await Web(lab, reader, writer).serve()

    for port in internet.HTTP_PORTS:
        await asyncio.start_server(web, sock=everywhere(port))
    for port in internet.HTTPS_PORTS:
        await asyncio.start_server(web, sock=everywhere(port), ssl=tls)
    for port, serve in odd_servers(lab).items():
        await asyncio.start_server(forgiving(serve), sock=everywhere(port))
    for address in internet.UDP_ECHO_ADDRESSES:
        for port in internet.UDP_ECHO_PORTS:
            await loop.create_datagram_endpoint(lambda port=port: UdpEcho(lab, port), local_addr=(address, port))
    os.write(ready, b"1")
    os.close(ready)
    await asyncio.Event().wait()


if __name__ == "__main__":
    # A client that resets leaves an exception behind in asyncio's TLS transport; it says nothing of use.
    asyncio.run(main())
