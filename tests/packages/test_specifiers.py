"""What a URL in an import is compared with."""

from __future__ import annotations

import pytest

from gloveport.errors import PackageError
from gloveport.host.packages.specifiers import root_of
from gloveport.permissions import Packages

ANY = Packages(deny=["https://Evil.example/"])


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/x.js",
        "https://evil.example:443/x.js",
        "https://EVIL.example./x.js",
        "https://evil%2eexample/x.js",
        "https:///evil.example/x.js",
    ],
)
def test_a_denied_host_has_one_spelling(url: str):
    with pytest.raises(PackageError):
        root_of(url, ANY)


def test_the_control():
    assert root_of("https://Good.example:443/x.js", ANY) == "https://good.example/x.js"
    assert root_of("https://good.example:8443/x.js", ANY) == "https://good.example:8443/x.js"
    own = Packages(allow=["http://[::1]:80/lib/"])
    assert root_of("http://[0::1]/lib/x.js", own) == "http://[::1]/lib/x.js"
    with pytest.raises(PackageError):
        root_of("http://[::1]/other/x.js", own)


@pytest.mark.parametrize("url", ["https://[/x", "https://ex\u2100mple/x", "https://x:99999/a.js", "https://127.1/a.js"])
def test_what_is_no_url_is_refused(url: str):
    with pytest.raises(PackageError):
        root_of(url, ANY)


@pytest.mark.parametrize("rule", ["https://[/", "https://127.1/", "https://x:99999/", "https:///x/"])
def test_rules_without_a_host_are_refused(rule: str):
    with pytest.raises(ValueError, match="package rule"):
        Packages(deny=[rule])
