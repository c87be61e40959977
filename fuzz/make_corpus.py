#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpora of the wire parsers: real clients against a local socket, and hand-made odd ones.

Run by hand when a seed is added: fuzz/make_corpus.py. Existing files stay, so that the real clients' random bytes do
not change with every run; delete a file to make it anew. Needs openssl and curl.
"""
import pathlib
import socket
import ssl
import struct
import subprocess
import threading

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def write(target, name, data):
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(data)


def u16(n):
    return struct.pack("!H", n)


def v16(data):
    return u16(len(data)) + data


def first_bytes_of(command):
    """The first message that a client program sends to a local port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        caught = []

        def serve():
            peer, _ = server.accept()
            with peer:
                caught.append(peer.recv(65536))

        thread = threading.Thread(target=serve)
        thread.start()
        subprocess.run([part.format(port=port) for part in command], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20, check=False)
        thread.join(20)
    return caught[0]


def python_hello(name, alpn):
    context = ssl.create_default_context()
    context.set_alpn_protocols(alpn)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def sni(*names):
    return u16(0) + v16(v16(b"".join(b"\0" + v16(name) for name in names)))


def message(extensions):
    body = b"\x03\x03" + bytes(range(32)) + b"\0" + v16(b"\x13\x01") + b"\1\0" + v16(extensions)
    return b"\x01" + struct.pack("!I", len(body))[1:] + body


def records(data, size):
    return b"".join(b"\x16\x03\x01" + v16(data[i:i + size]) for i in range(0, len(data), size))


def client_hellos():
    s_client = ["openssl", "s_client", "-connect", "127.0.0.1:{port}"]
    write("client_hello", "openssl_tls13", first_bytes_of(s_client + ["-servername", "allowed.example", "-alpn", "h2"]))
    write("client_hello", "openssl_tls12_only", first_bytes_of(s_client + ["-servername", "allowed.example", "-tls1_2"]))
    write("client_hello", "openssl_without_sni", first_bytes_of(s_client + ["-noservername"]))
    write("client_hello", "curl", first_bytes_of(
        ["curl", "-sk", "--connect-to", "::127.0.0.1:{port}", "https://allowed.example/"]))
    write("client_hello", "python_postgresql_alpn", python_hello("db.example", ["postgresql"]))
    good = message(sni(b"allowed.example"))
    write("client_hello", "split_into_one_byte_records", records(good, 1))
    write("client_hello", "split_inside_the_name", records(good, good.index(b"allowed") + 3))
    write("client_hello", "last_byte_in_its_own_record", records(good, len(good) - 1))
    write("client_hello", "post_quantum_key_share",
          records(message(u16(51) + v16(v16(b"\x11\xec" + v16(b"k" * 1216))) + sni(b"allowed.example")), 16384))
    write("client_hello", "two_names_in_one_list", records(message(sni(b"allowed.example", b"denied.example")), 16384))
    write("client_hello", "server_name_twice",
          records(message(sni(b"allowed.example") + sni(b"denied.example")), 16384))
    write("client_hello", "nul_in_the_name", records(message(sni(b"allowed.example\0.denied.example")), 16384))
    write("client_hello", "empty_name", records(message(sni(b"")), 16384))
    write("client_hello", "ip_literal_as_name", records(message(sni(b"198.18.0.10")), 16384))
    write("client_hello", "grease_and_ech", records(
        message(b"\x0a\x0a\0\0" + b"\xfe\x0d" + v16(b"\0" * 60) + sni(b"outer.example") + b"\xfa\xfa\0\1\0"), 16384))
    write("client_hello", "second_message_in_the_record", records(good + good, 16384))
    write("client_hello", "declares_16_megabytes", b"\x16\x03\x01\x40\x00\x01\xff\xff\xff")
    write("client_hello", "change_cipher_spec_between", records(good[:20], 20) + b"\x14\x03\x01\0\1\1" + records(good[20:], 999))
    write("client_hello", "sslv2_hello", bytes.fromhex("802e010301001500000010") + b"c" * 37)
    write("client_hello", "http_request", b"GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n")
    write("client_hello", "only_three_bytes", b"\x16\x03\x01")


def dns_name(text):
    return b"".join(bytes([len(label)]) + label.encode() for label in text.split(".") if label) + b"\0"


def query(name, qtype, flags=0x0100, extra=b"", extra_count=0):
    return b"\0" + b"\x12\x34" + u16(flags) + u16(1) + u16(0) + u16(0) + u16(extra_count) + name + u16(qtype) + u16(1) + extra


def record(owner, rtype, data, ttl=60):
    return owner + u16(rtype) + u16(1) + struct.pack("!I", ttl) + v16(data)


def answer(name, qtype, answers=(), authority=(), additional=(), flags=0x8180):
    return (b"\x01" + b"\x12\x34" + u16(flags) + u16(1) + u16(len(answers)) + u16(len(authority)) + u16(len(additional))
            + name + u16(qtype) + u16(1) + b"".join([*answers, *authority, *additional]))


