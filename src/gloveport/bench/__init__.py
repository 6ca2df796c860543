"""Measurements that the project promises something about, side by side with its peers. `SPECIFICATION.md` has the promises."""
