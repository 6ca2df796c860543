"""The driver `namespace`: machines of the host's own kernel, for root and for ordinary users, without a daemon."""
