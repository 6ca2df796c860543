"""The base of every error."""

from __future__ import annotations

__all__ = (
    "GloveportError",
    "SandboxWarning",
)


class GloveportError(Exception):
    """Base of all of them."""

    code: str = "error"
    """A stable, lower-case identifier for programs."""
    retryable: bool = False
    """Whether the same call can succeed later without a change (a busy session, a crashed worker)."""


class SandboxWarning(UserWarning):
    """`sandbox="auto"` started with layers of the jail missing; the text lists them."""
