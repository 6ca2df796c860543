"""Errors of what code runs on."""

from __future__ import annotations

from .base import GloveportError

__all__ = (
    "EngineUnavailableError",
    "ImageError",
    "ProtocolViolation",
    "SandboxUnavailableError",
    "TypeCheckUnavailableError",
)


class SandboxUnavailableError(GloveportError, RuntimeError):
    """`sandbox="require"` and a layer is missing, or the self-test could do a forbidden thing."""

    code = "sandbox_unavailable"


class TypeCheckUnavailableError(GloveportError, RuntimeError):
    """Type checking was asked for, and the TypeScript compiler is not installed (`gloveport install typecheck`) or does not start."""

    code = "type_check_unavailable"


class EngineUnavailableError(GloveportError, RuntimeError):
    """A part that gloveport needs is not built or does not start; the text says how to get it."""

    code = "engine_unavailable"


class ImageError(GloveportError, ValueError):
    """A heap image is malformed or out of bounds; nothing was changed."""

    code = "image"


class ProtocolViolation(GloveportError, RuntimeError):
    """A worker sent bytes that no worker of ours sends. It is killed."""

    code = "protocol"
