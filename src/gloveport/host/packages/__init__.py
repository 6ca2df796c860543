"""Packages for modules: which ones may be imported, and the trusted process that fetches them."""
