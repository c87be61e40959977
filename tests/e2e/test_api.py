# SPDX-License-Identifier: Apache-2.0
"""The first slice of the HTTP API, as docs/api.md has it: create, get, list, delete, stop, cmd, network-policy."""

import contextlib
import json

import pytest
from harness import ALLOW_ALL, DENY_ALL, ApiError, UnixConnection, domains


def refusal(call, *arguments):
    with pytest.raises(ApiError) as refused:
        call(*arguments)
    return refused.value


def test_create_answers_with_all_that_clients_require(sandbox):
    made = sandbox(domains("allowed.example"), env={"A": "b"}, tags={"k": "v"}).created
    box, session = made["sandbox"], made["session"]
    assert made["routes"] == []
    assert {"name", "persistent", "status", "currentSessionId", "createdAt", "updatedAt"} <= set(box)
    assert {"id", "memory", "vcpus", "region", "timeout", "status", "requestedAt", "createdAt", "updatedAt", "cwd"} <= set(session)
    assert session["id"].startswith("sbx_") and box["currentSessionId"] == session["id"]
    assert session["status"] == box["status"] == "running"
    assert session["memory"] == session["vcpus"] * 2048 and session["cwd"] == "/vercel"
    assert box["networkPolicy"] == session["networkPolicy"] == {"mode": "custom", "allowedDomains": ["allowed.example"]}
    assert None not in box.values() and None not in session.values(), "absent, not null"


def test_both_prefixes_are_served(node):
    for prefix in ("", "/api"):
        assert "sandboxes" in node.api("GET", f"{prefix}/v2/sandboxes?project=default&teamId=team_x")


def test_a_name_is_taken_once_and_free_after_delete(sandbox, node):
    box = sandbox(DENY_ALL)
    error = refusal(lambda: node.create(DENY_ALL, name=box.name))
    assert (error.status, error.code) == (400, "bad_request") and "already exists" in error.message
    assert node.api("DELETE", f"/v2/sandboxes/{box.name}?projectId=default")["sandbox"]["name"] == box.name
    assert refusal(box.info).status == 404
    again = node.create(DENY_ALL, name=box.name)
    again.delete()


@pytest.mark.parametrize("body,word", [
    ({"name": "no spaces"}, "name"), ({"name": "sessions"}, "name"), ({"timeout": 10}, "timeout"),
    ({"resources": {"vcpus": 3}}, "vcpus"), ({"resources": {"vcpus": 2, "memory": 1000}}, "memory"),
    ({"networkPolicy": {"mode": "open"}}, "networkPolicy"), ({"image": "no-such-image"}, "image"),
    ({"networkId": "nowhere"}, "networkId"), ({"source": {"type": "git", "url": "https://x"}}, "source")])
def test_a_create_that_cannot_be_kept_is_refused_by_field(node, body, word):
    error = refusal(lambda: node.create(**{"policy": None, **body}) if "networkPolicy" not in body
                    else node.api("POST", "/v3/sandboxes", {"projectId": "default", **body}))
    assert 400 <= error.status < 500 and word in error.message, str(error)


def test_stop_is_final_and_idempotent(sandbox):
    box = sandbox(DENY_ALL)
    for _ in range(2):
        answer = box.stop()
        assert answer["session"]["id"] == box.id and answer["session"]["status"] == "stopped"
    error = refusal(lambda: box.run("true"))
    assert (error.status, error.code) == (410, "sandbox_stopped")


def test_unknown_things_are_404(node):
    for method, path in (("GET", "/v2/sandboxes/nobody?projectId=default"), ("DELETE", "/v2/sandboxes/nobody?projectId=default"),
                         ("POST", "/v2/sandboxes/sessions/sbx_none/cmd"), ("POST", "/v2/sandboxes/sessions/sbx_none/network-policy"),
                         ("GET", "/v2/nothing")):
        assert refusal(node.api, method, path, {"command": "true", "wait": True, "logs": True} if "cmd" in path else None).status == 404


def test_a_list_is_newest_first_and_paged(sandbox, node):
    names = [sandbox(DENY_ALL).name for _ in range(3)]
    seen, cursor = [], ""
    while True:
        page = node.api("GET", f"/v2/sandboxes?project=default&limit=1{cursor}")
        seen += [each["name"] for each in page["sandboxes"]]
        if not page["pagination"].get("next"):
            break
        cursor = f"&cursor={page['pagination']['next']}"
    assert [name for name in seen if name in names] == names[::-1]


