"""Deno processes that run what models wrote: started and jailed before they are wanted, used once."""
