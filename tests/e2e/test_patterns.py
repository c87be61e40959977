# SPDX-License-Identifier: Apache-2.0
"""Domain patterns as a guest meets them (docs/policy.md, "Domain patterns"). All names share one address, so only the
pattern decides. DNS is asked as well: it follows the same patterns (FW-072)."""

import pytest
from harness import ApiError, domains

NAMES = ["example.com", "www.example.com", "www.api.example.com", "a.b.c.example.com", "notexample.com",
         "example.com.evil.net"]


def admitted(box):
    """The names to which a connection and a lookup are both allowed; never only one of the two."""
    found = []
    for name in NAMES:
        connects = box.tool("hello", address="198.18.0.10", name=name)["outcome"] == "served"
        resolves = box.tool("dns", name=name)["rcode"] == 0
        assert connects == resolves, f"{name}: connection {connects}, lookup {resolves}"
        if connects:
            found.append(name)
    return found


# FW-040 FW-041 FW-043 FW-044 FW-045 FW-046 FW-048 FW-049 FW-050 D-02
@pytest.mark.parametrize("patterns,expected", [
    (["example.com"], NAMES[:1]),
    (["*.example.com"], NAMES[1:4]),
    (["example.com", "*.example.com"], NAMES[:4]),
    (["www.*.com"], NAMES[1:2]),
    (["*"], NAMES),
    (["EXAMPLE.Com"], NAMES[:1]),
    (["example.com."], NAMES[:1]),
    (["www.example.com", "notexample.com"], [NAMES[1], NAMES[4]]),
], ids=lambda value: ",".join(value))
def test_a_pattern_admits_exactly_its_names(shared, patterns, expected):
    assert admitted(shared(domains(*patterns))) == expected


# FW-042
@pytest.mark.parametrize("pattern", ["api*.example.com", "*api.example.com", "a.*b.example.com", "**.example.com"])
def test_a_wildcard_that_is_part_of_a_label_is_refused(shared, pattern):
    box = shared(domains("allowed.example"))
    with pytest.raises(ApiError) as refused:
        box.set_policy(domains(pattern))
    assert refused.value.status == 400 and refused.value.code == "bad_request"
    assert pattern in refused.value.message
    assert box.fetch("https://allowed.example/")["sni"] == "allowed.example"


# FW-051 R-005 D-03
def test_the_case_of_a_name_does_not_matter(shared):
    box = shared(domains("Allowed.Example"))
    assert box.tool("hello", address="198.18.0.10", name="ALLOWED.exAmple")["outcome"] == "served"
    assert box.tool("dns", name="aLLowed.EXAMPLE")["rcode"] == 0
