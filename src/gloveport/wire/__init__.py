"""What the host and a worker say to each other, without any I/O. The contract is `PROTOCOL.md`."""