def dns_messages():
    name = dns_name("Api.Example.com")
    opt = b"\0" + u16(41) + u16(1232) + b"\0\0\x80\0" + v16(u16(10) + v16(b"12345678"))
    write("dns_message", "query_a", query(name, 1))
    write("dns_message", "query_https_with_opt", query(name, 65, extra=opt, extra_count=1))
    write("dns_message", "query_any", query(name, 255))
    write("dns_message", "query_axfr", query(name, 252))
    write("dns_message", "query_opcode_update", query(name, 6, flags=0x2800))
    write("dns_message", "query_root_ns", query(b"\0", 2))
    write("dns_message", "query_pointer_to_itself", query(b"\xc0\x0c", 1))
    write("dns_message", "query_dot_inside_a_label", query(b"\x0bapi.example\x03com\0", 1))
    write("dns_message", "query_name_of_255_bytes", query((b"\x3f" + b"a" * 63) * 3 + b"\x3d" + b"b" * 61 + b"\0", 16))
    write("dns_message", "query_opt_cut_in_its_ttl", query(name, 1, extra=opt[:7], extra_count=1))
    write("dns_message", "query_edns_version_1", query(name, 1, extra=b"\0" + u16(41) + u16(512) + b"\0\1\0\0\0\0", extra_count=1))
    write("dns_message", "an_answer_from_the_guest", query(name, 1, flags=0x8180))
    own = b"\xc0\x0c"
    write("dns_message", "answer_42_addresses", answer(name, 1, [record(own, 1, bytes([198, 18, 0, i])) for i in range(42)]))
    write("dns_message", "answer_cname_chain", answer(name, 1, [
        record(own, 5, dns_name("x.cdn.test")), record(dns_name("x.cdn.test"), 5, dns_name("y.evil.test")),
        record(dns_name("y.evil.test"), 1, bytes([198, 18, 0, 5]))]))
    write("dns_message", "answer_cname_loop", answer(name, 1, [
        record(own, 5, dns_name("b.test")), record(dns_name("b.test"), 5, own)]))
    write("dns_message", "answer_nodata_with_soa", answer(name, 28, [], [
        record(dns_name("example.com"), 6, dns_name("ns.example.com") + dns_name("root.example.com") + struct.pack("!5I", 1, 2, 3, 4, 5))]))
    ech = u16(0) + v16(u16(1) + u16(5)) + u16(1) + v16(b"\x02h2") + u16(5) + v16(b"config") + u16(6) + v16(b"x" * 16)
    write("dns_message", "answer_https_with_ech", answer(name, 65, [
        record(own, 65, b"\0\1\0" + ech), record(own, 46, u16(65) + b"s" * 16 + dns_name("com") + b"sig")],
        [record(dns_name("zone.test"), 2, b"\x02ns" + own)], [b"\0" + u16(41) + u16(4096) + b"\0\0\0\0\0\0"]))
    write("dns_message", "answer_https_alias", answer(name, 65, [record(own, 65, b"\0\0" + dns_name("other.test"))]))
    write("dns_message", "answer_mx_srv_naptr", answer(name, 15, [
        record(own, 15, u16(10) + b"\x02mx" + own), record(own, 33, u16(0) * 2 + u16(443) + b"\x01s" + own),
        record(own, 35, u16(1) + u16(2) + b"\1s\0\3xyz" + own)]))
    write("dns_message", "answer_forward_pointer", answer(name, 1, [record(b"\xc0\xff", 1, bytes(4))]))
    write("dns_message", "answer_short_address", answer(name, 1, [record(own, 1, bytes(3))]))


def postgres():
    ssl_request = bytes.fromhex("0000000804d2162f")
    gss_request = bytes.fromhex("0000000804d21630")
    startup = b"\0\0\0\x15\0\3\0\0user\0alice\0\0"
    write("postgres_startup", "ssl_request", ssl_request)
    write("postgres_startup", "gss_then_ssl_then_hello", gss_request + ssl_request + b"\x16\x03\x01")
    write("postgres_startup", "gss_three_times", gss_request * 3)
    write("postgres_startup", "ssl_twice", ssl_request * 2)
    write("postgres_startup", "startup_in_clear", startup)
    write("postgres_startup", "gss_then_startup_in_clear", gss_request + startup)
    write("postgres_startup", "cancel_request", bytes.fromhex("0000001004d2162e0000000100000002"))
    write("postgres_startup", "ssl_request_of_wrong_length", bytes.fromhex("0000000904d2162f00"))
    write("postgres_startup", "upstream_s", b"S")
    write("postgres_startup", "upstream_s_and_more", b"SE")


def control():
    def frame(text):
        return struct.pack("!I", len(text)) + text
    write("control_frame", "configure", frame(
        b'{"id":1,"op":"configure","sandbox":"sbx_1","name":"web","boundary":{"closed":["10.0.0.0/8"],"opened":[],'
        b'"attached":[]},"resolvers":["198.18.0.53"],"guest":["10.209.0.2"],"limits":{"connections":4096,"log_bytes":1}}'))
    write("control_frame", "prepare", frame(b'{"id":2,"op":"prepare","version":7,"policy":{"allow":{"*.example.com":[]}}}'))
    write("control_frame", "answer_with_counts", frame(b'{"id":3,"ok":true,"version":7,"kept":12,"cut":3}'))
    write("control_frame", "two_frames", frame(b'{"id":4}') + frame(b'{"event":"log_full","bytes":1}'))
    write("control_frame", "duplicate_key", frame(b'{"id":1,"id":2}'))
    write("control_frame", "not_an_object", frame(b"[]"))
    write("control_frame", "too_deep", frame(b'{"a":' * 40 + b"1" + b"}" * 40))
    write("control_frame", "too_large", b"\x01\x00\x00\x01{")


def guest():
    def rec(kind, data):
        return bytes([kind]) + struct.pack("!I", len(data)) + data
    write("guest_record", "a_whole_process", rec(1, b'{"pid":42}') + rec(2, b"out\xff") + rec(3, b"err") + rec(4, b'{"code":0}'))
    write("guest_record", "empty_payload", rec(2, b""))
    write("guest_record", "cut_in_the_payload", rec(2, b"abcdef")[:-2])
    write("guest_record", "unknown_type", rec(9, b"x"))
    write("guest_record", "too_large", b"\x02\xff\xff\xff\xff")


if __name__ == "__main__":
    client_hellos()
    dns_messages()
    postgres()
    control()
    guest()
