"""The Linux jail around every process that runs what we do not trust, and the test that it holds."""
