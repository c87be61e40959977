# SPDX-License-Identifier: Apache-2.0
"""The `sandbox` command: names on stdout and the rest on stderr, the command's exit status, policies from flags and files."""

import json
import os
import subprocess

import pytest
from harness import LAB, domains


@pytest.fixture
def cli(node):
    """cli(...) runs the program; cli.create(...) makes a sandbox that is gone after the test."""
    made = []

    def run(*arguments, **options):
        return node.cli(*arguments, **options)

    def create(*arguments, **options):
        ran = node.cli("create", *arguments, **options)
        assert ran.code == 0, ran.err
        assert ran.out.count("\n") == 1, "stdout is the name only"
        made.append(ran.out.strip())
        return made[-1]
    run.create = create
    yield run
    for name in made:
        node.cli("rm", name)


def test_create_exec_and_rm(cli):
    name = cli.create()
    ran = cli("exec", name, "--", "sh", "-c", "echo out; echo err >&2; exit 5")
    assert (ran.code, ran.out, ran.err.endswith("err\n")) == (5, "out\n", True)
    assert name in cli("ls").out
    assert cli("stop", name).code == 0
    assert name not in cli("ls").out and name in cli("ls", "--all").out
    assert cli("rm", name).code == 0
    assert name not in cli("ls", "--all").out


def test_exec_options(cli):
    name = cli.create()
    ran = cli("exec", "--sudo", "-w", "/tmp", "-e", "K=v", name, "--", "sh", "-c", "id -u; pwd; echo $K")
    assert ran.out == "0\n/tmp\nv\n", ran.err


def test_run_is_create_and_exec(cli):
    ran = cli("run", "--rm", "--network-policy", "deny-all", "--", "sh", "-c", "echo hi; exit 3")
    assert (ran.code, ran.out.endswith("hi\n")) == (3, True), ran.err


# FW-009
def test_policy_from_flags(cli, node):
    name = cli.create("--allowed-domain", "allowed.example", "--allowed-domain", "*.wild.example", "--allowed-cidr", "198.18.0.30/32",
                      "--denied-cidr", "198.18.0.11/32")
    shown = node.api("GET", f"/v2/sandboxes/{name}?projectId=default")["sandbox"]["networkPolicy"]
    assert shown == {"mode": "custom", "allowedDomains": ["allowed.example", "*.wild.example"], "allowedCIDRs": ["198.18.0.30/32"],
                     "deniedCIDRs": ["198.18.0.11/32"]}


@pytest.mark.parametrize("flags", [["--network-policy", "allow-all", "--allowed-domain", "a.example"], ["--network-policy", "open"],
                                   ["--policy", "-", "--network-policy", "deny-all"]])
def test_conflicting_flags_send_nothing(cli, node, flags):
    before = len(node.sandboxes())
    assert cli("create", *flags, stdin="{}").code != 0
    assert len(node.sandboxes()) == before


# FW-002 FW-010
def test_policy_from_a_file_and_live_update(cli, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(domains("allowed.example")))
    name = cli.create("--policy", str(path))
    look = lambda: cli("exec", name, "--", "getent", "hosts", "allowed.example").code  # noqa: E731
    assert look() == 0
    assert cli("config", "network-policy", name, "--network-policy", "deny-all").code == 0
    assert look() != 0
    assert cli("config", "network-policy", name, "--policy", "-", stdin=path.read_text()).code == 0
    assert look() == 0
    ran = cli("config", "network-policy", name, "--policy", "-", stdin='{"allow": ["api*.example"]}')
    assert ran.code != 0 and "api*.example" in ran.err
    assert look() == 0


# FW-042
def test_policy_check(cli, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text('{"allow": ["Allowed.Example."]}')
    ran = cli("policy", "check", str(path))
    assert ran.code == 0 and "allowed.example" in ran.out
    path.write_text('{"allow": ["a.*b.example"]}')
    ran = cli("policy", "check", str(path))
    assert ran.code != 0 and "a.*b.example" in ran.err


def test_policy_check_never_shows_a_secret(cli, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text('{"allow": {"a.example": [{"transform": [{"headers": {"X-Key": "hunter2"}}]}]}}')
    ran = cli("policy", "check", str(path))
    assert "hunter2" not in ran.out + ran.err


@pytest.mark.parametrize("target,code", [("https://allowed.example/", 0), ("https://denied.example/", 1), ("allowed.example:8443", 0),
                                         ("http://allowed.example/", 1), ("198.18.0.30", 0), ("198.18.0.31", 1), ("169.254.169.254", 1)])
def test_policy_explain(cli, tmp_path, target, code):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"allow": ["allowed.example"], "subnets": {"allow": ["198.18.0.30/32"]}}))
    ran = cli("policy", "explain", str(path), target)
    assert ran.code == code, ran.out + ran.err
    assert ran.out.strip()


def test_policy_explain_of_a_running_sandbox(cli):
    name = cli.create("--allowed-domain", "allowed.example")
    assert cli("policy", "explain", name, "https://allowed.example/").code == 0
    assert cli("policy", "explain", name, "https://denied.example/").code == 1


def test_egress_shows_what_was_refused_and_why(cli):
    name = cli.create("--allowed-domain", "allowed.example")
    cli("exec", name, "--", "sh", "-c", "getent hosts denied.example; curl -sk -m5 --resolve evil.test:443:198.18.0.10 https://evil.test/;"
        " curl -sk -m5 -o /dev/null https://allowed.example/; true")
    lines = [json.loads(line) for line in cli("egress", name, "--json").out.splitlines()]
    assert {line["v"] for line in lines} == {1}
    assert {line["verdict"] for line in lines} == {"allow", "deny"}
    denied = cli("egress", name, "--denied")
    assert "evil.test" in denied.out and "denied.example" in denied.out and "allowed.example" not in denied.out


def test_without_a_daemon_the_cli_says_how_to_start_it(node):
    program = f"{bin_dir()}/sandbox"
    ran = subprocess.run([program, "ls"], capture_output=True, text=True,
                         env={**os.environ, "SALLYPORT_API": "unix:/nonexistent/sandboxd.sock"}, timeout=30)
    assert ran.returncode != 0 and "sandboxd" in ran.stderr


def bin_dir():
    code = ("import runpy,sys; sys.argv=['lab','help']; "
            f"m=runpy.run_path({LAB!r}, run_name='lab'); print(m['bin_dir']())")
    return subprocess.run(["/usr/bin/python3", "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_unknown_names_and_verbs_fail_politely(cli):
    for arguments in (["exec", "nobody", "--", "true"], ["rm", "nobody"], ["config", "network-policy", "nobody", "--network-policy", "deny-all"],
                      ["frobnicate"]):
        ran = cli(*arguments)
        assert ran.code != 0 and ran.out == "" and ran.err


def test_images_are_listed(cli):
    ran = cli("image", "ls")
    assert ran.code == 0 and ran.out.strip()
