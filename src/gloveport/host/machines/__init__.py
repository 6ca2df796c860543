"""Machines with the trusted half around them: their networks, their files, their life."""
