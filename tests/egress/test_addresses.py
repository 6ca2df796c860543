"""What an address is for."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.egress import address_kind

KINDS = {
    "public": "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 168.63.129.15 "
    "192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.255 2606:4700::1111 2001:4860:4860::8888 2a00:1450::1 2400::1",
    "metadata": "169.254.169.254 169.254.170.2 fd00:ec2::254 fd20:ce::254 100.100.100.200 168.63.129.16 192.0.0.192",
    "loopback": "127.0.0.1 127.255.255.254 ::1",
    "private": "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 fc00::1 fdff::1 fec0::1",
    "link-local": "169.254.0.1 169.254.255.255 fe80::1 febf::1 fe80::1%eth0",
    "shared": "100.64.0.1 100.127.255.255",
    "documentation": "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1",
    "benchmarking": "198.18.0.1 198.19.255.255 2001:2::1",
    "reserved": "240.0.0.1 255.255.255.254 192.0.0.1 100::1 5f00::1 4000::1 e000::1 2001:10::1 2001:1ff::1",
    "unspecified": "0.0.0.0 0.1.2.3 ::",
    "multicast": "224.0.0.1 239.255.255.255 255.255.255.255 ff02::1",
    "transition": "::ffff:127.0.0.1 ::ffff:8.8.8.8 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1 2002:7f00:1:: "
    "2001::1 2001:0:7f00:1::1 ::ffff:0:7f00:1 192.88.99.1 2606:4700::5efe:7f00:1 2606:4700::200:5efe:7f00:1",
}


@pytest.mark.parametrize(("kind", "address"), [(kind, text) for kind, texts in KINDS.items() for text in texts.split()])
def test_kinds(kind, address):
    assert address_kind(ipaddress.ip_address(address)) == kind


@given(st.ip_addresses())
def test_what_python_knows_as_not_global_is_not_public(address):
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert address_kind(address) != "public"


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "64:ff9b::", "::", "64:ff9b:1::", "2606:4700::5efe:0:0"]))
def test_no_disguise_of_an_address_is_public(address, prefix):
    assert address_kind(ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | int(address))) != "public"
