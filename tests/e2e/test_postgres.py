# SPDX-License-Identifier: Apache-2.0
"""Postgres through the firewall, with psql (docs/policy.md, "Postgres")."""

import pytest
from harness import both, domains

DB, PLAIN = "198.18.0.20", "198.18.0.21"


# FW-090 FW-091
@pytest.mark.parametrize("mode", ["require", "prefer", "allow"])
def test_psql_connects_to_an_allowed_domain(shared, mode):
    ran = shared(domains("db.example")).psql("db.example", f"sslmode={mode}")
    assert (ran.code, ran.out) == (0, "hello\n"), ran.err


# FW-090 FW-170
def test_psql_sees_the_servers_own_certificate(shared):
    box = shared(domains("db.example"))
    ran = box.psql("db.example", "sslmode=verify-full", "sslrootcert=/tmp/lab-ca.pem")
    box.equip()
    ran = box.psql("db.example", "sslmode=verify-full", "sslrootcert=/tmp/lab-ca.pem")
    assert (ran.code, ran.out) == (0, "hello\n"), ran.err
    assert box.egress_line(protocol="postgres", verdict="allow")["name"] == "db.example"


# FW-092
def test_a_host_that_is_not_listed_is_refused(shared):
    box = shared(domains("allowed.example"))
    assert box.psql("db.example", f"hostaddr={DB}", "sslmode=require").code == 2
    assert box.egress_line(protocol="postgres", verdict="deny")["reason"] == "name_not_allowed"


# FW-093
def test_without_tls_a_domain_does_not_connect_but_a_range_does(shared):
    box = shared(domains("plaindb.example"))
    assert box.psql("plaindb.example", "sslmode=disable").code == 2
    box.set_policy(both(["plaindb.example"], allow=[f"{PLAIN}/32", "2001:db8::21/128"]))
    assert box.psql("plaindb.example", "sslmode=disable").out == "hello\n"


# FW-094 R-074
def test_gss_encryption_preferred_falls_back_to_tls(shared):
    box = shared(domains("db.example"))
    # psql asks for GSS only with credentials, so the first packets are sent by hand.
    met = box.tool("tcp", address=DB, port=5432, send="0000000804d21630", expect=1)
    assert met["text"] == "N"
    assert box.psql("db.example", "gssencmode=prefer", "sslmode=require").out == "hello\n"


# FW-095
def test_gss_encryption_required_does_not_connect(shared):
    assert shared(domains("db.example")).psql("db.example", "gssencmode=require").code == 2


# FW-096 R-076
@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_a_server_without_tls_gets_no_clear_text_fallback(shared, mode):
    box = shared(domains("plaindb.example"))
    ran = box.psql("plaindb.example", f"sslmode={mode}")
    assert ran.code == 2 and "hello" not in ran.out


# FW-097 D-19
def test_rules_on_a_database_domain_are_refused_until_handling_exists(shared):
    box = shared(domains("db.example"))
    with pytest.raises(Exception) as refused:
        box.set_policy({"allow": {"db.example": [{"transform": [{"headers": {"X-A": "b"}}]}]}})
    assert "db.example" in str(refused.value)
    assert box.psql("db.example", "sslmode=require").out == "hello\n"


#
def test_tls_without_the_postgres_preamble_is_ordinary_tls(shared):
    box = shared(domains("db.example"))
    met = box.tool("hello", address=DB, port=5432, name="denied.example")
    assert met["outcome"] == "alert"


#
@pytest.mark.parametrize("send", ["0000000804d21630" * 3, "0000000804d2162f" * 3])
def test_repeated_requests_are_closed(shared, send):
    met = shared(domains("db.example")).tool("tcp", address=DB, port=5432, send=send, expect=-1)
    assert met["outcome"] in ("reply", "closed", "reset", "alert")
    assert met["bytes"] <= 16, "no more than the answers to the first requests and an alert"


# R-075 FW-107
def test_a_postgres_client_that_sends_no_name_is_denied_with_a_reason(shared):
    box = shared(domains("db.example"))
    assert box.psql(DB, "sslmode=require", "sslsni=0").code == 2
    assert box.egress_line(protocol="postgres", verdict="deny")["reason"] == "no_server_name"
    box.set_policy(both(["db.example"], allow=[f"{DB}/32"]))
    assert box.psql(DB, "sslmode=require", "sslsni=0").out == "hello\n"


#
@pytest.mark.slow
def test_bulk_results_arrive_whole(shared):
    box = shared(domains("db.example"))
    rows = 2_000_000
    ran = box.sh(f"psql 'host=db.example user=postgres dbname=postgres sslmode=require' -XAtc "
                 f"'copy (select generate_series(1,{rows})) to stdout' | sha256sum; seq 1 {rows} | sha256sum")
    first, second = ran.out.split("\n")[:2]
    assert first == second, ran.err
