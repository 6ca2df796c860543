"""Network rules, and what they say of destinations."""

from __future__ import annotations

import pytest

from gloveport import EgressDeniedError, NetworkRule, NetworkRules
from gloveport.egress import Destination, Evaluator, Url


def says(allow, url, method="GET", deny=(), private=(), addresses=("93.184.215.14",)):
    """Whether a request passes by name and by address."""
    evaluator = Evaluator(NetworkRules(allow=allow, deny=deny, private=private))
    destination = Destination.of(Url.parse(url), method)
    if not evaluator.evaluate(destination).allowed:
        return False
    try:
        evaluator.vet(destination, addresses if destination.host.endswith("test") else [destination.host])
    except EgressDeniedError:
        return False
    return True


@pytest.mark.parametrize(
    ("rule", "passes", "fails"),
    [
        (
            "a.test",
            ["https://a.test/", "http://a.test/x", "https://A.TEST./"],
            ["https://b.a.test/", "https://xa.test/"],
        ),
        (
            "a.test",
            [],
            ["https://a.test.evil.test/", "https://a.test:8443/", "http://a.test:443/", "https://evil.test/"],
        ),
        ("*.a.test", ["https://b.a.test/", "https://c.b.a.test/"], ["https://a.test/", "https://xa.test/"]),
        ("a.test:8443", ["https://a.test:8443/", "http://a.test:8443/"], ["https://a.test/"]),
        ("a.test:*", ["https://a.test:1/", "http://a.test/"], ["https://b.test/"]),
        ("https://a.test", ["https://a.test/"], ["http://a.test/"]),
        ("a.test/v1", ["https://a.test/v1", "https://a.test/v1/x", "https://a.test/v1?q", "https://a.test/%761"], []),
        ("a.test/v1", [], ["https://a.test/v10", "https://a.test/", "https://a.test/V1", "https://a.test//v1"]),
        ("a.test/v1/", ["https://a.test/v1/", "https://a.test/v1/x"], ["https://a.test/v1"]),
        ("*", ["https://a.test/", "https://1.1.1.1/"], ["https://10.0.0.1/", "https://a.test:81/", "https://[::1]/"]),
        ("cidr:1.1.1.0/24", ["https://1.1.1.1/"], ["https://1.1.2.1/", "https://a.test/"]),
        ("cidr:10.0.0.0/8", ["https://10.1.1.1/"], ["https://11.0.0.1/"]),
        (
            "127.0.0.1:80",
            ["http://127.0.0.1/"],
            ["http://127.0.0.2/", "http://127.0.0.1:81/", "http://[::ffff:127.0.0.1]/"],
        ),
        ("169.254.169.254", ["http://169.254.169.254/"], []),
        ("cidr:169.254.0.0/16", ["http://169.254.1.1/"], ["http://169.254.169.254/"]),
        ("cidr:0.0.0.0/0", ["http://10.0.0.1/"], ["http://0.0.0.0/", "http://168.63.129.16/", "http://224.0.0.1/"]),
        ("[::ffff:127.0.0.1]", [], ["http://[::ffff:127.0.0.1]/", "http://127.0.0.1/"]),
        ("0.0.0.0", [], ["http://0.0.0.0/"]),
    ],
)
def test_what_a_rule_allows(rule, passes, fails):
    assert [url for url in passes if not says([rule], url)] == []
    assert [url for url in fails if says([rule], url)] == []


@pytest.mark.parametrize(
    ("rule", "method", "passes"),
    [
        ("a.test", "GET", True),
        ("a.test", "HEAD", True),
        ("a.test", "POST", False),
        ("a.test", "DELETE", False),
        ("POST a.test", "POST", True),
        ("POST a.test", "GET", False),
        ("GET,POST a.test", "GET", True),
    ],
)
def test_a_method_that_changes_things_needs_a_rule_that_names_it(rule, method, passes):
    assert says([rule], "https://a.test/", method) is passes


@pytest.mark.parametrize(
    ("deny", "fails", "passes"),
    [
        ("b.a.test", ["https://b.a.test/", "https://b.a.test:8443/", "http://b.a.test/"], ["https://c.a.test/"]),
        ("*.b.a.test", ["https://c.b.a.test/"], ["https://b.a.test/"]),
        ("c.a.test:8443", ["https://c.a.test:8443/"], ["https://c.a.test/"]),
        ("c.a.test/admin", ["https://c.a.test/admin", "https://c.a.test/admin/x"], ["https://c.a.test/administer"]),
        ("c.a.test/admin", ["https://c.a.test/%61dmin", "https://c.a.test//admin", "https://c.a.test/Admin"], []),
        ("c.a.test/admin/", ["https://c.a.test/admin;x/y", "https://c.a.test/admin"], ["https://c.a.test/"]),
        ("c.a.test/a+b", ["https://c.a.test/a%2Bb", "https://c.a.test/a+b"], []),
        ("POST c.a.test", [], ["https://c.a.test/"]),
        ("GET c.a.test", ["https://c.a.test/"], []),
        ("cidr:93.184.0.0/16", ["https://c.a.test/"], []),
        ("cidr:93.185.0.0/16", [], ["https://c.a.test/"]),
        ("*", ["https://c.a.test/"], []),
    ],
)
def test_a_denying_rule_wins(deny, fails, passes):
    allow = ["*.a.test:*", "*.a.test"]
    assert [url for url in fails if says(allow, url, deny=[deny])] == []
    assert [url for url in passes if not says(allow, url, deny=[deny])] == []


