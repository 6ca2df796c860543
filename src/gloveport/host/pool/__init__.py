"""`SessionPool`: many sessions per user, kept in a store, awake only while someone uses them."""

from .handle import PooledSession
from .pool import PoolStats, SessionPool

__all__ = ("PoolStats", "PooledSession", "SessionPool")