def test_a_waiting_command_is_ndjson_to_the_letter(shared):
    box = shared(DENY_ALL)
    with contextlib.closing(UnixConnection(box.node.socket, 60)) as connection:
        connection.request("POST", f"/v2/sandboxes/sessions/{box.id}/cmd", json.dumps(
            {"command": "printf", "args": ["caf\u00e9\\n"], "env": {}, "sudo": False, "wait": True, "logs": True}))
        answer = connection.getresponse()
        body = answer.read()
    assert answer.status == 200 and answer.getheader("content-type") == "application/x-ndjson"
    assert all(byte < 128 for byte in body), "non-ASCII must be escaped"
    records = [json.loads(line) for line in body.splitlines() if line]
    first, last = records[0]["command"], records[-1]["command"]
    assert first["id"] == last["id"] and first["id"].startswith("cmd_") and first["exitCode"] is None
    assert last["exitCode"] == 0 and last["durationMs"] >= 0 and last["sessionId"] == box.id
    assert "".join(r["data"] for r in records[1:-1]) == "caf\u00e9\n"
    assert (first["name"], first["args"], first["cwd"]) == ("printf", ["caf\u00e9\\n"], "/vercel")


@pytest.mark.parametrize("script,code", [("exit 0", 0), ("exit 7", 7), ("kill -INT $$", 130), ("kill -KILL $$", 137), ("kill -TERM $$", 143)])
def test_exit_codes(shared, script, code):
    assert shared(DENY_ALL).run("sh", "-c", script).code == code


def test_a_missing_program_is_executable_not_found(shared):
    box = shared(DENY_ALL)
    error = refusal(lambda: box.run("no-such-program"))
    assert 400 <= error.status < 500 and error.code == "executable_not_found"
    error = refusal(lambda: box.start("no-such-program", detached=True))
    assert error.code == "executable_not_found"


def test_a_command_gets_its_directory_and_environment(sandbox):
    box = sandbox(DENY_ALL, env={"A": "sandbox", "B": "sandbox"})
    ran = box.run("sh", "-c", "pwd; echo $A $B", cwd="/tmp", env={"B": "command"})
    assert ran.out == "/tmp\nsandbox command\n"


# R-08 R-11 R-12 R-13 R-14 (spec 2.2)
@pytest.mark.parametrize("policy,where", [
    ({"mode": "allow-some"}, "mode"), ({"mode": "allow-all", "subnets": {"deny": ["10.0.0.0/8"]}}, "$"), ({"mode": "custom", "allow": []}, "$"),
    ({"allow": "allowed.example"}, "allow"), ({"allow": {"a.example": [{}]}}, "a.example"),
    ({"allow": {"a.example": [{"transform": [{"headers": {"X": "<redacted>"}}]}]}}, "a.example"),
    ({"allow": ["https://a.example"]}, "https://a.example"), ({"allow": ["10.0.0.1"]}, "10.0.0.1"), ({"allow": [""]}, "allow"),
    ({"subnets": {"allow": ["10.0.0.0/33"]}}, "10.0.0.0/33"), ({"subnets": {"allow": [5]}}, "subnets"),
    ({"allow": {"a.example": [{"match": {"path": {"regex": "(?=x)"}}, "forwardURL": "https://p.example/"}]}}, "a.example"),
    ({"allow": {"a.example": [{"forwardURL": "https://p.example/?x=1"}]}}, "a.example")])
def test_a_refused_policy_names_the_offending_entry(shared, policy, where):
    box = shared(domains("allowed.example"))
    error = refusal(box.set_policy, policy)
    assert (error.status, error.code) == (400, "bad_request") and where in error.message, str(error)


# FW-009 (spec 2.3)
@pytest.mark.parametrize("policy,answer", [
    (ALLOW_ALL, {"mode": "allow-all"}), ({"mode": "default-deny"}, {"mode": "deny-all"}), ({}, {"mode": "custom"}),
    ({"allow": {"b.example": [], "a.example": []}, "subnets": {"allow": ["1.1.1.1", "192.0.2.77/24"], "deny": ["10.0.0.0/8"]}},
     {"mode": "custom", "allowedDomains": ["b.example", "a.example"], "allowedCIDRs": ["1.1.1.1/32", "192.0.2.0/24"], "deniedCIDRs": ["10.0.0.0/8"]}),
    ({"mode": "custom", "allowedDomains": ["a.example"], "allowedCIDRs": ["1.1.1.0/24"]},
     {"mode": "custom", "allowedDomains": ["a.example"], "allowedCIDRs": ["1.1.1.0/24"]})])
def test_a_policy_is_read_back_in_the_response_grammar(shared, policy, answer):
    box = shared(DENY_ALL)
    assert box.set_policy(policy)["session"]["networkPolicy"] == answer
    assert box.info()["sandbox"]["networkPolicy"] == answer


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"allow": ["a.example"], "allow": ["b.example"]}', "\x00", '{"mode": "allow-all"} x', "[" * 5000])
def test_malformed_bodies_are_refused(shared, body):
    box = shared(DENY_ALL)
    error = refusal(box.node.api, "POST", f"/v2/sandboxes/sessions/{box.id}/network-policy", body)
    assert error.status == 400
    assert box.info()["sandbox"]["networkPolicy"] == {"mode": "deny-all"}
