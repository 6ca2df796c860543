"""Secrets of a sandbox: the values stay outside, and are put into requests at the gateway."""

from __future__ import annotations

import dataclasses
import datetime as dt
import ipaddress
import os
import re
import secrets as randomness
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...egress.gateway.boxes.plans import SECRETS_FILE, BoxSecret, BoxSecrets, write_file
from ...errors import EngineUnavailableError
from ...policy import host_name

__all__ = ("NetworkSecret", "SecretFiles", "prepare_secrets")

SHORTEST: Final = 8
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE: Final = re.compile(r"(?:(https?)://)?(\*\.)?(\[[0-9A-Fa-f:.]+\]|[^\[\]:/*]+)(?::([0-9]{1,5}))?")
_FOLDER: Final = "/etc/gloveport"
_BUNDLE: Final = f"{_FOLDER}/ca-bundle.pem"
_AUTHORITY: Final = f"{_FOLDER}/authority.pem"
_SYSTEM_BUNDLE: Final = "/etc/ssl/certs/ca-certificates.crt"
_BUNDLES: Final = (_SYSTEM_BUNDLE, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem")
_VALID: Final = dt.timedelta(days=825)
"""As long as clients accept a certificate of an authority that a user added (Apple's limit)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkSecret:
    """A value for requests to some hosts.

    Args:
        value: at least 8 printable characters.
        hosts: who gets it: `"api.example.com"` (HTTPS, port 443), `"api.example.com:8443"`, `"*.example.com"` (one label),
            `"http://localhost.example:8000"` (without TLS). The rules of the network have to allow them as well.
    """

    value: str = dataclasses.field(repr=False)
    hosts: Sequence[str]

    def __post_init__(self) -> None:
        if not isinstance(self.value, str) or not re.fullmatch(f"[!-~]{{{SHORTEST},}}", self.value):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"the value of a secret is a text of at least {SHORTEST} printable ASCII characters")
        if isinstance(self.hosts, str) or not self.hosts:
            raise ValueError("`hosts` of a secret must be a list of at least one host")
        for place in self.hosts:
            _place(place)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecretFiles:
    """What has to be in the sandbox before its first command."""

    environment: Mapping[str, str]
    """Placeholders by the names of the secrets, and where programs find the authority."""
    files: Mapping[str, bytes]
    """Contents by absolute path; for everybody to read."""


def prepare_secrets(folder: str, secrets: Mapping[str, NetworkSecret]) -> SecretFiles:
    """Makes placeholders and an authority for a box, and writes into its directory what the gateway needs (0600).

    The authority is for the named hosts only (name constraints), and its key is thrown away here: nobody can make a further certificate.

    Raises `ValueError` for names that are none, and `EngineUnavailableError` without the extra `encryption`.
    """
    made: list[BoxSecret] = []
    for name, secret in secrets.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for a secret: it becomes a variable of the environment")
        # It begins like the value's kind of key would not: no scanner takes it for one.
        placeholder = f"gloveport-{name.lower().replace('_', '-')}-{randomness.token_hex(12)}"
        made.append(BoxSecret(name, placeholder, secret.value, tuple(map(_spelled, secret.hosts))))
    environment = {secret.name: secret.placeholder for secret in made}
    places = [_place(host) for secret in secrets.values() for host in secret.hosts]
    names = list(dict.fromkeys(host for scheme, host in places if scheme == "https"))
    if not names:
        write_file(folder, SECRETS_FILE, BoxSecrets(tuple(made)))
        return SecretFiles(environment=environment, files={})
    authority, certificate = _certificates(names)
    write_file(folder, SECRETS_FILE, BoxSecrets(tuple(made), certificate))
    bundle = _system_bundle() + authority
    trust = dict.fromkeys(
        ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "PIP_CERT", "NPM_CONFIG_CAFILE"),
        _BUNDLE,
    )
    return SecretFiles(
        environment={**environment, **trust, "NODE_EXTRA_CA_CERTS": _AUTHORITY},
        files={_BUNDLE: bundle, _AUTHORITY: authority, _SYSTEM_BUNDLE: bundle},
    )


def _place(text: str) -> tuple[str, str]:
    """Scheme and host name, the latter with its star. Raises `ValueError`."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise ValueError(f"a secret's host is a name, with a port or not, not {text!r}")
    try:
        return match[1] or "https", (match[2] or "") + host_name(match[3])
    except ValueError as error:
        raise ValueError(f"a secret cannot be for {text!r}: {error}") from None


def _spelled(text: str) -> str:
    """The same place, with the host as the gateway spells it."""
    match = _PLACE.fullmatch(text)
    assert match is not None
    host = host_name(match[3])
    scheme = f"{match[1]}://" if match[1] else ""
    return f"{scheme}{match[2] or ''}{f'[{host}]' if ':' in host else host}{f':{match[4]}' if match[4] else ''}"


def _system_bundle() -> bytes:
    found = [ssl.get_default_verify_paths().cafile, *_BUNDLES]
    for path in filter(None, found):
        try:
            with open(path, "rb") as file:
                return file.read().rstrip() + b"\n"
        except OSError:
            continue
    return b""


def _certificates(names: Sequence[str]) -> tuple[bytes, str]:
    """An authority's certificate, and chain and key of a certificate for all the names."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ImportError as error:
        raise EngineUnavailableError(
            "secrets for hosts with TLS need certificates: install gloveport[encryption]"
        ) from error
    now = dt.datetime.now(dt.timezone.utc)

    def built(subject: str, issuer: str, key: Any) -> Any:
        def named(text: str) -> Any:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        builder = x509.CertificateBuilder().subject_name(named(subject)).issuer_name(named(issuer))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + _VALID)

    authority_name = f"gloveport sandbox {randomness.token_hex(4)}"
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    alternatives = [_alternative(x509, name) for name in names]
    permitted = [_constraint(x509, name) for name in names]
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        built(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.NameConstraints(permitted_subtrees=permitted, excluded_subtrees=None), critical=True)
        .add_extension(_usage(x509, key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    leaf = (
        built("gloveport gateway", authority_name, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(_usage(x509, digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return authority.public_bytes(encoding), (leaf.public_bytes(encoding) + private).decode()


def _alternative(x509: Any, name: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _constraint(x509: Any, name: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_network(name))
    except ValueError:
        return x509.DNSName(name.removeprefix("*."))


def _usage(x509: Any, **wanted: bool) -> Any:
    every = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: wanted.get(name, False) for name in every})


def remove_secrets(folder: str) -> None:
    """Forgets a box's secrets."""
    try:
        os.unlink(os.path.join(folder, SECRETS_FILE))
    except FileNotFoundError:
        pass