@pytest.mark.parametrize(
    "address",
    "127.0.0.1 ::1 10.0.0.1 192.168.1.1 100.64.0.1 169.254.1.1 169.254.169.254 fd00:ec2::254 100.100.100.200 168.63.129.16 0.0.0.0 "
    "224.0.0.1 240.0.0.1 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808:: 198.18.0.1 203.0.113.5 fe80::1%eth0 fc00::1 nonsense".split(),
)
def test_a_name_may_only_have_public_addresses(address):
    assert says(["a.test"], "https://a.test/")
    assert not says(["a.test"], "https://a.test/", addresses=[address])
    assert not says(["a.test"], "https://a.test/", addresses=["93.184.215.14", address])
    assert not says(["a.test"], "https://a.test/", addresses=[address, "93.184.215.14"])


@pytest.mark.parametrize(
    ("private", "passes", "fails"),
    [
        ("10.1.0.0/16", ["10.1.2.3"], ["10.2.0.1", "127.0.0.1"]),
        ("127.0.0.1", ["127.0.0.1"], ["127.0.0.2", "::1", "::ffff:127.0.0.1"]),
        (
            "0.0.0.0/0",
            ["10.0.0.1", "127.0.0.1"],
            ["0.0.0.0", "169.254.169.254", "168.63.129.16", "100.100.100.200", "224.0.0.1"],
        ),
        ("::/0", ["fc00::1", "::1"], ["::", "fd00:ec2::254", "::ffff:10.0.0.1", "64:ff9b::a00:1", "ff02::1"]),
        ("169.254.169.254", ["169.254.169.254"], ["169.254.169.253"]),
        ("fe80::/10", ["fe80::1"], ["fe80::1%eth0"]),
        ("fd00::/8", ["fd00::1"], ["fd00:ec2::254", "fd00:ec2::254%eth0"]),
    ],
)
def test_private_addresses_are_open_where_they_are_named(private, passes, fails):
    assert [a for a in passes if not says(["a.test"], "https://a.test/", private=[private], addresses=[a])] == []
    assert [a for a in fails if says(["a.test"], "https://a.test/", private=[private], addresses=[a])] == []


def test_names_of_metadata_services_need_a_rule_of_their_own():
    for name in ("metadata.google.internal", "instance-data", "metadata"):
        destination = Destination(name, 80, "http", "GET", "/")
        for rules in (["*"], ["*.google.internal", "*.internal"]):
            assert not Evaluator(NetworkRules(allow=rules)).evaluate(destination).allowed
        assert Evaluator(NetworkRules(allow=[name])).evaluate(destination).allowed


def test_what_cannot_be_seen_is_not_allowed():
    """As for `CONNECT` and protocols that are not HTTP."""

    def says(rule, **more):
        return Evaluator(NetworkRules(allow=[rule], **more)).evaluate(Destination("a.test", 443, "https")).allowed

    assert says("a.test")
    assert not says("a.test/v1")
    assert not says("POST a.test")
    assert not says("a.test", deny=["a.test/admin"])
    assert not says("a.test", deny=["POST a.test"])
    assert not Evaluator(NetworkRules(allow=["a.test"])).evaluate(Destination("a.test", 22)).allowed
    assert Evaluator(NetworkRules(allow=["a.test:22"])).evaluate(Destination("a.test", 22)).allowed


def test_the_log_is_bounded_and_holds_no_path():
    evaluator = Evaluator(NetworkRules(allow=["a.test"], deny=["b.test"]), log_size=3)
    for host in ("x.test", "x.test", "b.test"):
        evaluator.evaluate(Destination.of(Url.parse(f"https://{host}/secret?secret"), "GET"))
    evaluator.vet(Destination.of(Url.parse("https://a.test/secret?secret"), "GET"), ["1.1.1.1"])
    log = evaluator.decisions
    assert [(line.destination, line.allowed, line.rule) for line in log] == [
        ("GET https://x.test", False, ""),
        ("GET https://b.test", False, "b.test"),
        ("GET https://a.test", True, "a.test"),
    ]
    assert "secret" not in repr(log)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "https://",
        "a.test:0",
        "a.test:99999",
        "a.test/../x",
        "a.test/%41",
        "a.test/x?y",
        "a.test//x",
        "user@a.test",
    ]
    + [
        "10.0.0.0/8",
        "[fc00::]/7",
        "127.1",
        "0x7f.1",
        "bücher.test",
        "*.10.0.0.1",
        "*x.test",
        "a.*.test",
        "cidr:10.0.0.1/8",
        "cidr:x",
    ]
    + ["get a.test", "A.TEST/\\x", "https:a.test", "**.a.test", "cidr:10.0.0.0/8:x"],
)
def test_a_rule_that_means_nothing_or_two_things_is_refused(text):
    with pytest.raises(ValueError, match="cannot be read"):
        NetworkRule.parse(text)


@pytest.mark.parametrize(
    "text",
    ["a.test", "POST,PUT https://a.test:8443/v1/", "*.a.test:*", "cidr:10.0.0.0/8:443", "[::1]:80", "*", "127.0.0.1"],
)
def test_a_rule_and_its_text(text):
    assert str(NetworkRule.parse(text)) == text
    assert NetworkRule.parse(str(NetworkRule.parse(text))) == NetworkRule.parse(text)


def test_rules_are_checked_when_they_are_made():
    for wrong, error in (
        ({"allow": "a.test"}, TypeError),
        ({"allow": [1]}, TypeError),
        ({"private": ["x"]}, ValueError),
    ):
        with pytest.raises(error):
            NetworkRules(**wrong)
    for wrong in (
        {},
        {"host": "a", "cidr": "10.0.0.0/8"},
        {"host": "a", "ports": (0,)},
        {"host": "a", "methods": ("get",)},
    ):
        with pytest.raises(ValueError):
            NetworkRule(**wrong)
